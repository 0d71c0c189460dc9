"""Discounted prices of offerings."""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping
from math import isfinite
from typing import Final

import msgspec

from dovetail.core.instancetypes.billing import Bill, Usage, UsageKey, compute_bill
from dovetail.model import labels as label_keys
from dovetail.model.cloud.discounts import NO_DISCOUNTS, DiscountBook
from dovetail.model.cloud.instance_type import InstanceType, Offering

_MANAGED_CAPACITY_TYPE: Final = "eks.amazonaws.com/capacityType"
COMMITTED_PRICE_FACTOR: Final = 0.05
"""Price factor of capacity that a commitment pays for anyway.

Below any spot price (those go down to a tenth), so that commitments are used before
more is launched; but not 0, so that they are used economically.
"""


OfferingKey = tuple[str, str, str]
"""(instance type, zone, capacity type)."""


def offering_key(labels: Mapping[str, str]) -> OfferingKey:
    """Return the offering of a node, from its labels.

    EKS managed node groups have their own capacity type label.
    """
    managed = labels.get(_MANAGED_CAPACITY_TYPE, "").lower().replace("_", "-")
    return (
        labels.get(label_keys.INSTANCE_TYPE, ""),
        labels.get(label_keys.ZONE, ""),
        labels.get(label_keys.CAPACITY_TYPE) or managed or label_keys.ON_DEMAND,
    )


class ListPrices:
    """List prices of offerings."""

    def __init__(self, type_tuples: Iterable[tuple[InstanceType, ...]]) -> None:
        distinct_tuples = {id(types): types for types in type_tuples}
        self._prices: dict[OfferingKey, float] = {
            (instance_type.name, offering.zone, offering.capacity_type): offering.price
            for types in distinct_tuples.values()
            for instance_type in types
            for offering in instance_type.offerings
            if offering.capacity_type != label_keys.RESERVED and isfinite(offering.price)
        }

    def usage_key(self, key: OfferingKey) -> UsageKey | None:
        """Return the usage key of an offering; None if its price is unknown."""
        price = self._prices.get(key)
        if price is None:
            return None
        name, zone, capacity_type = key
        return UsageKey(instance_type=name, zone=zone, capacity_type=capacity_type, list_price=price)

    def usage(self, counts: Mapping[OfferingKey, int]) -> Usage:
        """Return running instances by usage key; those without a price are left out."""
        usage_keys = ((self.usage_key(key), count) for key, count in counts.items())
        return {usage_key: count for usage_key, count in usage_keys if usage_key is not None}

    def on_demand(self) -> list[float]:
        """Return all distinct on-demand prices, ascending."""
        return sorted({price for key, price in self._prices.items() if key[2] == label_keys.ON_DEMAND})


class Discounts:
    """Discounts of a region, applied to offerings.

    An offering that unused commitments cover completely, given what runs now, is priced
    as already paid: see docs/decisions/0008.
    """

    def __init__(self, book: DiscountBook = NO_DISCOUNTS, *, region: str = "") -> None:
        self._book = book
        self._region = region
        self._factors: dict[tuple[str, str], float] = {}

    @property
    def has_commitments(self) -> bool:
        return self._book.has_commitments

    def bill(self, usage: Usage) -> Bill:
        """Return the bill of these instances."""
        return compute_bill(usage, self._book, region=self._region)

    def coverage_key(self, bill: Bill, prices: list[float]) -> tuple[float, ...]:
        """Return a key that changes when a bill covers other offerings.

        ``prices`` are all on-demand prices, ascending.
        """
        slots = (float(left >= 1) for _, left in bill.unused_slots)
        usable = (rest / (1 - plan.percent / 100) for plan, rest in bill.unused_commitments)
        return (*slots, *(float(bisect_right(prices, price)) for price in usable))

    def remaining_after(self, bill: Bill) -> "Discounts":
        """Return the discounts that are left beside the instances of a bill."""
        replace = msgspec.structs.replace
        left = replace(
            self._book,
            plans=tuple(replace(plan, commitment=rest) for plan, rest in bill.unused_commitments),
            reservations=tuple(
                replace(reservation, count=round(slots)) for reservation, slots in bill.unused_slots
            ),
        )
        return Discounts(left, region=self._region)

    def apply(self, types: tuple[InstanceType, ...], bill: Bill | None = None) -> tuple[InstanceType, ...]:
        """Return the types at discounted prices; without a bill, nothing is covered."""
        if not self._book:
            return types
        return tuple(self._discount_type(instance_type, bill) for instance_type in types)

    def _discount_type(self, instance_type: InstanceType, bill: Bill | None) -> InstanceType:
        name, offerings = instance_type.name, instance_type.offerings
        discounted = [self._discount_offering(name, offering, bill) for offering in offerings]
        return instance_type.with_offerings(discounted)

    def _discount_offering(self, name: str, offering: Offering, bill: Bill | None) -> Offering:
        if offering.capacity_type == label_keys.RESERVED or not isfinite(offering.price):
            return offering
        price = offering.price * self._factor(name, offering.capacity_type)
        if offering.capacity_type == label_keys.ON_DEMAND and bill is not None:
            price *= COMMITTED_PRICE_FACTOR if self._is_covered(name, offering, bill) else 1.0
        if price == offering.price:
            return offering
        return msgspec.structs.replace(offering, price=price)

    def _factor(self, name: str, capacity_type: str) -> float:
        factor = self._factors.get((name, capacity_type))
        if factor is None:
            factor = self._book.price_factor(name, region=self._region, capacity_type=capacity_type)
            self._factors[name, capacity_type] = factor
        return factor

    def _is_covered(self, name: str, offering: Offering, bill: Bill) -> bool:
        """Return True if an unused commitment covers one more whole instance."""
        if any(
            slots >= 1 and reservation.covers(name, region=self._region, zone=offering.zone)
            for reservation, slots in bill.unused_slots
        ):
            return True
        return any(
            offering.price <= rest / (1 - plan.percent / 100)
            and plan.covers(name, region=self._region, zone=offering.zone)
            for plan, rest in bill.unused_commitments
        )


def billing_function(
    book: DiscountBook, *, region: str, types: tuple[InstanceType, ...]
) -> Callable[[Mapping[OfferingKey, int]], float]:
    """Return a function from instance counts to USD per hour."""
    prices, discounts = ListPrices([types]), Discounts(book, region=region)
    return lambda counts: discounts.bill(prices.usage(counts)).cost
