"""Instance profiles: made for the role of a class, and taken away with it."""

import re
from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from hashlib import sha256
from typing import Any, Final

from dovetail.aws.errors import AwsError, Kind
from dovetail.aws.session import Aws
from dovetail.aws.ttl_cache import Remembered
from dovetail.model import labels as label_keys
from dovetail.model.karpenter.ec2nodeclass import NodeClass
from dovetail.ports.event_loop import Clock, Loop
from dovetail.ports.telemetry import Log

_KNOWN_FOR: Final = timedelta(minutes=15)
_MISSING_FOR: Final = timedelta(minutes=1)
_SAFE_FOR: Final = timedelta(hours=1)
"""After it was made or last asked for: it may not yet stand where ``collect`` would look."""
_LOOK: Final = timedelta(minutes=30)
_MOST_NAMES: Final = 5
_EXISTS: Final = "EntityAlreadyExists"
_NAME: Final = re.compile(r"[\w+=,.@-]{1,128}")


class RoleNotFound(AwsError):
    """IAM has no such role."""


class Profiles:
    """Keeps one profile for each role that a class has or had.

    Names follow from class and role, so that a process that died while it made
    one finds it again. A new role is a new profile: machines of the old role go
    on with theirs until they are replaced.
    """

    def __init__(
        self, aws: Aws, *, cluster: str, clock: Clock, log: Log, isolated: bool = False
    ) -> None:
        """``isolated``: IAM cannot be reached from here, so that nothing can be taken away."""
        self._aws = aws
        self._clock = clock
        self._cluster = cluster
        self._isolated = isolated
        self._log = log
        self._known: Remembered[str] = Remembered(clock.now)
        self._safe: Remembered[bool] = Remembered(clock.now)
        self._missing: Remembered[AwsError] = Remembered(clock.now)

    async def ensure(self, node_class: NodeClass) -> str:
        """Return the profile of a class's role, making it if need be."""
        role = node_class.launch.role.rpartition("/")[2]
        key = (node_class.uid, role)
        known = self._known.get(key)
        if known is not None:
            self._safe.put(known, True, lasting=_SAFE_FOR)
            return known
        missing = self._missing.get(role)
        if missing is not None:
            raise missing
        for name in names_of(self._cluster, self._aws.region, node_class):
            if await self._is_usable(name, role, node_class):
                self._known.put(key, name, lasting=_KNOWN_FOR)
                self._safe.put(name, True, lasting=_SAFE_FOR)
                return name
        raise AwsError(
            "GetInstanceProfile", _EXISTS, f"all names for role {role} are taken by others"
        )

    async def forget(self, node_class: NodeClass) -> None:
        """Take away every profile that was made for a class."""
        if self._isolated:
            return
        for profile in await self._listed(self._path(node_class.uid)):
            await self._delete(profile["InstanceProfileName"], _roles(profile))
        old = legacy_name(self._cluster, self._aws.region, node_class.name)
        if _NAME.fullmatch(old):
            left = await self._get(old)
            if left is not None:
                await self._delete(old, _roles(left))
        self._known.drop_if(lambda key: isinstance(key, tuple) and key[0] == node_class.uid)

    async def keep_tidy(self, used: Callable[[], Iterable[str] | None], *, loop: Loop) -> None:
        """Collect every half hour, for as long as the process lives.

        ``used`` as for ``collect``; None while it is not known.
        """
        while True:
            await loop.sleep(_LOOK)
            kept = used()
            if kept is None:
                continue
            try:
                await self.collect(kept)
            except AwsError as error:
                self._log.error("failed collecting instance profiles", error=str(error))

    async def collect(self, used: Iterable[str]) -> None:
        """Take away profiles of this cluster that no class and no claim names any more.

        ``used`` are the profiles in the status of classes and in the annotations
        of claims.
        """
        if self._isolated:
            return
        kept = set(used)
        for profile in await self._listed(f"/karpenter/{self._aws.region}/{self._cluster}/"):
            name = profile["InstanceProfileName"]
            young = profile["CreateDate"] > self._clock.now() - _SAFE_FOR
            if name not in kept and not young and not self._safe.get(name):
                await self._delete(name, _roles(profile))

    async def _is_usable(self, name: str, role: str, node_class: NodeClass) -> bool:
        """Bring a profile about; False when its name is taken by one with another role."""
        found = await self._get(name)
        if found is not None and _roles(found):
            return _roles(found) == [role]
        made = found is None
        if made:
            await self._create(name, node_class)
        try:
            await self._add_role(name, role)
        except AwsError as error:
            if made:
                await self._delete(name, [])
            if error.kind is Kind.GONE:
                told = RoleNotFound(
                    error.operation,
                    error.code,
                    f"there is no role {role} in this account; create it, or correct spec.role",
                )
                self._missing.put(role, told, lasting=_MISSING_FOR)
                raise told from error
            raise
        return True

    async def _create(self, name: str, node_class: NodeClass) -> None:
        iam = self._aws.client("iam")
        tags = {
            **node_class.launch.tags,
            f"kubernetes.io/cluster/{self._cluster}": "owned",
            "eks:eks-cluster-name": self._cluster,
            label_keys.EC2_NODE_CLASS: node_class.name,
            label_keys.REGION: self._aws.region,
        }
        asked = {
            "InstanceProfileName": name,
            "Path": self._path(node_class.uid),
            "Tags": [{"Key": key, "Value": value} for key, value in sorted(tags.items())],
        }
        try:
            await self._aws.call(
                "CreateInstanceProfile", lambda: iam.create_instance_profile(**asked)
            )
        except AwsError as error:
            if error.code != _EXISTS:
                raise
            return
        self._log.info("created instance profile", profile=name, nodeclass=node_class.name)

    async def _add_role(self, name: str, role: str) -> None:
        iam = self._aws.client("iam")
        asked = {"InstanceProfileName": name, "RoleName": role}
        await self._aws.call(
            "AddRoleToInstanceProfile", lambda: iam.add_role_to_instance_profile(**asked)
        )

    async def _listed(self, path: str) -> list[Mapping[str, Any]]:
        iam = self._aws.client("iam")

        def pages() -> list[Mapping[str, Any]]:
            every = iam.get_paginator("list_instance_profiles").paginate(PathPrefix=path)
            found = [one for page in every for one in page["InstanceProfiles"]]
            # Whatever is listed here may be deleted: look at the path ourselves as well.
            return [one for one in found if one["Path"].startswith(path)]

        return await self._aws.call("ListInstanceProfiles", pages)

    async def _get(self, name: str) -> Mapping[str, Any] | None:
        iam = self._aws.client("iam")
        try:
            answer = await self._aws.call(
                "GetInstanceProfile", lambda: iam.get_instance_profile(InstanceProfileName=name)
            )
        except AwsError as error:
            if error.kind is Kind.GONE:
                return None
            raise
        found: Mapping[str, Any] = answer["InstanceProfile"]
        return found

    async def _delete(self, name: str, roles: Iterable[str]) -> None:
        iam = self._aws.client("iam")
        try:
            for role in roles:
                asked = {"InstanceProfileName": name, "RoleName": role}
                await self._aws.call(
                    "RemoveRoleFromInstanceProfile",
                    lambda asked=asked: iam.remove_role_from_instance_profile(**asked),  # type: ignore[misc]
                )
            await self._aws.call(
                "DeleteInstanceProfile",
                lambda: iam.delete_instance_profile(InstanceProfileName=name),
            )
        except AwsError as error:
            if error.kind is not Kind.GONE:
                raise
            return  # Somebody was quicker.
        self._known.drop_if(lambda key: self._known.get(key) == name)
        self._log.info("deleted instance profile", profile=name)

    def _path(self, uid: str) -> str:
        return f"/karpenter/{self._aws.region}/{self._cluster}/{uid}/"


def names_of(cluster: str, region: str, node_class: NodeClass) -> Iterable[str]:
    """Return the names to try for the profile of a class's role, the first one first."""
    role = node_class.launch.role.rpartition("/")[2]
    for attempt in range(_MOST_NAMES):
        text = "/".join([region, node_class.name, node_class.uid, role, str(attempt)])
        yield f"{cluster}_{int.from_bytes(sha256(text.encode()).digest()[:8], 'big')}"


def legacy_name(cluster: str, region: str, node_class: str) -> str:
    """Return the name under which Karpenter before 1.7 kept a class's profile."""
    value = 0xCBF29CE484222325  # FNV-1, 64 bits.
    for byte in f"{region}{node_class}".encode():
        value = (value * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF) ^ byte
    return f"{cluster}_{value}"


def _roles(profile: Mapping[str, Any]) -> list[str]:
    return [one["RoleName"] for one in profile.get("Roles", ())]
