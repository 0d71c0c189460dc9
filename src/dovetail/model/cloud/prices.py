"""Prices of instance types per hour, and where they come from."""

from typing import Final

import msgspec

from dovetail.model.frozen import FrozenDict

PriceKey = tuple[str, str]
"""(instance type, region or zone ID)."""
USD: Final = "USD"
_OTHER_CURRENCIES: Final = (("cn-", "CNY"), ("eusc-", "EUR"))
"""Prefix of regions → currency of all AWS prices there."""


def currency_of(region: str) -> str:
    """Return the currency of a region's prices, such as CNY in China."""
    return next((currency for prefix, currency in _OTHER_CURRENCIES if region.startswith(prefix)), USD)


class RegionEstimate(msgspec.Struct, frozen=True, kw_only=True):
    """On-demand prices of a region that are computed from those of another one."""

    region: str
    """The region that has the list prices."""
    factor: float
    is_assumed: bool
    """True if no factor is known for the region."""

    def describe(self) -> str:
        if self.is_assumed:
            return f"on-demand assumed at {self.factor:g} × {self.region} (no factor is known)"
        return f"on-demand estimated at {self.factor:g} × {self.region}"


class PriceBook(msgspec.Struct, frozen=True, kw_only=True):
    """Prices per hour by instance type and region or zone.

    Exact prices (``on_demand_prices``, ``spot_prices``) come first. Without one,
    the on-demand price is the list price times the factor of the region, and the
    spot price is ``spot_ratio`` times the on-demand price. Without list prices or
    factor, a price is unknown (None).
    """

    source: str
    date: str = ""
    """Date of the prices, YYYY-MM-DD; empty if unknown."""
    on_demand_prices: FrozenDict[PriceKey, float] = FrozenDict()
    spot_prices: FrozenDict[PriceKey, float] = FrozenDict()
    rows: frozenset[PriceKey] = frozenset()
    """(instance type, region) of a price file: a price that it leaves empty does not exist."""
    list_prices: FrozenDict[str, float] = FrozenDict()
    list_region: str = ""
    """Region of ``list_prices``."""
    list_source: str = ""
    """Source and date of ``list_prices``, if they are from another source."""
    region_factors: FrozenDict[str, float] = FrozenDict()
    """Region → factor of its on-demand prices relative to ``list_prices``."""
    default_factor: float | None = None
    """Factor of all other regions; None: they have no price."""
    spot_ratio: float | None = None
    estimated: frozenset[str] = frozenset()
    """Instance types whose list price is estimated from similar types."""

    def on_demand(self, instance_type: str, region: str, zone_id: str = "") -> float | None:
        """Return the on-demand price; a local zone can have its own."""
        exact = self._exact_on_demand(instance_type, region, zone_id)
        if exact is not None or (instance_type, region) in self.rows:
            return exact
        listed = self.list_prices.get(instance_type)
        factor = self.region_factors.get(region, self.default_factor)
        return None if listed is None or factor is None else listed * factor

    def _exact_on_demand(self, instance_type: str, region: str, zone_id: str) -> float | None:
        for location in (zone_id, region):
            exact = self.on_demand_prices.get((instance_type, location))
            if exact is not None:
                return exact
        return None

    def spot(self, instance_type: str, *, region: str, zone: str = "", zone_id: str = "") -> float | None:
        """Return the spot price in a zone, given by name or ID."""
        exact = self._exact_spot(instance_type, zone, zone_id)
        if exact is not None or self.spot_ratio is None or (instance_type, region) in self.rows:
            return exact
        base = self.on_demand(instance_type, region, zone_id)
        return None if base is None else base * self.spot_ratio

    def _exact_spot(self, instance_type: str, zone: str, zone_id: str) -> float | None:
        for location in (zone_id, zone):
            exact = self.spot_prices.get((instance_type, location))
            if exact is not None:
                return exact
        return None

    def is_estimated(
        self, instance_type: str, region: str, *, zone: str = "", zone_id: str = "", is_spot: bool = False
    ) -> bool:
        """Return True if a price follows from other types or another region.

        A spot price that is a share of a listed price is not meant: ``describe`` has the share.
        """
        if is_spot and self._exact_spot(instance_type, zone, zone_id) is not None:
            return False
        if (instance_type, region) in self.rows or (
            self._exact_on_demand(instance_type, region, zone_id) is not None
        ):
            return False
        return instance_type in self.estimated or self._region_estimate(region) is not None

    def covers_region(self, region: str) -> bool:
        """Return True if any instance type has an on-demand price in ``region``."""
        has_factor = region in self.region_factors or self.default_factor is not None
        return self.has_prices_of(region) or (has_factor and bool(self.list_prices))

    def region_estimate(self, region: str) -> RegionEstimate | None:
        """Return how prices of a region without exact prices are computed; None if it has some."""
        return None if self.has_prices_of(region) else self._region_estimate(region)

    def has_prices_of(self, region: str) -> bool:
        """Return True if ``region`` has prices of its own, which are not estimated."""
        return any(location == region for _, location in self.on_demand_prices)

    def _region_estimate(self, region: str) -> RegionEstimate | None:
        factor = self.region_factors.get(region, self.default_factor)
        if factor is None or not self.list_prices or self.list_region in ("", region):
            return None
        return RegionEstimate(
            region=self.list_region, factor=factor, is_assumed=region not in self.region_factors
        )

    def with_list(self, listed: "PriceBook") -> "PriceBook":
        """Return this book with the list prices of another one for what it lacks."""
        return msgspec.structs.replace(
            self,
            list_prices=listed.list_prices,
            list_region=listed.list_region,
            list_source="" if listed.source == self.source else listed.describe_source(),
            region_factors=listed.region_factors,
            default_factor=listed.default_factor,
            spot_ratio=listed.spot_ratio,
            estimated=listed.estimated,
        )

    def describe_source(self) -> str:
        """Return source and date."""
        return f"{self.source}, {self.date}" if self.date else self.source

    def describe(self, region: str) -> str:
        """Return source, date and assumptions in one line; part of every report."""
        parts = [self.describe_source()]
        uses_list = not self.rows or not self.has_prices_of(region)
        if self.list_source and not self.has_prices_of(region):
            parts.append(f"it has no on-demand prices for {region}, so {self.list_source}")
        estimate = self.region_estimate(region)
        if estimate is not None:
            parts.append(estimate.describe())
        if self.spot_ratio is not None and uses_list:
            parts.append(f"spot assumed at {self.spot_ratio:.0%} of on-demand where not given")
        if currency_of(region) != USD:
            parts.append(f"all amounts are in {currency_of(region)}")
        return "; ".join(parts)
