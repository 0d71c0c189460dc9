"""Discounts on list prices: percentages, savings plans and reserved instances."""

from collections.abc import Iterable
from fnmatch import fnmatchcase

import msgspec

from dovetail.model import labels as label_keys


class DiscountScope(msgspec.Struct, frozen=True, kw_only=True):
    """Instances that a discount applies to, as shell patterns; an empty field matches all."""

    families: tuple[str, ...] = ()
    instance_types: tuple[str, ...] = ()
    regions: tuple[str, ...] = ()
    capacity_types: tuple[str, ...] = ()

    def covers(self, instance_type: str, *, region: str, capacity_type: str) -> bool:
        """Return True if all patterns match the instance."""
        return (
            _matches_any(instance_type.partition(".")[0], self.families)
            and _matches_any(instance_type, self.instance_types)
            and _matches_any(region, self.regions)
            and _matches_any(capacity_type, self.capacity_types)
        )

    @property
    def selects_instance_types(self) -> bool:
        return bool(self.families or self.instance_types)


class PercentageDiscount(msgspec.Struct, frozen=True, kw_only=True):
    """A discount in percent, without a limit."""

    percent: float
    scope: DiscountScope = DiscountScope()
    name: str = ""


class SavingsPlan(msgspec.Struct, frozen=True, kw_only=True):
    """Hourly commitment that covers on-demand usage at a lower rate."""

    name: str
    commitment: float
    """USD per hour, paid even if unused."""
    percent: float
    """Discount on the list price until the commitment is used up."""
    scope: DiscountScope = DiscountScope()

    def rate(self, list_price: float) -> float:
        """Return the part of the commitment that one hour uses, in USD."""
        return list_price * (1 - self.percent / 100)

    def covers(self, instance_type: str, *, region: str, zone: str) -> bool:
        del zone  # Savings plans are regional.
        return self.scope.covers(instance_type, region=region, capacity_type=label_keys.ON_DEMAND)


class ReservedInstances(msgspec.Struct, frozen=True, kw_only=True):
    """Reserved instances of one instance type, paid every hour even if unused."""

    name: str
    instance_type: str
    count: int
    price: float
    """USD per hour and instance."""
    region: str = ""
    """Empty: any region."""
    zone: str = ""
    """Empty: any zone of the region."""

    def covers(self, instance_type: str, *, region: str, zone: str) -> bool:
        return instance_type == self.instance_type and self.region in ("", region) and self.zone in ("", zone)


class DiscountBook(msgspec.Struct, frozen=True, kw_only=True):
    """All discounts of a user."""

    source: str = ""
    percentages: tuple[PercentageDiscount, ...] = ()
    plans: tuple[SavingsPlan, ...] = ()
    reservations: tuple[ReservedInstances, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.percentages or self.has_commitments)

    @property
    def has_commitments(self) -> bool:
        """True if it contains savings plans or reserved instances."""
        return bool(self.plans or self.reservations)

    @property
    def hourly_commitment(self) -> float:
        """USD per hour that are paid regardless of usage."""
        reserved = sum(group.count * group.price for group in self.reservations)
        return reserved + sum(plan.commitment for plan in self.plans)

    def price_factor(self, instance_type: str, *, region: str, capacity_type: str) -> float:
        """Return the product of all percentage discounts that match, from 0 to 1."""
        factor = 1.0
        # Sorted, so that floating point gives the same result for any order in the file.
        for discount in sorted(self.percentages, key=lambda discount: discount.percent):
            if discount.scope.covers(instance_type, region=region, capacity_type=capacity_type):
                factor *= 1 - discount.percent / 100
        return factor


NO_DISCOUNTS = DiscountBook()


def _matches_any(name: str, patterns: Iterable[str]) -> bool:
    alternatives = tuple(patterns)
    return not alternatives or any(fnmatchcase(name, pattern) for pattern in alternatives)
