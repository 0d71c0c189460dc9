"""Pending NodeClaims as the nodes that they will become."""

from collections.abc import Iterable

import msgspec

from dovetail.model import labels as label_keys
from dovetail.model.cloud.instance_type import InstanceType, Offering
from dovetail.model.frozen import FrozenDict
from dovetail.model.karpenter.nodeclaim import NodeClaim
from dovetail.model.kube.requirements import Operator, Requirements
from dovetail.model.kube.resources import NO_RESOURCES, Resources
from dovetail.model.node import Node

_MAX_RANGES = 1000


class _TypeRange(msgspec.Struct, frozen=True):
    """Common labels and range of resources of several instance types."""

    source: tuple[InstanceType, ...]
    types: tuple[InstanceType, ...]
    max_capacity: Resources
    min_allocatable: Resources
    labels: dict[str, str]


class PendingClaims:
    """Converts NodeClaims without an instance into nodes for scheduling."""

    def __init__(self) -> None:
        self._ranges: dict[tuple[str, ...], _TypeRange] = {}

    def as_node(self, claim: NodeClaim, types: tuple[InstanceType, ...], *, assume_cheapest: bool) -> Node:
        """Return a NodeClaim as a node.

        It has the allocatable resources of the smallest possible instance type. Its
        capacity, which counts against limits, is that of the largest. It has only
        certain labels or, with ``assume_cheapest``, those of the cheapest offering.
        The pods of a claim accept each of its offerings, so that this assigns them
        to the claim again after a restart.
        """
        type_range = self._get_range(claim, types)
        required = {
            spec.key: spec.values[0]
            for spec in claim.requirements
            if spec.operator is Operator.IN and len(spec.values) == 1
        }
        labels = type_range.labels
        if assume_cheapest:
            labels = _get_cheapest_labels(claim, type_range.types)
        return Node(
            name=claim.name,
            claim=claim.name,
            labels=FrozenDict({**labels, **required, **claim.labels}),
            annotations=claim.annotations,
            taints=claim.taints,
            startup_taints=claim.startup_taints,
            claim_capacity=claim.requests.maximum(type_range.max_capacity),
            claim_allocatable=claim.requests.maximum(type_range.min_allocatable),
            registered=False,
            initialized=False,
        )

    def clear(self) -> None:
        """Forget all instance types."""
        self._ranges.clear()

    def _get_range(self, claim: NodeClaim, types: tuple[InstanceType, ...]) -> _TypeRange:
        named = _get_type_names(claim)
        type_range = self._ranges.get(named)
        if type_range is None or type_range.source is not types:
            if len(self._ranges) >= _MAX_RANGES:
                self._ranges.clear()
            type_range = self._ranges[named] = _compute_range(types, frozenset(named))
        return type_range


def _get_type_names(claim: NodeClaim) -> tuple[str, ...]:
    for spec in claim.requirements:
        if spec.key == label_keys.INSTANCE_TYPE and spec.operator is Operator.IN:
            return spec.values
    return ()


def _compute_range(source: tuple[InstanceType, ...], names: frozenset[str]) -> _TypeRange:
    types = tuple(instance_type for instance_type in source if instance_type.name in names)
    if not types:
        return _TypeRange(source, (), NO_RESOURCES, NO_RESOURCES, {})
    capacity, allocatable = types[0].capacity, types[0].allocatable
    labels = _get_certain_labels(types[0].requirements)
    for instance_type in types[1:]:
        room = instance_type.allocatable
        capacity = capacity.maximum(instance_type.capacity)
        smallest = {name: min(amount, room.get(name, 0)) for name, amount in allocatable.items()}
        allocatable = Resources(smallest)
        labels = dict(labels.items() & _get_certain_labels(instance_type.requirements).items())
    return _TypeRange(source, types, capacity, allocatable, labels)


def _get_certain_labels(requirements: Requirements) -> dict[str, str]:
    """Return what is certain of a type: the keys for which it has just one value."""
    return {
        key: next(iter(requirement.values))
        for key, requirement in requirements.items()
        if not requirement.complement and len(requirement.values) == 1
    }


def _get_cheapest_labels(claim: NodeClaim, types: Iterable[InstanceType]) -> dict[str, str]:
    """Return all labels of a node of the cheapest offering that a claim allows."""
    requirements = Requirements.from_specs(claim.requirements)
    options: list[tuple[bool, float, str, Offering, InstanceType]] = [
        (not offering.available, offering.price, instance_type.name, offering, instance_type)
        for instance_type in types
        for offering in instance_type.offerings
        if requirements.get_or_exists(label_keys.ZONE).has(offering.zone)
        and requirements.get_or_exists(label_keys.CAPACITY_TYPE).has(offering.capacity_type)
    ]
    if not options:
        return {}
    *_, offering, chosen = min(options, key=lambda option: option[:3])
    of_offering = chosen.requirements.intersection(offering.requirements().values())
    narrowed = of_offering.intersection(requirements.values())
    return {
        key: min(requirement.values)
        for key, requirement in narrowed.items()
        if requirement.values and not requirement.complement
    }
