"""Price rules for replacements: instance types that are certainly cheaper.

The maximum launch price of a replacement counts, not the expected one. Otherwise
the next pass might find the replacement itself worth replacing.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from msgspec.structs import replace

from dovetail.core.disruption.candidates import NO_OFFERING_PRICE, Candidate
from dovetail.core.instancetypes.offerings import CAPACITY_TYPE_ORDER, OfferingFilter, collect_values
from dovetail.model import labels as label_keys
from dovetail.model.cloud.instance_type import InstanceType, Offering
from dovetail.model.kube.requirements import Requirement, Requirements
from dovetail.model.plan import PlannedNode
from dovetail.model.settings import ConsolidationSettings

_OFFERING_KEYS: Final = (
    label_keys.ZONE,
    label_keys.CAPACITY_TYPE,
    label_keys.ZONE_ID,
    label_keys.CAPACITY_RESERVATION_ID,
)
_INFINITE_PRICE: Final = float("inf")
SPOT_TO_SPOT_DISABLED = "SpotToSpotConsolidation is disabled, can't replace a spot node with a spot node"


class PricedReplacements(NamedTuple):
    """Replacements narrowed to cheaper instance types, or the reason to keep the nodes."""

    nodes: tuple[PlannedNode, ...] = ()
    code: str = ""
    """Code of the keep reason; empty: the replacements can be launched."""
    message: str = ""


class OfferingPrices(OfferingFilter):
    """Offerings that requirements allow, with their prices."""

    def __init__(self, requirements: Requirements) -> None:
        super().__init__(requirements)
        self._max_prices: dict[int, float] = {}

    def get_max_price(self, instance_type: InstanceType) -> float:
        """Return the maximum launch price in USD per hour; infinite: no offering."""
        price = self._max_prices.get(id(instance_type))
        if price is None:
            offerings = self.get_offerings(instance_type)
            available = {offering.capacity_type for offering in offerings}
            first = next((name for name in CAPACITY_TYPE_ORDER if name in available), "")
            prices = [offering.price for offering in offerings if offering.capacity_type == first]
            price = self._max_prices[id(instance_type)] = max(prices, default=_INFINITE_PRICE)
        return price

    def get_cheapest(self, instance_type: InstanceType) -> Offering:
        """Return the cheapest allowed offering, ties by zone and capacity type."""
        return min(
            self.get_offerings(instance_type),
            key=lambda offering: (offering.price, offering.zone, offering.capacity_type),
        )

    def has_spot(self, instance_type: InstanceType) -> bool:
        offerings = self.get_offerings(instance_type)
        return any(offering.capacity_type == label_keys.SPOT for offering in offerings)


class OfferingPriceCache:
    """Offering prices of one pass: many claims share requirements on offerings.

    Instance types are compared by identity, so the cache must not outlive them.
    """

    def __init__(self) -> None:
        self._prices: dict[tuple[Requirement | None, ...], OfferingPrices] = {}

    def get(self, requirements: Requirements) -> OfferingPrices:
        key = tuple(requirements.get(name) for name in _OFFERING_KEYS)
        prices = self._prices.get(key)
        if prices is None:
            prices = self._prices[key] = OfferingPrices(requirements)
        return prices


def narrow_replacements(
    nodes: Sequence[PlannedNode],
    candidates: Sequence[Candidate],
    settings: ConsolidationSettings,
    price_cache: OfferingPriceCache,
    *,
    added_surplus: float = 0.0,
    allow_existing_types: bool = False,
) -> PricedReplacements:
    """Narrow replacements to types that are certainly cheaper than the candidates.

    ``added_surplus`` is what other nodes cost more in USD per hour. With
    ``allow_existing_types``, several replacements may have types of candidates.
    """
    price = sum(candidate.price for candidate in candidates) - added_surplus
    if any(candidate.price <= 0 for candidate in candidates):
        return PricedReplacements(code="no-price", message=NO_OFFERING_PRICE)
    expected = sum(node.price for node in nodes)
    if expected >= price:
        return PricedReplacements(code="not-cheaper", message=_format_not_cheaper(expected, price))
    replacement_filter = _ReplacementFilter(
        candidates, settings, price_cache, len(nodes), allow_existing_types=allow_existing_types
    )
    narrowed: list[PlannedNode] = []
    for node in nodes:
        # The sum of the maximum prices of all replacements stays below the candidates' price.
        share = node.price / expected if expected > 0 else 1.0 / len(nodes)
        result = replacement_filter.narrow(node, node.price + (price - expected) * share)
        if result.code:
            return result
        narrowed += result.nodes
    return PricedReplacements(tuple(narrowed))


class _ReplacementFilter:
    """Narrows the replacements of one set of candidates."""

    def __init__(
        self,
        candidates: Sequence[Candidate],
        settings: ConsolidationSettings,
        price_cache: OfferingPriceCache,
        replacement_count: int,
        *,
        allow_existing_types: bool,
    ) -> None:
        self._candidates = candidates
        self._settings = settings
        self._price_cache = price_cache
        self._replacement_count = replacement_count
        self._allow_existing_types = allow_existing_types and replacement_count > 1
        capacity_types = {candidate.node.labels.get(label_keys.CAPACITY_TYPE) for candidate in candidates}
        self._all_spot = capacity_types <= {label_keys.SPOT}

    def narrow(self, node: PlannedNode, max_price: float) -> PricedReplacements:
        """Narrow one node to types that certainly cost less than ``max_price``."""
        requirements = node.requirements
        may_be_spot = requirements[label_keys.CAPACITY_TYPE].has(label_keys.SPOT)
        is_spot_to_spot = self._all_spot and may_be_spot
        if is_spot_to_spot:
            if not self._settings.spot_to_spot:
                return PricedReplacements(code="spot-to-spot", message=SPOT_TO_SPOT_DISABLED)
            requirements = _require(requirements, label_keys.CAPACITY_TYPE, [label_keys.SPOT])
        prices = self._price_cache.get(requirements)
        max_prices = {
            option.name: prices.get_max_price(option) + option.price_surplus(node.requested)
            for option in node.instance_types
        }
        types = [option for option in node.instance_types if max_prices[option.name] < max_price]
        if len(self._candidates) > 1 and not self._allow_existing_types:
            types = _exclude_existing_types(types, max_prices, self._candidates, self._replacement_count)
        if not types:
            message = f"no sufficient instance type is certain to cost less than {max_price:.4f} USD per hour"
            return PricedReplacements(code="not-cheaper", message=message)
        if may_be_spot and any(prices.has_spot(instance_type) for instance_type in types):
            # A launch without spot capacity must fail, not fall back to on-demand prices.
            requirements = _require(requirements, label_keys.CAPACITY_TYPE, [label_keys.SPOT])
            prices = self._price_cache.get(requirements)
            types = [instance_type for instance_type in types if prices.has_spot(instance_type)]
        if is_spot_to_spot and self._replacement_count >= len(self._candidates):
            minimum = self._settings.min_spot_types
            if len(types) < minimum:
                number = f"only {len(types)} cheaper spot instance types are sufficient"
                message = f"{number}; at least {minimum} are required"
                return PricedReplacements(code="spot-to-spot", message=message)
            types = types[: max(minimum, _count_needed_types(types, requirements))]
        unmet = _find_unmet_min_values(types, requirements)
        if unmet:
            message = f"cheaper types alone do not meet minValues of {unmet}"
            return PricedReplacements(code="min-values", message=message)
        return PricedReplacements((_narrow_node(node, types, requirements, prices),))


def _exclude_existing_types(
    types: list[InstanceType],
    max_prices: Mapping[str, float],
    candidates: Sequence[Candidate],
    replacement_count: int,
) -> list[InstanceType]:
    """Exclude types of the candidates: keeping such a node is better than a launch.

    ``max_prices`` is the maximum launch price by name of the type, in USD per hour.
    """
    names = {instance_type.name for instance_type in types}
    same = [node for node in candidates if node.node.labels.get(label_keys.INSTANCE_TYPE) in names]
    if not same:
        return types
    if replacement_count > 1:
        existing = {candidate.node.labels.get(label_keys.INSTANCE_TYPE) for candidate in same}
        return [instance_type for instance_type in types if instance_type.name not in existing]
    cheapest = min(candidate.price for candidate in same)
    return [instance_type for instance_type in types if max_prices[instance_type.name] < cheapest]


def _find_unmet_min_values(types: Iterable[InstanceType], requirements: Requirements) -> str:
    """Return the first label with fewer values than its minValues; empty: none."""
    listed = list(types)
    for key, requirement in sorted(requirements.items()):
        minimum = requirement.min_values
        if minimum is not None and len(collect_values(listed, key, requirement)) < minimum:
            return key
    return ""


def _count_needed_types(types: Sequence[InstanceType], requirements: Requirements) -> int:
    """Return how many of the cheapest types are needed to meet minValues."""
    counts = range(1, len(types))
    sufficient = (count for count in counts if not _find_unmet_min_values(types[:count], requirements))
    return next(sufficient, len(types))


def _narrow_node(
    node: PlannedNode, types: list[InstanceType], requirements: Requirements, prices: OfferingPrices
) -> PlannedNode:
    cheapest = {instance_type.name: prices.get_cheapest(instance_type) for instance_type in types}

    def price_and_name(option: InstanceType) -> tuple[float, str]:
        return (cheapest[option.name].price + option.price_surplus(node.requested), option.name)

    ordered = sorted(types, key=price_and_name)
    return replace(
        node,
        instance_types=tuple(ordered),
        offering=cheapest[ordered[0].name],
        requirements=_require(requirements, label_keys.INSTANCE_TYPE, cheapest),
    )


def _require(requirements: Requirements, key: str, values: Iterable[str]) -> Requirements:
    """Return requirements with other values of one label, and the same minValues."""
    required = Requirement(key, False, frozenset(values), min_values=requirements[key].min_values)
    return Requirements({**requirements, key: required})


def _format_not_cheaper(price: float, before: float) -> str:
    return f"the cheapest nodes for its pods cost {price:.4f} USD per hour, it costs {before:.4f}"
