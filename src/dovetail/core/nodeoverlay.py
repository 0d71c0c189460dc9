"""NodeOverlays: users override prices and capacity of instance types."""

from collections.abc import Iterable, Sequence
from typing import Final

import msgspec
from msgspec.structs import replace

from dovetail.core.nodepool.status import validate_requirement
from dovetail.model import labels as label_keys
from dovetail.model.cloud.instance_type import InstanceType, Offering
from dovetail.model.frozen import FrozenDict
from dovetail.model.karpenter.nodeoverlay import NodeOverlay
from dovetail.model.karpenter.nodepool import NodePool
from dovetail.model.kube.requirements import Requirement, Requirements
from dovetail.model.kube.resources import Resources

CONFLICT: Final = "Conflict"
INVALID: Final = "RuntimeValidation"

MAX_COMPARISONS: Final = 1_000_000
"""Overlays times instance types, over all NodePools; one takes a few microseconds."""

PoolInstanceTypes = tuple[NodePool, tuple[InstanceType, ...]]
"""A NodePool, and its instance types from the cloud provider."""


class OverlayRejection(msgspec.Struct, frozen=True):
    """Why an overlay is not applied to any NodePool."""

    reason: str
    message: str


class OverlayDecision(msgspec.Struct, frozen=True):
    """Valid overlays in order of precedence, and the rejected ones by name."""

    valid: tuple[NodeOverlay, ...] = ()
    rejected: FrozenDict[str, OverlayRejection] = FrozenDict()


def adjust_price(price: float, overlay: NodeOverlay) -> float:
    """Return a price adjusted by an overlay; never negative."""
    if overlay.price:
        return float(overlay.price)
    text = overlay.price_adjustment
    if not text:
        return price
    if text.endswith("%"):
        return max(0.0, price * (1 + float(text[:-1]) / 100))
    return max(0.0, price + float(text))


def validate_overlays(
    overlays: Iterable[NodeOverlay],
    pool_types: Sequence[PoolInstanceTypes],
    *,
    max_comparisons: int = MAX_COMPARISONS,
) -> OverlayDecision:
    """Sort overlays by weight, highest first; reject invalid and conflicting ones.

    Of two with the same weight that adjust the same value, the one with the later
    name is valid. The other is applied nowhere, not even where it has no conflict.
    Each overlay is compared with the instance types of the NodePools that it may match:
    the ones that would exceed ``max_comparisons`` are rejected, lowest weight first.
    """
    comparisons = 0
    valid: list[NodeOverlay] = []
    rejected: dict[str, OverlayRejection] = {}
    adjusted_by: dict[tuple[object, ...], NodeOverlay] = {}
    by_name = sorted(overlays, key=lambda overlay: overlay.name, reverse=True)
    for overlay in sorted(by_name, key=lambda candidate: -candidate.weight):
        errors = [text for spec in overlay.requirements for text in validate_requirement(spec)]
        if errors:
            rejected[overlay.name] = OverlayRejection(INVALID, "; ".join(errors))
            continue
        compiled = CompiledOverlay(overlay)
        matching = [entry for entry in pool_types if compiled.may_match_nodepool(entry[0])]
        comparisons += sum(len(types) for _, types in matching)
        if comparisons > max_comparisons:
            rejected[overlay.name] = OverlayRejection(
                INVALID,
                f"it and all NodeOverlays of higher weight match more than {max_comparisons} instance types;"
                " fewer overlays would do, or a requirement on karpenter.sh/nodepool",
            )
            continue
        adjusted = _find_adjusted(compiled, matching)
        rival = next((adjusted_by[key] for key in adjusted if key in adjusted_by), None)
        if rival is not None:
            rejected[overlay.name] = OverlayRejection(
                CONFLICT, f"NodeOverlay {rival.name!r} has the same weight and conflicts with it"
            )
            continue
        valid.append(overlay)
        adjusted_by.update(dict.fromkeys(adjusted, overlay))
    return OverlayDecision(tuple(valid), FrozenDict(rejected))


