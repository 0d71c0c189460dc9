"""Instance profiles: created for the role of a node class, deleted with it."""

import re
from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from functools import partial
from hashlib import sha256
from typing import Any, Final

from dovetail.aws.errors import AwsError, ErrorKind
from dovetail.aws.session import AwsSession
from dovetail.aws.ttl_cache import TtlCache
from dovetail.model import labels as label_keys
from dovetail.model.karpenter.ec2nodeclass import EC2NodeClass
from dovetail.ports.event_loop import Clock, EventLoop
from dovetail.ports.telemetry import Log

_PROFILE_TTL: Final = timedelta(minutes=15)
_MISSING_ROLE_TTL: Final = timedelta(minutes=1)
_GC_GRACE: Final = timedelta(hours=1)
"""Since creation or last use: no status or annotation may name the profile yet."""
_GC_INTERVAL: Final = timedelta(minutes=30)
_MAX_NAMES: Final = 5
_ENTITY_EXISTS: Final = "EntityAlreadyExists"
_LIMIT_EXCEEDED: Final = "LimitExceeded"
"""A profile has at most one role."""
_VALID_NAME: Final = re.compile(r"[\w+=,.@-]{1,128}")


class RoleNotFoundError(AwsError):
    """IAM has no such role."""


class InstanceProfiles:
    """One profile for each role that a node class has or had.

    The name is a hash of node class and role, so creation is idempotent: a
    process that restarts finds the profile again. A new role gets a new profile;
    instances with the old role keep theirs until they are replaced.
    """

    def __init__(
        self, aws: AwsSession, *, cluster: str, clock: Clock, log: Log, isolated: bool = False
    ) -> None:
        """``isolated``: the VPC has no route to IAM, so nothing is deleted."""
        self._aws = aws
        self._clock = clock
        self._cluster = cluster
        self._isolated = isolated
        self._log = log
        self._names: TtlCache[str] = TtlCache(clock.now)
        """(node class uid, role) → profile name."""
        self._recently_used: TtlCache[bool] = TtlCache(clock.now)
        """Profile name → True."""
        self._missing_roles: TtlCache[AwsError] = TtlCache(clock.now)

    async def ensure(self, node_class: EC2NodeClass) -> str:
        """Return the profile of a node class's role; create it if it does not exist."""
        role = node_class.launch.role.rpartition("/")[2]
        key = (node_class.uid, role)
        cached = self._names.get(key)
        if cached is not None:
            self._recently_used.put(cached, True, ttl=_GC_GRACE)
            return cached
        missing = self._missing_roles.get(role)
        if missing is not None:
            raise missing
        for name in profile_names(self._cluster, self._aws.region, node_class):
            if await self._ensure_profile(name, role, node_class):
                self._names.put(key, name, ttl=_PROFILE_TTL)
                self._recently_used.put(name, True, ttl=_GC_GRACE)
                return name
        raise AwsError(
            "GetInstanceProfile",
            _ENTITY_EXISTS,
            f"all profile names for role {role} belong to profiles with another role",
        )

    async def delete_for(self, node_class: EC2NodeClass) -> None:
        """Delete every profile that was created for a node class."""
        if self._isolated:
            return
        for profile in await self._list(self._path(node_class.uid)):
            await self._delete(profile["InstanceProfileName"], _roles(profile))
        legacy_name = legacy_profile_name(self._cluster, self._aws.region, node_class.name)
        if _VALID_NAME.fullmatch(legacy_name):
            legacy = await self._get(legacy_name)
            if legacy is not None:
                await self._delete(legacy_name, _roles(legacy))
        self._names.discard_if(lambda key: isinstance(key, tuple) and key[0] == node_class.uid)

    async def run_garbage_collection(
        self, used: Callable[[], Iterable[str] | None], *, loop: EventLoop
    ) -> None:
        """Delete unused profiles every half hour, until cancelled.

        ``used`` returns the argument of ``collect_garbage``, or None if the cluster
        cache is not synced.
        """
        while True:
            await loop.sleep(_GC_INTERVAL)
            names = used()
            if names is None:
                continue
            try:
                await self.collect_garbage(names)
            except AwsError as error:
                self._log.error("failed collecting instance profiles", error=str(error))

    async def collect_garbage(self, used: Iterable[str]) -> None:
        """Delete profiles of this cluster that nothing uses.

        ``used`` are the profiles in the status of node classes and in the
        annotations of NodeClaims.
        """
        if self._isolated:
            return
        in_use = set(used)
        for profile in await self._list(f"/karpenter/{self._aws.region}/{self._cluster}/"):
            name = profile["InstanceProfileName"]
            is_new = profile["CreateDate"] > self._clock.now() - _GC_GRACE
            if name not in in_use and not is_new and not self._recently_used.get(name):
                await self._delete(name, _roles(profile))

    async def _ensure_profile(self, name: str, role: str, node_class: EC2NodeClass) -> bool:
        """Create a profile if needed; False if a profile of that name has another role."""
        existing = await self._get(name)
        if existing is not None and _roles(existing):
            return _roles(existing) == [role]
        is_new = existing is None
        if is_new:
            await self._create(name, node_class)
        try:
            await self._add_role(name, role)
        except AwsError as error:
            if error.code == _LIMIT_EXCEEDED:
                # It has a role: ours, if the response of an earlier call was lost.
                return _roles(await self._get(name) or {}) == [role]
            # After a throttled or lost call the next attempt continues with this profile.
            if is_new and error.kind not in (ErrorKind.THROTTLED, ErrorKind.TRANSIENT):
                await self._delete(name, [])
            if error.kind is ErrorKind.NOT_FOUND:
                role_error = RoleNotFoundError(
                    error.operation,
                    error.code,
                    f"there is no role {role} in this account; create it, or correct spec.role",
                )
                self._missing_roles.put(role, role_error, ttl=_MISSING_ROLE_TTL)
                raise role_error from error
            raise
        return True

    async def _create(self, name: str, node_class: EC2NodeClass) -> None:
        iam = self._aws.client("iam")
        tags = {
            **node_class.launch.tags,
            f"kubernetes.io/cluster/{self._cluster}": "owned",
            "eks:eks-cluster-name": self._cluster,
            label_keys.EC2_NODE_CLASS: node_class.name,
            label_keys.REGION: self._aws.region,
        }
        parameters = {
            "InstanceProfileName": name,
            "Path": self._path(node_class.uid),
            "Tags": [{"Key": key, "Value": value} for key, value in sorted(tags.items())],
        }
        try:
            await self._aws.call("CreateInstanceProfile", lambda: iam.create_instance_profile(**parameters))
        except AwsError as error:
            if error.code != _ENTITY_EXISTS:
                raise
            return
        self._log.info("created instance profile", profile=name, nodeclass=node_class.name)

    async def _add_role(self, name: str, role: str) -> None:
        iam = self._aws.client("iam")
        parameters = {"InstanceProfileName": name, "RoleName": role}
        await self._aws.call(
            "AddRoleToInstanceProfile", lambda: iam.add_role_to_instance_profile(**parameters)
        )

    async def _list(self, path: str) -> list[Mapping[str, Any]]:
        iam = self._aws.client("iam")
        profiles = await self._aws.list_pages(
            "ListInstanceProfiles", iam, "InstanceProfiles", PathPrefix=path
        )
        # The result may be deleted: do not rely on the server-side filter alone.
        return [profile for profile in profiles if profile["Path"].startswith(path)]

    async def _get(self, name: str) -> Mapping[str, Any] | None:
        iam = self._aws.client("iam")
        response = await self._aws.call_or_none(
            "GetInstanceProfile", lambda: iam.get_instance_profile(InstanceProfileName=name)
        )
        profile: Mapping[str, Any] | None = response and response["InstanceProfile"]
        return profile

    async def _delete(self, name: str, roles: Iterable[str]) -> None:
        iam = self._aws.client("iam")
        for role in roles:
            parameters = {"InstanceProfileName": name, "RoleName": role}
            # None: it was removed by a call whose response was lost, or by another process.
            await self._aws.call_or_none(
                "RemoveRoleFromInstanceProfile", partial(iam.remove_role_from_instance_profile, **parameters)
            )
        await self._aws.call_or_none(
            "DeleteInstanceProfile", partial(iam.delete_instance_profile, InstanceProfileName=name)
        )
        self._names.discard_if(lambda key: self._names.get(key) == name)
        self._log.info("deleted instance profile", profile=name)

    def _path(self, uid: str) -> str:
        return f"/karpenter/{self._aws.region}/{self._cluster}/{uid}/"


def profile_names(cluster: str, region: str, node_class: EC2NodeClass) -> Iterable[str]:
    """Yield the names to try for the profile of a node class's role, in order."""
    role = node_class.launch.role.rpartition("/")[2]
    for attempt in range(_MAX_NAMES):
        text = "/".join([region, node_class.name, node_class.uid, role, str(attempt)])
        yield f"{cluster}_{int.from_bytes(sha256(text.encode()).digest()[:8], 'big')}"


def legacy_profile_name(cluster: str, region: str, node_class: str) -> str:
    """Return the profile name that Karpenter used before 1.7."""
    value = 0xCBF29CE484222325  # FNV-1, 64 bits.
    for byte in f"{region}{node_class}".encode():
        value = (value * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF) ^ byte
    return f"{cluster}_{value}"


def _roles(profile: Mapping[str, Any]) -> list[str]:
    return [role["RoleName"] for role in profile.get("Roles", ())]
