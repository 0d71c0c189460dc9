"""Offerings at the prices that a user's discounts make of them."""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping
from math import isfinite
from typing import Final

import msgspec

from dovetail.core.instancetypes.billing import Bill, Lot, Usage, settle
from dovetail.model import labels as label_keys
from dovetail.model.cloud.discounts import NO_DISCOUNTS, DiscountBook
from dovetail.model.cloud.instance_type import InstanceType, Offering

_MANAGED_CAPACITY_TYPE: Final = "eks.amazonaws.com/capacityType"
PAID_ALREADY: Final = 0.05
"""The part of its price at which capacity counts that a commitment pays for anyway.

Below any spot price (those go down to a tenth), so that commitments are used
before more is bought;
but not nothing, so that they are used sparingly.
"""


Place = tuple[str, str, str]
"""(instance type, zone, capacity type)."""


def place_of(labels: Mapping[str, str]) -> Place:
    """Return what a node is, from its labels; those of managed groups use words of their own."""
    managed = labels.get(_MANAGED_CAPACITY_TYPE, "").lower().replace("_", "-")
    return (
        labels.get(label_keys.INSTANCE_TYPE, ""),
        labels.get(label_keys.ZONE, ""),
        labels.get(label_keys.CAPACITY_TYPE) or managed or label_keys.ON_DEMAND,
    )


class ListPrices:
    """What instances cost before any discount."""

    def __init__(self, stocks: Iterable[tuple[InstanceType, ...]]) -> None:
        different = {id(types): types for types in stocks}
        self._prices: dict[Place, float] = {
            (one.name, offering.zone, offering.capacity_type): offering.price
            for types in different.values()
            for one in types
            for offering in one.offerings
            if offering.capacity_type != label_keys.RESERVED and isfinite(offering.price)
        }

    def lot(self, place: Place) -> Lot | None:
        """Return what an instance is billed as; None where that is not known."""
        price = self._prices.get(place)
        if price is None:
            return None
        name, zone, sold_as = place
        return Lot(instance_type=name, zone=zone, capacity_type=sold_as, list_price=price)

    def usage(self, counts: Mapping[Place, int]) -> Usage:
        """Return what is running as it is billed."""
        lots = ((self.lot(place), many) for place, many in counts.items())
        return {lot: many for lot, many in lots if lot is not None}

    def on_demand(self) -> list[float]:
        """Return all on-demand prices there are, in order."""
        return sorted(
            {price for (_, _, sold), price in self._prices.items() if sold == label_keys.ON_DEMAND}
        )


class Discounts:
    """A book in a region, asked for the prices of many offerings.

    An offering that a commitment still covers whole is priced as paid already,
    as seen from what runs now: see docs/decisions/0008.
    """

    def __init__(self, book: DiscountBook = NO_DISCOUNTS, *, region: str = "") -> None:
        self._book = book
        self._region = region
        self._factors: dict[tuple[str, str], float] = {}

    @property
    def has_commitments(self) -> bool:
        return self._book.has_commitments

    def bill(self, usage: Usage) -> Bill:
        """Return what an hour of all these instances costs."""
        return settle(usage, self._book, region=self._region)

    def cover(self, bill: Bill, listed: list[float]) -> tuple[float, ...]:
        """Return a value that differs when a bill leaves other offerings covered.

        ``listed`` are the on-demand prices that there are, in order.
        """
        slots = (float(left >= 1) for _, left in bill.slots)
        plans = (
            float(bisect_right(listed, rest / (1 - plan.percent / 100))) for plan, rest in bill.rest
        )
        return (*slots, *plans)

    def after(self, bill: Bill) -> "Discounts":
        """Return what is left of them for instances beside those of a bill."""
        replace = msgspec.structs.replace
        left = replace(
            self._book,
            plans=tuple(replace(plan, commitment=rest) for plan, rest in bill.rest),
            reservations=tuple(replace(one, count=round(slots)) for one, slots in bill.slots),
        )
        return Discounts(left, region=self._region)

    def applied(
        self, types: tuple[InstanceType, ...], bill: Bill | None = None
    ) -> tuple[InstanceType, ...]:
        """Return the types at the prices to decide by; without a bill, nothing is covered."""
        if not self._book:
            return types
        return tuple(self._discounted(one, bill) for one in types)

    def _discounted(self, one: InstanceType, bill: Bill | None) -> InstanceType:
        offerings = tuple(self._repriced(one.name, offering, bill) for offering in one.offerings)
        if all(new is old for new, old in zip(offerings, one.offerings, strict=True)):
            return one
        return msgspec.structs.replace(one, offerings=offerings)

    def _repriced(self, name: str, offering: Offering, bill: Bill | None) -> Offering:
        if offering.capacity_type == label_keys.RESERVED or not isfinite(offering.price):
            return offering
        price = offering.price * self._factor(name, offering.capacity_type)
        if offering.capacity_type == label_keys.ON_DEMAND and bill is not None:
            price *= PAID_ALREADY if self._is_covered(name, offering, bill) else 1.0
        if price == offering.price:
            return offering
        return msgspec.structs.replace(offering, price=price)

    def _factor(self, name: str, capacity_type: str) -> float:
        known = self._factors.get((name, capacity_type))
        if known is None:
            known = self._book.factor(name, region=self._region, capacity_type=capacity_type)
            self._factors[name, capacity_type] = known
        return known

    def _is_covered(self, name: str, offering: Offering, bill: Bill) -> bool:
        """Tell whether a commitment has room for one more whole instance."""
        if any(
            slots >= 1 and one.covers(name, region=self._region, zone=offering.zone)
            for one, slots in bill.slots
        ):
            return True
        return any(
            offering.price <= rest / (1 - plan.percent / 100)
            and plan.covers(name, region=self._region, zone=offering.zone)
            for plan, rest in bill.rest
        )


def tariff_of(
    book: DiscountBook, *, region: str, types: tuple[InstanceType, ...]
) -> Callable[[Mapping[Place, int]], float]:
    """Return a function that tells what an hour of so many instances is billed at."""
    prices, discounts = ListPrices([types]), Discounts(book, region=region)
    return lambda counts: discounts.bill(prices.usage(counts)).cost
