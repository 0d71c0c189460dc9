"""What all things of EC2 share that are found by their tags."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar, Final

import msgspec
from botocore.exceptions import ClientError

from dovetail.eks.aws_client import Raw, Reach
from dovetail.eks.plan.resource import NAME_TAG, OWNER_TAG, Existing, Resource
from dovetail.eks.resources.handler import Attributes, WrongStep
from dovetail.eks.resources.property_names import differing, tag_list, tag_map

_GONE: Final = frozenset({"deleted", "deleting", "failed"})


class Making(msgspec.Struct, frozen=True):
    """A call that makes something: its method, the answer's key, what is asked."""

    method: str
    key: str
    asked: Mapping[str, Any]


class Tagged(ABC):
    """One kind of EC2's, described by one call and tagged when it is made."""

    kind: str
    lists: ClassVar[tuple[str, str]]
    """The describing method, and the key of the list in its answer."""
    id_key: ClassVar[str]
    calls_itself: ClassVar[str]
    """EC2's name for the type, in TagSpecifications."""

    def __init__(self, reach: Reach) -> None:
        self._reach = reach

    async def observe(self, cluster: str, wanted: Sequence[Resource]) -> Iterable[Existing]:
        found = await self._described(_tag_filter(OWNER_TAG, cluster))
        # In one order, so that all who look keep the same one of two.
        found.sort(key=lambda raw: str(raw[self.id_key]))
        named: dict[str, Existing] = {}
        for raw in found:
            name = self.name_of(raw)
            # Two of a kind: an answer got lost once. One is kept, the other is nobody's.
            unique = name if name not in named else f"{name}#{raw[self.id_key]}"
            named[unique] = await self._existing(raw, unique)
        for one in wanted:
            for raw in await self._in_its_place(one) if one.name not in named else ():
                named[one.name] = await self._existing(raw, one.name)
        return named.values()

    async def create(self, resource: Resource) -> Attributes:
        method = self.making(resource).method
        raw = await self._reach.seen_soon(
            lambda: self._reach.call("ec2", method, lambda: self._made(resource))
        )
        return self.attributes(await self.ready(raw))

    async def change(self, existing: Existing, resource: Resource) -> Attributes:
        names = differing(existing, resource)
        if "Tags" in names:
            await self._reach.ask(
                "ec2",
                "create_tags",
                Resources=[self.id_of(existing)],
                Tags=tag_list(resource.tags),
            )
        changed = names - {"Tags"}
        if changed:
            return {**existing.attributes, **await self.amend(existing, resource, changed)}
        return existing.attributes

    async def remove(self, existing: Existing) -> None:
        id_ = self.id_of(existing)
        if id_:
            await self.unmake(id_)

    @abstractmethod
    def properties(self, raw: Raw) -> Mapping[str, Any]:
        """Return what can be seen of it, in CloudFormation's shape."""

    @abstractmethod
    def making(self, resource: Resource) -> Making:
        """Return the call that makes it, but for the tags."""

    @abstractmethod
    async def unmake(self, id_: str) -> None:
        """Remove it, and wait until it is gone if that takes time."""

    async def amend(
        self, existing: Existing, resource: Resource, names: frozenset[str]
    ) -> Attributes:
        """Change properties; most kinds have none that could be changed."""
        raise WrongStep(f"{resource.address}: {sorted(names)} cannot be changed")

    def place(self, resource: Resource) -> Sequence[Raw]:
        """Return filters for a thing of any owner that would keep ours from being made."""
        return ()

    async def more(self, raw: Raw) -> Mapping[str, Any]:
        """Return properties that take further calls to see."""
        return {}

    async def ready(self, raw: Raw) -> Raw:
        """Wait until others can use it."""
        return raw

    def attributes(self, raw: Raw) -> Attributes:
        return {"id": raw[self.id_key]}

    def name_of(self, raw: Raw) -> str:
        return tag_map(raw.get("Tags")).get(NAME_TAG) or str(raw[self.id_key])

    def id_of(self, existing: Existing) -> str:
        return str(existing.attributes.get("id", ""))

    async def one(self, id_: str) -> Raw | None:
        """Return it as it is now; None when it is gone."""
        found = await self._described({"Name": self.id_filter, "Values": [id_]})
        return found[0] if found else None

    @property
    def id_filter(self) -> str:
        return self.calls_itself + "-id"

    async def gone(self, id_: str) -> None:
        """Wait until it is gone."""

        async def look() -> bool | None:
            return True if await self.one(id_) is None else None

        await self._reach.until(f"{id_} is being removed", look)

    async def _existing(self, raw: Raw, name: str) -> Existing:
        return Existing(
            kind=self.kind,
            name=name,
            properties={**self.properties(raw), **await self.more(raw)},
            tags=tag_map(raw.get("Tags")),
            attributes=self.attributes(raw),
            settled=raw.get("State") != "pending",
        )

    def _made(self, resource: Resource) -> Raw:
        """Make it unless it is there: in a thread, and again when an answer got lost.

        Most of EC2's calls that create have no token by which they would know a
        repetition; so each try begins with a look.
        """
        found = self._there(resource)
        if found is not None:
            return found
        call = self.making(resource)
        tags = [{"ResourceType": self.calls_itself, "Tags": tag_list(resource.tags)}]
        try:
            answer = self._make(call.method)(**call.asked, TagSpecifications=tags)
        except ClientError:
            # Somebody who applies the same file at the same time was quicker.
            found = self._there(resource)
            if found is None:
                raise
            return found
        return dict(answer[call.key] if call.key else answer)

    def _make(self, method: str) -> Callable[..., Raw]:
        made: Callable[..., Raw] = getattr(self._reach.aws.client("ec2"), method)
        return made

    def _there(self, resource: Resource) -> Raw | None:
        """Return what is there of a resource of ours; asked from a thread."""
        client = self._reach.aws.client("ec2")
        method, key = self.lists
        owner = _tag_filter(OWNER_TAG, resource.tags[OWNER_TAG])
        listed = client.get_paginator(method) if client.can_paginate(method) else None
        pages = (
            listed.paginate(Filters=[owner])
            if listed
            else [getattr(client, method)(Filters=[owner])]
        )
        found = [
            raw
            for page in pages
            for raw in page[key]
            if _is_there(raw) and self.name_of(raw) == resource.name
        ]
        return dict(min(found, key=lambda raw: str(raw[self.id_key]))) if found else None

    async def _in_its_place(self, resource: Resource) -> list[Raw]:
        filters = self.place(resource)
        return await self._described(*filters) if filters else []

    async def _described(self, *filters: Raw) -> list[Raw]:
        method, key = self.lists
        found = await self._reach.ask_all("ec2", method, key, Filters=list(filters))
        return [raw for raw in found if _is_there(raw)]


def _is_there(raw: Raw) -> bool:
    return str(raw.get("State", "")).lower() not in _GONE


def _tag_filter(key: str, value: str) -> Raw:
    return {"Name": f"tag:{key}", "Values": [value]}
