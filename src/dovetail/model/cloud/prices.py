"""Prices: what an hour of a machine costs, and who says so."""

import msgspec

from dovetail.model.frozen import FrozenDict

Place = tuple[str, str]
"""(machine type, region or zone id)."""


class PriceBook(msgspec.Struct, frozen=True, kw_only=True):
    """USD per hour by type and place; None where nothing is known.

    Exact figures (``on_demand_at``, ``spot_at``) come first. Where there is
    none, ``list_prices`` times the region's factor stands in for on-demand,
    and ``spot_share`` of on-demand for spot; a book without those (a price
    file of the user's) then knows no price.
    """

    source: str
    date: str = ""
    """The day the figures are from, as YYYY-MM-DD; empty if nobody said."""
    on_demand_at: FrozenDict[Place, float] = FrozenDict()
    spot_at: FrozenDict[Place, float] = FrozenDict()
    list_prices: FrozenDict[str, float] = FrozenDict()
    region_factors: FrozenDict[str, float] = FrozenDict()
    """Region → its on-demand prices relative to ``list_prices``."""
    spot_share: float | None = None
    estimated: frozenset[str] = frozenset()
    """Types whose list price was worked out from their relatives."""

    def on_demand(self, machine: str, region: str, zone_id: str = "") -> float | None:
        """Return the on-demand price; local zones may have their own."""
        for place in (zone_id, region):
            exact = self.on_demand_at.get((machine, place))
            if exact is not None:
                return exact
        listed = self.list_prices.get(machine)
        factor = self.region_factors.get(region)
        return None if listed is None or factor is None else listed * factor

    def spot(self, machine: str, *, region: str, zone: str = "", zone_id: str = "") -> float | None:
        """Return the spot price in a zone, known by its name or its id."""
        for place in (zone_id, zone):
            exact = self.spot_at.get((machine, place))
            if exact is not None:
                return exact
        if self.spot_share is None:
            return None
        base = self.on_demand(machine, region, zone_id)
        return None if base is None else base * self.spot_share

    def covers(self, region: str) -> bool:
        """Tell whether anything at all is priced in ``region``."""
        return region in self.region_factors or any(
            place == region for _, place in self.on_demand_at
        )

    def describe(self) -> str:
        """Return source, date and assumptions in one line, for every output."""
        said = f"{self.source}, {self.date}" if self.date else self.source
        if self.spot_share is not None:
            said += f"; spot assumed at {self.spot_share:.0%} of on-demand where not given"
        return said
