"""Prices of instance types in USD per hour, and where they come from."""

import msgspec

from dovetail.model.frozen import FrozenDict

PriceKey = tuple[str, str]
"""(instance type, region or zone ID)."""


class PriceBook(msgspec.Struct, frozen=True, kw_only=True):
    """Prices in USD per hour by instance type and region or zone.

    Exact prices (``on_demand_prices``, ``spot_prices``) come first. Without one,
    the on-demand price is the list price times the factor of the region, and the
    spot price is ``spot_ratio`` times the on-demand price. A price file of a user
    has neither list prices nor a ratio: other prices are then unknown (None).
    """

    source: str
    date: str = ""
    """Date of the prices, YYYY-MM-DD; empty if unknown."""
    on_demand_prices: FrozenDict[PriceKey, float] = FrozenDict()
    spot_prices: FrozenDict[PriceKey, float] = FrozenDict()
    list_prices: FrozenDict[str, float] = FrozenDict()
    region_factors: FrozenDict[str, float] = FrozenDict()
    """Region → factor of its on-demand prices relative to ``list_prices``."""
    spot_ratio: float | None = None
    estimated: frozenset[str] = frozenset()
    """Instance types whose list price is estimated from similar types."""

    def on_demand(self, instance_type: str, region: str, zone_id: str = "") -> float | None:
        """Return the on-demand price; a local zone can have its own."""
        for location in (zone_id, region):
            exact = self.on_demand_prices.get((instance_type, location))
            if exact is not None:
                return exact
        listed = self.list_prices.get(instance_type)
        factor = self.region_factors.get(region)
        return None if listed is None or factor is None else listed * factor

    def spot(self, instance_type: str, *, region: str, zone: str = "", zone_id: str = "") -> float | None:
        """Return the spot price in a zone, given by name or ID."""
        for location in (zone_id, zone):
            exact = self.spot_prices.get((instance_type, location))
            if exact is not None:
                return exact
        if self.spot_ratio is None:
            return None
        base = self.on_demand(instance_type, region, zone_id)
        return None if base is None else base * self.spot_ratio

    def covers_region(self, region: str) -> bool:
        """Return True if any instance type has an on-demand price in ``region``."""
        return region in self.region_factors or any(
            location == region for _, location in self.on_demand_prices
        )

    def describe(self) -> str:
        """Return source, date and assumptions in one line; part of every report."""
        description = f"{self.source}, {self.date}" if self.date else self.source
        if self.spot_ratio is not None:
            description += f"; spot assumed at {self.spot_ratio:.0%} of on-demand where not given"
        return description
