"""Images: those that terms select, and of those the ones to boot."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

import msgspec

from dovetail.aws.errors import AwsError, Kind
from dovetail.aws.filters import tag_filters
from dovetail.aws.nodeclass.ami_aliases import Published, Requirements, published
from dovetail.aws.session import Aws
from dovetail.aws.ttl_cache import Remembered
from dovetail.model import labels as label_keys
from dovetail.model.karpenter.ec2nodeclass_launch import Image, SelectorTerm
from dovetail.model.kube.requirements import Operator, RequirementSpec
from dovetail.ports.event_loop import Clock
from dovetail.ports.telemetry import Log

_ARCHITECTURES: Final = {"x86_64": "amd64", "arm64": "arm64"}
_OF_AWS: Final = timedelta(hours=24)
_OF_USERS: Final = timedelta(minutes=5)
_DOUBTED_AFTER: Final = timedelta(minutes=30)
"""A parameter is read again by then when the image that it held is deprecated."""
_USUAL_OWNERS: Final = ("self", "amazon")
_PAGE: Final[Any] = {"PageSize": 1000}


class Candidate(msgspec.Struct, frozen=True, kw_only=True):
    """An image that terms find, for one kind of machine."""

    id: str
    name: str = ""
    created: str = ""
    """ISO 8601, as EC2 writes it."""
    deprecated: bool = False
    requirements: Requirements = ()

    def image(self) -> Image:
        return Image(
            id=self.id,
            name=self.name,
            deprecated=self.deprecated,
            requirements=self.requirements,
        )


class Query(msgspec.Struct, frozen=True, kw_only=True):
    """One DescribeImages."""

    filters: tuple[Mapping[str, Any], ...]
    owners: tuple[str, ...] = ()


def queries_of(terms: Iterable[SelectorTerm], ids: Iterable[str]) -> list[Query]:
    """Return what to ask EC2 for these terms, and for ids that parameters gave."""
    every = [*(term.id for term in terms if term.id), *ids]
    queries = [Query(filters=({"Name": "image-id", "Values": every},))] if every else []
    for term in terms:
        if term.id or term.alias or term.ssm_parameter:
            continue
        filters = list(tag_filters(term.tags))
        owners: tuple[str, ...] = (term.owner,) if term.owner else ()
        if term.name:
            filters.append({"Name": "name", "Values": [term.name]})
            owners = owners or _USUAL_OWNERS
        if filters or owners:
            queries.append(Query(filters=tuple(filters), owners=owners))
    return queries


def candidates_of(
    described: Iterable[Mapping[str, Any]],
    kinds: Mapping[str, tuple[Requirements, ...]],
    now: datetime,
) -> list[Candidate]:
    """Read images; ``kinds`` says for which machines those of an alias are."""
    found: list[Candidate] = []
    for one in described:
        arch = _ARCHITECTURES.get(one.get("Architecture", ""))
        if arch is None:
            continue
        wanted = RequirementSpec(label_keys.ARCH, Operator.IN, (arch,))
        ends = one.get("DeprecationTime")
        found += [
            Candidate(
                id=one["ImageId"],
                name=one.get("Name", ""),
                created=str(one.get("CreationDate", "")),
                deprecated=bool(ends) and _instant(str(ends)) <= now,
                requirements=_sorted((*kind, wanted)),
            )
            for kind in kinds.get(one["ImageId"], ((),))
        ]
    return found


def best_of(candidates: Iterable[Candidate]) -> tuple[Image, ...]:
    """Return one image for each kind of machine, newest first.

    An image that is not deprecated beats one that is, then the newer wins, then
    the name that comes later.
    """
    best: dict[Requirements, Candidate] = {}
    for one in candidates:
        known = best.get(one.requirements)
        if known is None or _rank(one) > _rank(known):
            best[one.requirements] = one
    by_id = sorted(best.values(), key=lambda one: (one.id, str(one.requirements)))
    return tuple(one.image() for one in sorted(by_id, key=lambda one: one.created, reverse=True))


class Images:
    """Finds images; remembers for a while what parameters hold."""

    def __init__(self, aws: Aws, *, clock: Clock, log: Log) -> None:
        self._aws = aws
        self._clock = clock
        self._log = log
        self._parameters: Remembered[str] = Remembered(clock.now)

    async def find(self, terms: Sequence[SelectorTerm], kubernetes: str) -> tuple[Image, ...]:
        """Return the images of the terms, newest first; none when nothing is found."""
        read = {one: await self._read(one) for one in self._sources(terms, kubernetes)}
        kinds: dict[str, tuple[Requirements, ...]] = {}
        for source, image_id in read.items():
            if image_id:
                kinds[image_id] = (*kinds.get(image_id, ()), *source.kinds)
        described: dict[str, Mapping[str, Any]] = {}
        for query in queries_of(terms, kinds):
            for one in await self._describe(query):
                described[one["ImageId"]] = one
        found = candidates_of(described.values(), kinds, self._clock.now())
        self._doubt(read, {one.id for one in found if one.deprecated})
        return best_of(found)

    def _sources(self, terms: Sequence[SelectorTerm], kubernetes: str) -> list[Published]:
        sources: list[Published] = []
        for term in terms:
            if term.alias:
                sources += published(term.alias, kubernetes)
            elif term.ssm_parameter:
                sources.append(Published(parameter=term.ssm_parameter, changing=True))
        return sources

    async def _read(self, source: Published) -> str | None:
        """Return the image that a parameter holds; None when it holds none."""
        name = source.parameter
        known = self._parameters.get(name)
        if known is not None:
            return known
        ssm = self._aws.client("ssm")
        try:
            answer = await self._aws.call("GetParameter", lambda: ssm.get_parameter(Name=name))
        except AwsError as error:
            if error.kind is Kind.GONE:
                return None
            raise
        value = str(answer["Parameter"]["Value"])
        if not value.startswith("ami-"):
            self._log.error("ssm parameter holds no image", parameter=name, value=value)
            return None
        of_aws = name.startswith("/aws/service/")
        self._parameters.put(name, value, lasting=_OF_AWS if of_aws else _OF_USERS)
        return value

    async def _describe(self, query: Query) -> list[Mapping[str, Any]]:
        ec2 = self._aws.ec2()
        filters: Any = [*query.filters, {"Name": "state", "Values": ["available"]}]
        owners: Any = {"Owners": list(query.owners)} if query.owners else {}

        def pages() -> list[Mapping[str, Any]]:
            every = ec2.get_paginator("describe_images").paginate(
                Filters=filters, IncludeDeprecated=True, PaginationConfig=_PAGE, **owners
            )
            return [one for page in every for one in page["Images"]]

        return await self._aws.call("DescribeImages", pages)

    def _doubt(self, read: Mapping[Published, str | None], deprecated: set[str]) -> None:
        for source, image_id in read.items():
            name = source.parameter
            old = self._parameters.age(name) >= _DOUBTED_AFTER
            if source.changing and image_id in deprecated and old:
                self._parameters.drop(name)


def wire(image: Image) -> dict[str, Any]:
    """Write it as an entry of ``status.amis``."""
    shown: dict[str, Any] = {"id": image.id, "name": image.name}
    if image.deprecated:
        shown["deprecated"] = True
    shown["requirements"] = [
        {"key": one.key, "operator": str(one.operator)}
        | ({"values": list(one.values)} if one.values else {})
        for one in image.requirements
    ]
    return shown


def _rank(one: Candidate) -> tuple[bool, str, str]:
    return not one.deprecated, one.created, one.name


def _sorted(requirements: Requirements) -> Requirements:
    return tuple(sorted(requirements, key=lambda one: (len(one.key), one.key)))


def _instant(text: str) -> datetime:
    return datetime.fromisoformat(text.replace("Z", "+00:00"))
