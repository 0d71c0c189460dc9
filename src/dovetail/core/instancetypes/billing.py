"""Hourly bill of instances under reserved instances and savings plans.

Reserved instances are used first, then savings plans; the rest is billed at its own
price. The result does not depend on the order in the file: zonal reservations come
before regional ones; plans for certain types before plans for all; larger discounts
first. Of the instances that a plan covers, those with the lowest rate come first, as
on AWS.
"""

from collections.abc import Mapping
from math import isfinite

import msgspec

from dovetail.model import labels as label_keys
from dovetail.model.cloud.discounts import DiscountBook, ReservedInstances, SavingsPlan

_EPSILON = 1e-9
"""Instances: a smaller amount is a rounding error."""


class UsageKey(msgspec.Struct, frozen=True, kw_only=True):
    """Instances that are billed alike."""

    instance_type: str
    zone: str
    capacity_type: str
    list_price: float
    """USD per hour of each, before discounts."""


Usage = Mapping[UsageKey, int]
"""Number of running instances of each key."""


class Share(msgspec.Struct, frozen=True, kw_only=True):
    """Instances of one key that are billed at one price."""

    usage_key: UsageKey
    amount: float
    """Instances; fractional, because a plan may cover part of one."""
    price: float
    """USD per hour of each."""
    covered_by: str = ""
    """Name of the plan or reservation that covers them; empty: none."""

    @property
    def cost(self) -> float:
        return self.amount * self.price


class Bill(msgspec.Struct, frozen=True, kw_only=True):
    """Cost of one hour."""

    shares: tuple[Share, ...]
    unused_slots: tuple[tuple[ReservedInstances, float], ...]
    """Instances that each reservation could still cover."""
    unused_commitments: tuple[tuple[SavingsPlan, float], ...]
    """Unused commitment of each plan, in USD per hour."""
    committed: float

    @property
    def cost(self) -> float:
        """USD per hour of the instances; unused commitments come in addition."""
        return sum(share.cost for share in self.shares)

    @property
    def used(self) -> float:
        """USD per hour of commitments in use."""
        return sum(share.cost for share in self.shares if share.covered_by)

    @property
    def list_price(self) -> float:
        return sum(share.amount * share.usage_key.list_price for share in self.shares)


def compute_bill(usage: Usage, book: DiscountBook, *, region: str) -> Bill:
    """Return the bill of the instances in a region."""
    remaining: dict[UsageKey, float] = {
        key: float(usage[key])
        for key in sorted(usage, key=_usage_order)
        if usage[key] > 0 and isfinite(key.list_price)
    }
    shares: list[Share] = []
    unused_slots = [
        (reservation, _use_reservations(reservation, remaining, shares, region))
        for reservation in sorted(book.reservations, key=_reservation_order)
    ]
    unused_commitments = [
        (plan, _use_plan(plan, remaining, shares, region)) for plan in sorted(book.plans, key=_plan_order)
    ]
    for key in list(remaining):
        factor = book.price_factor(key.instance_type, region=region, capacity_type=key.capacity_type)
        _cover(remaining, shares, key, remaining[key], price=key.list_price * factor)
    return Bill(
        shares=tuple(shares),
        unused_slots=tuple(unused_slots),
        unused_commitments=tuple(unused_commitments),
        committed=book.hourly_commitment,
    )


def _use_reservations(
    reservation: ReservedInstances, remaining: dict[UsageKey, float], shares: list[Share], region: str
) -> float:
    """Cover instances by a reservation; return its unused slots."""
    slots, price, name = float(reservation.count), reservation.price, reservation.name
    for usage_key in _coverable_usage(remaining, reservation, region):
        slots -= _cover(remaining, shares, usage_key, slots, price=price, covered_by=name)
    return slots


def _use_plan(plan: SavingsPlan, remaining: dict[UsageKey, float], shares: list[Share], region: str) -> float:
    """Cover instances by a plan; return its unused commitment."""
    unused = plan.commitment
    for usage_key in _coverable_usage(remaining, plan, region):
        rate = plan.rate(usage_key.list_price)
        covered = _cover(remaining, shares, usage_key, unused / rate, price=rate, covered_by=plan.name)
        unused = max(0.0, unused - covered * rate)
    return unused


def _coverable_usage(
    remaining: Mapping[UsageKey, float], discount: ReservedInstances | SavingsPlan, region: str
) -> list[UsageKey]:
    return [
        usage_key
        for usage_key, amount in remaining.items()
        if amount > _EPSILON
        and usage_key.capacity_type == label_keys.ON_DEMAND
        and discount.covers(usage_key.instance_type, region=region, zone=usage_key.zone)
    ]


def _cover(
    remaining: dict[UsageKey, float],
    shares: list[Share],
    usage_key: UsageKey,
    max_amount: float,
    *,
    price: float,
    covered_by: str = "",
) -> float:
    """Bill up to ``max_amount`` instances at a price; return how many."""
    amount = min(remaining[usage_key], max_amount)
    if amount <= _EPSILON:
        return 0.0
    remaining[usage_key] -= amount
    shares.append(Share(usage_key=usage_key, amount=amount, price=price, covered_by=covered_by))
    return amount


def _usage_order(usage_key: UsageKey) -> tuple[float, str, str, str]:
    return (usage_key.list_price, usage_key.instance_type, usage_key.zone, usage_key.capacity_type)


def _reservation_order(instance: ReservedInstances) -> tuple[object, ...]:
    # All fields at the end: equal reservations only, so the file's order never matters.
    return (not instance.zone, not instance.region, instance.price, *msgspec.structs.astuple(instance))


def _plan_order(plan: SavingsPlan) -> tuple[object, ...]:
    name, commitment, percent, scope = msgspec.structs.astuple(plan)
    rest = (name, commitment, *msgspec.structs.astuple(scope))
    return (not plan.scope.selects_instance_types, -percent, *rest)
