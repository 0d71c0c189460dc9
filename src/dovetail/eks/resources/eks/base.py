"""What the parts of an EKS cluster share: listed, described, waited for."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, Final

import msgspec

from dovetail.eks.aws_client import Raw, Reach, if_there
from dovetail.eks.plan.resource import OWNER_TAG, Existing, Resource
from dovetail.eks.resources.handler import Attributes
from dovetail.eks.resources.property_names import differing
from dovetail.errors import DovetailError

_MOVING: Final = frozenset({"CREATING", "UPDATING", "DELETING"})
_FAILED: Final = frozenset({"CREATE_FAILED", "DELETE_FAILED"})
BROKEN: Final = "(it did not come up)"


class Calls(msgspec.Struct, frozen=True, kw_only=True):
    """boto3's names for one part of a cluster."""

    listing: tuple[str, str]
    """Method, and key of the list in its answer."""
    describing: tuple[str, str]
    """Method, and key of the part in its answer."""
    name: str
    """The parameter that says which one."""
    creating: str
    removing: str
    arn: str
    """The key of the part's ARN."""


class InCluster(ABC):
    """One kind of part. What another made (a node group by hand) is left alone."""

    kind: str
    calls: ClassVar[Calls]

    def __init__(self, reach: Reach) -> None:
        self._reach = reach

    async def observe(self, cluster: str, wanted: Sequence[Resource]) -> Iterable[Existing]:
        found = await self._reach.loop.together(
            [self.one(cluster, key) for key in await self._keys(cluster)]
        )
        seen: list[Existing] = []
        for raw in found:
            if isinstance(raw, Exception):
                raise raw
            if raw is not None:
                seen.extend(self._recognised(raw, wanted, cluster))
        return seen

    async def create(self, resource: Resource) -> Attributes:
        cluster = resource.properties["ClusterName"]
        await self._reach.make("eks", self.calls.creating, **self.asked(resource))
        raw = await self.active(cluster, await self.key_of(resource))
        return self.attributes(raw)

    async def change(self, existing: Existing, resource: Resource) -> Attributes:
        names = differing(existing, resource)
        if "Tags" in names:
            arn = existing.attributes["arn"]
            await self._reach.ask("eks", "tag_resource", resourceArn=arn, tags=dict(resource.tags))
        if names - {"Tags"}:
            await self.amend(existing, resource, names)
        return existing.attributes

    async def remove(self, existing: Existing) -> None:
        cluster, key = self._reach.cluster, self.key_seen(existing)
        which = {"clusterName": cluster, self.calls.name: key}
        await self._reach.remove("eks", self.calls.removing, **which)

        async def look() -> bool | None:
            return True if await self.one(cluster, key) is None else None

        await self._reach.until(f"{existing.address} is being removed", look)

    @abstractmethod
    def asked(self, resource: Resource) -> Raw:
        """Return the arguments of the call that makes it."""

    @abstractmethod
    def properties(self, raw: Raw) -> Mapping[str, Any]:
        """Return what can be seen of it, in CloudFormation's shape."""

    @abstractmethod
    async def amend(
        self, existing: Existing, resource: Resource, names: frozenset[str]
    ) -> None: ...

    def is_it(self, raw: Raw, resource: Resource) -> bool:
        """Tell whether this is what a resource wants."""
        return self.key_raw(raw) == resource.name

    def key_raw(self, raw: Raw) -> str:
        return str(raw[self.calls.name])

    def key_seen(self, existing: Existing) -> str:
        return existing.name

    async def key_of(self, resource: Resource) -> str:
        """Return how EKS calls what a resource wants, once it is there."""
        return resource.name

    async def more(self, raw: Raw) -> Mapping[str, Any]:
        """Return properties that take further calls to see."""
        return {}

    def attributes(self, raw: Raw) -> Attributes:
        return {"arn": raw[self.calls.arn]}

    async def one(self, cluster: str, key: str) -> Raw | None:
        """Return a part as EKS describes it; None if there is none."""
        method, inside = self.calls.describing
        which = {"clusterName": cluster, self.calls.name: key}
        told = await self._reach.ask_if_there("eks", method, **which)
        if told is None:
            return None
        raw: Raw = told[inside]
        return {**raw, "more": await self.more(raw)}

    async def active(self, cluster: str, key: str) -> Raw:
        """Wait until it can be used."""

        async def look() -> Raw | None:
            raw = await self.one(cluster, key)
            if raw is None or raw.get("status") in _FAILED:
                raise DovetailError(f"{self.kind} {key} did not come up: {_troubles(raw)}")
            return raw if raw.get("status") not in _MOVING else None

        return await self._reach.until(f"{self.kind} {key}", look)

    async def _keys(self, cluster: str) -> list[str]:
        method, key = self.calls.listing
        work = self._reach.ask_all("eks", method, key, clusterName=cluster)
        return [self.listed_key(one) for one in await if_there(work) or ()]

    def listed_key(self, listed: Any) -> str:
        return str(listed)

    def _recognised(self, raw: Raw, wanted: Sequence[Resource], cluster: str) -> Iterable[Existing]:
        name = next((one.name for one in wanted if self.is_it(raw, one)), None)
        tags = raw.get("tags") or {}
        if name is None and tags.get(OWNER_TAG) != cluster:
            return
        seen = {**self.properties(raw), **raw["more"]}
        if raw.get("status") in _FAILED:
            # Of no use to anybody: a difference that cannot be changed has it made anew.
            seen["ClusterName"] = BROKEN
        yield Existing(
            kind=self.kind,
            name=name or self.key_raw(raw),
            properties=seen,
            tags=tags,
            attributes=self.attributes(raw),
            settled=raw.get("status") not in _MOVING,
        )


def _troubles(raw: Raw | None) -> str:
    issues = ((raw or {}).get("health") or {}).get("issues") or ()
    told = "; ".join(f"{one.get('code')}: {one.get('message')}" for one in issues)
    return told or "EKS does not say why"
