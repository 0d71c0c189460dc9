"""Which of the types that would do are cheap enough to replace what is there.

A replacement is judged by the dearest price that it may be launched at, not by
the one to hope for: otherwise the next pass would find it worth replacing.
"""

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from msgspec.structs import replace

from dovetail.core.disruption.candidates import Candidate
from dovetail.model import labels as label_keys
from dovetail.model.cloud.instance_type import InstanceType, Offering
from dovetail.model.kube.requirements import Requirement, Requirements
from dovetail.model.plan import PlannedNode
from dovetail.model.settings import ConsolidationSettings

_IN_ORDER: Final = (label_keys.RESERVED, label_keys.SPOT, label_keys.ON_DEMAND)
"""Which capacity type a launch takes, the first that can be had."""
_PLACES: Final = (
    label_keys.ZONE,
    label_keys.CAPACITY_TYPE,
    label_keys.ZONE_ID,
    label_keys.CAPACITY_RESERVATION_ID,
)
_NEVER: Final = float("inf")


class Ruling(NamedTuple):
    """The replacements as they may be launched, or why they may not."""

    nodes: tuple[PlannedNode, ...] = ()
    code: str = ""
    because: str = ""


class Sale:
    """The offerings that some requirements leave, and what they cost."""

    def __init__(self, wanted: Requirements) -> None:
        self._wanted = wanted
        self._places: dict[tuple[str, str, str, str], bool] = {}
        self._worst: dict[int, float] = {}

    def offerings(self, kind: InstanceType) -> list[Offering]:
        return [one for one in kind.offerings if one.available and self._allows(one)]

    def worst(self, kind: InstanceType) -> float:
        """Return the most that a launch of a type may cost; infinite where none is possible."""
        known = self._worst.get(id(kind))
        if known is None:
            fine = self.offerings(kind)
            first = next(
                (name for name in _IN_ORDER if any(one.capacity_type == name for one in fine)), ""
            )
            prices = [one.price for one in fine if one.capacity_type == first]
            known = self._worst[id(kind)] = max(prices, default=_NEVER)
        return known

    def best(self, kind: InstanceType) -> Offering:
        return min(self.offerings(kind), key=lambda o: (o.price, o.zone, o.capacity_type))

    def has_spot(self, kind: InstanceType) -> bool:
        return any(one.capacity_type == label_keys.SPOT for one in self.offerings(kind))

    def _allows(self, one: Offering) -> bool:
        # Thousands of offerings share a few places.
        key = (one.zone, one.capacity_type, one.zone_id, one.reservation_id)
        known = self._places.get(key)
        if known is None:
            known = self._places[key] = self._wanted.clash(one.requirements()) is None
        return known


class Market:
    """The sales of one pass: many claims ask for the same places.

    Types are known by identity, so it must not outlive the catalogue it looks at.
    """

    def __init__(self) -> None:
        self._sales: dict[tuple[Requirement | None, ...], Sale] = {}

    def sale(self, wanted: Requirements) -> Sale:
        key = tuple(wanted.get(name) for name in _PLACES)
        known = self._sales.get(key)
        if known is None:
            known = self._sales[key] = Sale(wanted)
        return known


def rule_on(
    nodes: Sequence[PlannedNode],
    removed: Sequence[Candidate],
    settings: ConsolidationSettings,
    market: Market,
) -> Ruling:
    """Narrow replacements to what is surely cheaper than the nodes that go."""
    before = sum(one.price for one in removed)
    if any(one.price <= 0 for one in removed):
        return Ruling(code="no-price", because="what it costs now is not known")
    expected = sum(one.price for one in nodes)
    if expected >= before:
        return Ruling(code="not-cheaper", because=_dearer(expected, before))
    case = _Case(removed, settings, market, len(nodes))
    kept: list[PlannedNode] = []
    for one in nodes:
        # Together the dearest launches of all replacements stay below what goes.
        share = one.price / expected if expected > 0 else 1.0 / len(nodes)
        ruling = case.rule_on(one, one.price + (before - expected) * share)
        if ruling.code:
            return ruling
        kept += ruling.nodes
    return Ruling(tuple(kept))


