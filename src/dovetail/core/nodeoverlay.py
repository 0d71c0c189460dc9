"""What instance types are like once users have said what they know better."""

from collections.abc import Iterable, Sequence
from typing import Final

import msgspec
from msgspec.structs import replace

from dovetail.core.nodepool.status import requirement_mistakes
from dovetail.model import labels as label_keys
from dovetail.model.cloud.instance_type import InstanceType, Offering
from dovetail.model.frozen import FrozenDict
from dovetail.model.karpenter.nodeoverlay import NodeOverlay
from dovetail.model.karpenter.nodepool import NodePool
from dovetail.model.kube.requirements import Requirement, Requirements
from dovetail.model.kube.resources import Resources

CONFLICT: Final = "Conflict"
INVALID: Final = "RuntimeValidation"

Shop = tuple[NodePool, tuple[InstanceType, ...]]
"""A pool, and what the cloud says it could buy."""


class Verdict(msgspec.Struct, frozen=True):
    """Why an overlay is not applied, anywhere."""

    reason: str
    message: str


class Settled(msgspec.Struct, frozen=True):
    """Which overlays hold, in the order in which they are laid, and why others do not."""

    valid: tuple[NodeOverlay, ...] = ()
    rejected: FrozenDict[str, Verdict] = FrozenDict()


def adjusted(price: float, overlay: NodeOverlay) -> float:
    """Return a price as an overlay has it; never below nothing."""
    if overlay.price:
        return float(overlay.price)
    text = overlay.price_adjustment
    if not text:
        return price
    if text.endswith("%"):
        return max(0.0, price * (1 + float(text[:-1]) / 100))
    return max(0.0, price + float(text))


def settle(overlays: Iterable[NodeOverlay], shops: Sequence[Shop]) -> Settled:
    """Sort overlays, the heaviest first, and reject those that contradict one before them.

    Of two that weigh the same and change the same thing, the later name stays;
    the other one is applied nowhere, not even where it alone has something to say.
    """
    valid: list[NodeOverlay] = []
    rejected: dict[str, Verdict] = {}
    laid: dict[tuple[object, ...], NodeOverlay] = {}
    by_name = sorted(overlays, key=lambda one: one.name, reverse=True)
    for one in sorted(by_name, key=lambda one: -one.weight):
        wrong = [text for spec in one.requirements for text in requirement_mistakes(spec)]
        if wrong:
            rejected[one.name] = Verdict(INVALID, "; ".join(wrong))
            continue
        touched = _touched(one, shops)
        rival = next((laid[key] for key in touched if key in laid), None)
        if rival is not None:
            rejected[one.name] = Verdict(
                CONFLICT, f"NodeOverlay {rival.name!r} has the same weight and says otherwise"
            )
            continue
        valid.append(one)
        laid.update(dict.fromkeys(touched, one))
    return Settled(tuple(valid), FrozenDict(rejected))


def _touched(overlay: NodeOverlay, shops: Sequence[Shop]) -> list[tuple[object, ...]]:
    """Return all that an overlay decides among those that weigh as much as it does."""
    layer = Layer(overlay)
    touched: list[tuple[object, ...]] = []
    for pool, types in shops:
        if not layer.speaks_of(pool):
            continue
        for kind in types:
            found = layer.offerings(pool, kind)
            if found and overlay.prices:
                touched += [(overlay.weight, pool.name, kind.name, place) for place in found]
            if found:
                touched += [
                    (overlay.weight, pool.name, kind.name, name) for name in overlay.capacity
                ]
    return touched


class Layer:
    """One overlay, made ready to be asked about many types."""

    def __init__(self, overlay: NodeOverlay) -> None:
        self.overlay = overlay
        self._wanted = Requirements.of_specs(overlay.requirements)

    def speaks_of(self, pool: NodePool) -> bool:
        """Tell at once when nothing that a pool buys can be meant."""
        return _known_of(pool).clash(self._wanted) is None

    def offerings(self, pool: NodePool, kind: InstanceType) -> list[int]:
        """Return which offerings of a type, by place, the overlay speaks of."""
        node = _known_of(pool).and_also(kind.requirements.values())
        if node.clash(self._wanted) is not None:
            return []
        return [
            place
            for place, one in enumerate(kind.offerings)
            if _of(node, one).why_incompatible(self._wanted) is None
        ]


def _known_of(pool: NodePool) -> Requirements:
    """Return what is known of every node of a pool, whatever its type."""
    named = Requirement.one_of(label_keys.NODEPOOL, pool.name)
    return Requirements.of_labels(pool.template.labels).and_also([named])


def _of(node: Requirements, offering: Offering) -> Requirements:
    """Return what is known of a node that is bought this way."""
    return Requirements({**node, **offering.requirements()})


def overlaid(kind: InstanceType, pool: NodePool, layers: Sequence[Layer]) -> InstanceType:
    """Return a type as a pool would get it; the heaviest that speaks of something decides."""
    offerings = list(kind.offerings)
    priced: set[int] = set()
    capacity: dict[str, int] = {}
    for layer in layers:
        found = layer.offerings(pool, kind)
        if not found:
            continue
        for name, amount in layer.overlay.capacity.items():
            capacity.setdefault(name, amount)
        if not layer.overlay.prices:
            continue
        for place in found:
            if place not in priced:
                priced.add(place)
                offerings[place] = _repriced(kind.offerings[place], layer.overlay)
    if not priced and not capacity:
        return kind
    return replace(
        kind,
        offerings=tuple(offerings),
        capacity=Resources({**kind.capacity, **capacity}),
        price_overlaid=bool(priced),
        capacity_overlaid=bool(capacity),
    )


def _repriced(offering: Offering, overlay: NodeOverlay) -> Offering:
    """Return an offering at its new price, which may be the first that anybody knows."""
    told = offering.lacks_price and bool(overlay.price)
    return replace(
        offering,
        price=adjusted(offering.price, overlay),
        available=offering.available or told,
        lacks_price=offering.lacks_price and not told,
    )
