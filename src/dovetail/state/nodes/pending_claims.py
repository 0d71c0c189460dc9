"""Claims for which nothing is bought yet, as the nodes that they will become."""

from collections.abc import Iterable

import msgspec

from dovetail.model import labels as label_keys
from dovetail.model.cloud.instance_type import InstanceType, Offering
from dovetail.model.frozen import FrozenDict
from dovetail.model.karpenter.nodeclaim import NodeClaim
from dovetail.model.kube.requirements import Operator, Requirements
from dovetail.model.kube.resources import NOTHING, Resources
from dovetail.model.node import Node

_MOST_SPANS = 1000


class _Span(msgspec.Struct, frozen=True):
    """What some instance types have in common, and how far they are apart."""

    source: tuple[InstanceType, ...]
    types: tuple[InstanceType, ...]
    most_capacity: Resources
    least_allocatable: Resources
    labels: dict[str, str]


class Prospects:
    """Whatever type a claim gets, it gets at least this."""

    def __init__(self) -> None:
        self._spans: dict[tuple[str, ...], _Span] = {}

    def node(self, claim: NodeClaim, types: tuple[InstanceType, ...], *, guess: bool) -> Node:
        """Return a claim as a node.

        It has the room of the smallest type that it may become, while its
        capacity, which counts against limits, is that of the largest. It has the
        labels that are certain; with ``guess``, those of the cheapest way to get
        it: all that it was made for can live with each way, so this finds a
        claim's own pods again after a restart.
        """
        span = self._span(claim, types)
        told = {
            spec.key: spec.values[0]
            for spec in claim.requirements
            if spec.operator is Operator.IN and len(spec.values) == 1
        }
        likely = _cheapest(claim, span.types) if guess else span.labels
        return Node(
            name=claim.name,
            claim=claim.name,
            labels=FrozenDict({**likely, **told, **claim.labels}),
            annotations=claim.annotations,
            taints=claim.taints,
            startup_taints=claim.startup_taints,
            claim_capacity=claim.requests.at_least(span.most_capacity),
            claim_allocatable=claim.requests.at_least(span.least_allocatable),
            registered=False,
            initialized=False,
        )

    def _span(self, claim: NodeClaim, types: tuple[InstanceType, ...]) -> _Span:
        named = _type_names(claim)
        known = self._spans.get(named)
        if known is None or known.source is not types:
            if len(self._spans) >= _MOST_SPANS:
                self._spans.clear()
            known = self._spans[named] = _span_of(types, frozenset(named))
        return known


def _type_names(claim: NodeClaim) -> tuple[str, ...]:
    for spec in claim.requirements:
        if spec.key == label_keys.INSTANCE_TYPE and spec.operator is Operator.IN:
            return spec.values
    return ()


def _span_of(source: tuple[InstanceType, ...], names: frozenset[str]) -> _Span:
    types = tuple(one for one in source if one.name in names)
    if not types:
        return _Span(source, (), NOTHING, NOTHING, {})
    capacity, allocatable = types[0].capacity, types[0].allocatable
    labels = _labels(types[0].requirements)
    for one in types[1:]:
        room = one.allocatable
        capacity = capacity.at_least(one.capacity)
        allocatable = Resources(
            {name: min(amount, room.get(name, 0)) for name, amount in allocatable.items()}
        )
        labels = dict(labels.items() & _labels(one.requirements).items())
    return _Span(source, types, capacity, allocatable, labels)


def _labels(known: Requirements) -> dict[str, str]:
    """Return what is certain of a type: the keys for which it has just one value."""
    return {
        key: next(iter(one.values))
        for key, one in known.items()
        if not one.complement and len(one.values) == 1
    }


def _cheapest(claim: NodeClaim, types: Iterable[InstanceType]) -> dict[str, str]:
    """Return all labels of one way to get a claim's node, the cheapest that it allows."""
    asked = Requirements.of_specs(claim.requirements)
    ways: list[tuple[bool, float, str, Offering, InstanceType]] = [
        (not offering.available, offering.price, one.name, offering, one)
        for one in types
        for offering in one.offerings
        if asked.allowed(label_keys.ZONE).has(offering.zone)
        and asked.allowed(label_keys.CAPACITY_TYPE).has(offering.capacity_type)
    ]
    if not ways:
        return {}
    *_, offering, chosen = min(ways, key=lambda way: way[:3])
    narrowed = chosen.requirements.and_also(offering.requirements().values()).and_also(
        asked.values()
    )
    return {
        key: min(one.values) for key, one in narrowed.items() if one.values and not one.complement
    }