class _Case:
    """Nodes that go, and how many come for them."""

    def __init__(
        self,
        removed: Sequence[Candidate],
        settings: ConsolidationSettings,
        market: Market,
        lot: int,
    ) -> None:
        self._removed = removed
        self._settings = settings
        self._market = market
        self._lot = lot
        self._all_spot = all(_capacity_type(one) == label_keys.SPOT for one in removed)

    def rule_on(self, node: PlannedNode, ceiling: float) -> Ruling:
        """Narrow one node to types that are surely launched for less than the ceiling."""
        wanted = node.requirements
        may_be_spot = wanted[label_keys.CAPACITY_TYPE].has(label_keys.SPOT)
        like_for_like = self._all_spot and may_be_spot
        if like_for_like:
            if not self._settings.spot_to_spot:
                return Ruling(
                    code="spot-to-spot",
                    because="spot nodes are not replaced by spot (gate SpotToSpotConsolidation)",
                )
            wanted = _pinned_to_spot(wanted)
        sale = self._market.sale(wanted)
        types = [one for one in node.instance_types if sale.worst(one) < ceiling]
        if len(self._removed) > 1:
            types = _other_than(types, sale, self._removed, self._lot)
        if not types:
            return Ruling(
                code="not-cheaper",
                because="no type that would do is sure to be launched for less than "
                f"{ceiling:.4f} USD per hour",
            )
        if may_be_spot and any(sale.has_spot(one) for one in types):
            # A launch that finds no spot capacity shall fail, not take dearer on-demand.
            wanted = _pinned_to_spot(wanted)
            sale = self._market.sale(wanted)
            types = [one for one in types if sale.has_spot(one)]
        if like_for_like and len(self._removed) == 1:
            enough = self._settings.spot_types
            if len(types) < enough:
                return Ruling(
                    code="spot-to-spot",
                    because=f"only {len(types)} cheaper spot types would do; "
                    f"fewer than {enough} are too few to choose from",
                )
            types = types[: max(enough, _needed(types, wanted))]
        lacking = _lacks_variety(types, wanted)
        if lacking:
            return Ruling(
                code="min-values",
                because=f"cheaper types alone do not meet minValues of {lacking}",
            )
        return Ruling((_narrowed(node, types, wanted, sale),))


def _other_than(
    types: list[InstanceType], sale: Sale, removed: Sequence[Candidate], lot: int
) -> list[InstanceType]:
    """Leave out what is there already: keeping one such node is better than buying it."""
    names = {one.name for one in types}
    same = [one for one in removed if one.node.labels.get(label_keys.INSTANCE_TYPE) in names]
    if not same:
        return types
    if lot > 1:
        there = {one.node.labels.get(label_keys.INSTANCE_TYPE) for one in same}
        return [one for one in types if one.name not in there]
    cheapest = min(one.price for one in same)
    return [one for one in types if sale.worst(one) < cheapest]


def _lacks_variety(types: Iterable[InstanceType], wanted: Requirements) -> str:
    """Return the first label of which these types have fewer values than minValues wants."""
    listed = list(types)
    for key, one in sorted(wanted.items()):
        if one.min_values is not None and len(_values(listed, key, one)) < one.min_values:
            return key
    return ""


def _needed(types: Sequence[InstanceType], wanted: Requirements) -> int:
    """Return how many of the cheapest types it takes to meet minValues."""
    return next(
        (n for n in range(1, len(types)) if not _lacks_variety(types[:n], wanted)), len(types)
    )


def _values(types: Iterable[InstanceType], key: str, wanted: Requirement) -> set[str]:
    found: set[str] = set()
    for kind in types:
        own = kind.requirements.get(key)
        if own is not None and not own.complement:
            found |= {value for value in own.values if wanted.has(value)}
    return found


def _narrowed(
    node: PlannedNode, types: list[InstanceType], wanted: Requirements, sale: Sale
) -> PlannedNode:
    names = frozenset(one.name for one in types)
    asked = wanted[label_keys.INSTANCE_TYPE]
    named = Requirement(label_keys.INSTANCE_TYPE, False, names, min_values=asked.min_values)
    best = {one.name: sale.best(one) for one in types}
    ordered = sorted(types, key=lambda one: (best[one.name].price, one.name))
    return replace(
        node,
        instance_types=tuple(ordered),
        offering=best[ordered[0].name],
        requirements=Requirements({**wanted, label_keys.INSTANCE_TYPE: named}),
    )


def _pinned_to_spot(wanted: Requirements) -> Requirements:
    low = wanted[label_keys.CAPACITY_TYPE].min_values
    only = Requirement(
        label_keys.CAPACITY_TYPE, False, frozenset({label_keys.SPOT}), min_values=low
    )
    return Requirements({**wanted, label_keys.CAPACITY_TYPE: only})


def _capacity_type(one: Candidate) -> str:
    return one.node.labels.get(label_keys.CAPACITY_TYPE, "")


def _dearer(price: float, before: float) -> str:
    return f"the cheapest nodes for its pods cost {price:.4f} USD per hour, it costs {before:.4f}"
