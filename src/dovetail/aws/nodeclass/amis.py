"""AMIs: resolves ``spec.amiSelectorTerms`` and selects one AMI per kind of instance type."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

import msgspec

from dovetail.aws.amifamily.family import AmiParameter, Requirements
from dovetail.aws.amifamily.registry import alias_parameters
from dovetail.aws.filters import tag_filters
from dovetail.aws.session import AwsSession
from dovetail.aws.ttl_cache import TtlCache
from dovetail.model import labels as label_keys
from dovetail.model.karpenter.ec2nodeclass_launch import Ami, SelectorTerm
from dovetail.model.kube.requirements import Operator, RequirementSpec
from dovetail.ports.event_loop import Clock
from dovetail.ports.telemetry import Log

_ARCHITECTURES: Final = {"x86_64": "amd64", "arm64": "arm64"}
_AWS_PARAMETER_TTL: Final = timedelta(hours=24)
_USER_PARAMETER_TTL: Final = timedelta(minutes=5)
_DEPRECATED_TTL: Final = timedelta(minutes=30)
"""Maximum age of a cached parameter whose AMI is deprecated: there may be a newer one."""
_DEFAULT_OWNERS: Final = ("self", "amazon")
_PAGE_SIZE: Final = 1000


class AmiCandidate(msgspec.Struct, frozen=True, kw_only=True):
    """An AMI that a term selects, for instance types with these requirements."""

    id: str
    name: str = ""
    created: str = ""
    """ISO 8601, so that the order of texts is the order of times."""
    deprecated: bool = False
    requirements: Requirements = ()

    def to_ami(self) -> Ami:
        """Return the entry of the node class status."""
        return Ami(id=self.id, name=self.name, deprecated=self.deprecated, requirements=self.requirements)


class ImageQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Parameters of one DescribeImages call."""

    filters: tuple[Mapping[str, Any], ...]
    owners: tuple[str, ...] = ()


def image_queries(terms: Iterable[SelectorTerm], ids: Iterable[str]) -> list[ImageQuery]:
    """Return the queries for terms and for AMI ids from SSM parameters."""
    all_ids = [*(term.id for term in terms if term.id), *ids]
    queries = [ImageQuery(filters=({"Name": "image-id", "Values": all_ids},))] if all_ids else []
    for term in terms:
        if term.id or term.alias or term.ssm_parameter:
            continue
        filters = list(tag_filters(term.tags))
        owners: tuple[str, ...] = (term.owner,) if term.owner else ()
        if term.name:
            filters.append({"Name": "name", "Values": [term.name]})
            # Without an owner, anyone could publish an AMI of that name.
            owners = owners or _DEFAULT_OWNERS
        if filters or owners:
            queries.append(ImageQuery(filters=tuple(filters), owners=owners))
    return queries


def decode_candidates(
    described: Iterable[Mapping[str, Any]], variants: Mapping[str, tuple[Requirements, ...]], now: datetime
) -> list[AmiCandidate]:
    """Decode images; ``variants`` is AMI id → requirements of its alias's variants."""
    candidates: list[AmiCandidate] = []
    for image in described:
        arch = _ARCHITECTURES.get(image.get("Architecture", ""))
        if arch is None:
            continue
        arch_requirement = RequirementSpec(label_keys.ARCH, Operator.IN, (arch,))
        deprecated_at = image.get("DeprecationTime")
        candidates += [
            AmiCandidate(
                id=image["ImageId"],
                name=image.get("Name", ""),
                created=str(image.get("CreationDate", "")),
                deprecated=bool(deprecated_at) and datetime.fromisoformat(str(deprecated_at)) <= now,
                requirements=tuple(
                    sorted((*requirements, arch_requirement), key=lambda spec: (len(spec.key), spec.key))
                ),
            )
            for requirements in variants.get(image["ImageId"], ((),))
        ]
    return candidates


def select_amis(candidates: Iterable[AmiCandidate]) -> tuple[Ami, ...]:
    """Return one AMI for each set of requirements, newest first.

    AMIs that are not deprecated come first, then newer ones, then the name that
    sorts last.
    """
    best: dict[Requirements, AmiCandidate] = {}
    for candidate in candidates:
        current = best.get(candidate.requirements)
        if current is None or _rank(candidate) > _rank(current):
            best[candidate.requirements] = candidate
    by_id = sorted(best.values(), key=lambda ami: (ami.id, str(ami.requirements)))
    newest_first = sorted(by_id, key=lambda ami: ami.created, reverse=True)
    return tuple(candidate.to_ami() for candidate in newest_first)