def _find_adjusted(
    compiled: "CompiledOverlay", pool_types: Sequence[PoolInstanceTypes]
) -> list[tuple[object, ...]]:
    """Return keys of all values that an overlay adjusts, with its weight."""
    overlay = compiled.overlay
    adjusted: list[tuple[object, ...]] = []
    for pool, types in pool_types:
        for instance_type in types:
            matching = compiled.match_offerings(pool, instance_type)
            key = (overlay.weight, pool.name, instance_type.name)
            if matching and overlay.changes_price:
                adjusted += [(*key, index) for index in matching]
            if matching:
                adjusted += [(*key, name) for name in overlay.capacity]
    return adjusted


class CompiledOverlay:
    """An overlay with compiled requirements, to be matched with many types."""

    def __init__(self, overlay: NodeOverlay) -> None:
        self.overlay = overlay
        self._requirements = Requirements.from_specs(overlay.requirements)
        self._pool_labels: tuple[NodePool | None, Requirements] = (None, Requirements())

    def may_match_nodepool(self, pool: NodePool) -> bool:
        """Return False if no node of a NodePool can match."""
        return self._get_labels(pool).find_disjoint_key(self._requirements) is None

    def _get_labels(self, pool: NodePool) -> Requirements:
        """Return the labels of a NodePool's nodes that the overlay names."""
        known, labels = self._pool_labels
        if known is not pool:
            labels = _get_nodepool_labels(pool)
            labels = Requirements({key: labels[key] for key in labels if key in self._requirements})
            self._pool_labels = (pool, labels)
        return labels

    def match_offerings(self, pool: NodePool, instance_type: InstanceType) -> list[int]:
        """Return the indexes of an instance type's offerings that match."""
        # Of some forty labels only those that the overlay names matter.
        of_type = [
            requirement
            for key, requirement in instance_type.requirements.items()
            if key in self._requirements
        ]
        node = self._get_labels(pool).intersection(of_type)
        if node.find_disjoint_key(self._requirements) is not None:
            return []
        return [
            place
            for place, offering in enumerate(instance_type.offerings)
            if _add_offering_labels(node, offering).find_conflict(self._requirements) is None
        ]


def _get_nodepool_labels(pool: NodePool) -> Requirements:
    """Return the labels that all nodes of a NodePool have, as requirements."""
    named = Requirement.one_of(label_keys.NODEPOOL, pool.name)
    return Requirements.from_labels(pool.template.labels).intersection([named])


def _add_offering_labels(node: Requirements, offering: Offering) -> Requirements:
    """Return a node's labels together with those of an offering."""
    return Requirements({**node, **offering.requirements()})


def apply_overlays(
    instance_type: InstanceType, pool: NodePool, overlays: Sequence[CompiledOverlay]
) -> InstanceType:
    """Return an instance type with overlays; the highest weight wins for each value."""
    offerings = list(instance_type.offerings)
    priced: set[int] = set()
    capacity: dict[str, int] = {}
    for compiled in overlays:
        matching = compiled.match_offerings(pool, instance_type)
        if not matching:
            continue
        for name, amount in compiled.overlay.capacity.items():
            capacity.setdefault(name, amount)
        if not compiled.overlay.changes_price:
            continue
        for index in matching:
            if index not in priced:
                priced.add(index)
                offerings[index] = _apply_price(instance_type.offerings[index], compiled.overlay)
    if not priced and not capacity:
        return instance_type
    return replace(
        instance_type,
        offerings=tuple(offerings),
        capacity=Resources({**instance_type.capacity, **capacity}),
        price_overlay_applied=bool(priced),
        capacity_overlay_applied=bool(capacity),
    )


def _apply_price(offering: Offering, overlay: NodeOverlay) -> Offering:
    """Return an offering with its new price; a price makes an unpriced one available."""
    gets_price = offering.price_missing and bool(overlay.price)
    return replace(
        offering,
        price=adjust_price(offering.price, overlay),
        available=offering.available or gets_price,
        price_missing=offering.price_missing and not gets_price,
    )