class AmiResolver:
    """Resolves AMI selector terms; caches SSM parameters."""

    def __init__(self, aws: AwsSession, *, clock: Clock, log: Log) -> None:
        self._aws = aws
        self._clock = clock
        self._log = log
        self._parameters: TtlCache[str] = TtlCache(clock.now)

    async def resolve(self, terms: Sequence[SelectorTerm], kubernetes: str) -> tuple[Ami, ...]:
        """Return the AMIs of the terms, newest first; empty if there are none."""
        ami_ids = {
            parameter: await self._read(parameter) for parameter in self._parameters_of(terms, kubernetes)
        }
        variants: dict[str, tuple[Requirements, ...]] = {}
        for parameter, ami_id in ami_ids.items():
            if ami_id:
                variants[ami_id] = (*variants.get(ami_id, ()), *parameter.variants)
        described: dict[str, Mapping[str, Any]] = {}
        for query in image_queries(terms, variants):
            for image in await self._describe(query):
                described[image["ImageId"]] = image
        candidates = decode_candidates(described.values(), variants, self._clock.now())
        deprecated = {candidate.id for candidate in candidates if candidate.deprecated}
        self._expire_deprecated(ami_ids, deprecated)
        return select_amis(candidates)

    def _parameters_of(self, terms: Sequence[SelectorTerm], kubernetes: str) -> list[AmiParameter]:
        parameters: list[AmiParameter] = []
        for term in terms:
            if term.alias:
                parameters += alias_parameters(term.alias, kubernetes)
            elif term.ssm_parameter:
                parameters.append(AmiParameter(name=term.ssm_parameter, mutable=True))
        return parameters

    async def _read(self, parameter: AmiParameter) -> str | None:
        """Return the AMI id in a parameter; None if the parameter does not exist."""
        name = parameter.name
        cached = self._parameters.get(name)
        if cached is not None:
            return cached
        ssm = self._aws.client("ssm")
        response = await self._aws.call_or_none("GetParameter", lambda: ssm.get_parameter(Name=name))
        if response is None:
            return None
        value = str(response["Parameter"]["Value"])
        if not value.startswith("ami-"):
            self._log.error("ssm parameter has no ami id", parameter=name, value=value)
            return None
        is_public = name.startswith("/aws/service/")
        ttl = _AWS_PARAMETER_TTL if is_public else _USER_PARAMETER_TTL
        self._parameters.put(name, value, ttl=ttl)
        return value

    async def _describe(self, query: ImageQuery) -> list[Mapping[str, Any]]:
        filters = [*query.filters, {"Name": "state", "Values": ["available"]}]
        owners: dict[str, Any] = {"Owners": list(query.owners)} if query.owners else {}
        return await self._aws.list_pages(
            "DescribeImages",
            self._aws.ec2(),
            "Images",
            page_size=_PAGE_SIZE,
            Filters=filters,
            IncludeDeprecated=True,
            **owners,
        )

    def _expire_deprecated(self, ami_ids: Mapping[AmiParameter, str | None], deprecated: set[str]) -> None:
        """Discard cached parameters with a deprecated AMI, so that they are read again."""
        for parameter, ami_id in ami_ids.items():
            name = parameter.name
            is_old = self._parameters.age(name) >= _DEPRECATED_TTL
            if parameter.mutable and ami_id in deprecated and is_old:
                self._parameters.discard(name)


def encode_ami(ami: Ami) -> dict[str, Any]:
    """Return the entry of ``status.amis``."""
    encoded: dict[str, Any] = {"id": ami.id, "name": ami.name}
    if ami.deprecated:
        encoded["deprecated"] = True
    encoded["requirements"] = [
        {"key": requirement.key, "operator": str(requirement.operator)}
        | ({"values": list(requirement.values)} if requirement.values else {})
        for requirement in ami.requirements
    ]
    return encoded


def _rank(candidate: AmiCandidate) -> tuple[bool, str, str]:
    return not candidate.deprecated, candidate.created, candidate.name
