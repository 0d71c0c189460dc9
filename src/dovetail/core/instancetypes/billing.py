"""The hourly bill of a set of instances: who pays for what, and what is left unused.

Reservations are used up first, then savings plans, then the rest is paid at
its own price. Which of them covers what does not depend on the order in which
they are written: reservations of a zone before those of a region; plans for
named machines before plans for all, larger discounts first; and of the
instances that a plan covers, those with the lowest rate first, as AWS does.
"""

from collections.abc import Mapping
from math import isfinite

import msgspec

from dovetail.model import labels as label_keys
from dovetail.model.cloud.discounts import DiscountBook, ReservedInstances, SavingsPlan

_CRUMB = 1e-9
"""Less of an instance than this is a rounding error."""


class Lot(msgspec.Struct, frozen=True, kw_only=True):
    """Instances that cost the same: of one type, in one zone, bought one way."""

    instance_type: str
    zone: str
    capacity_type: str
    list_price: float
    """USD per hour of each, before any discount."""


Usage = Mapping[Lot, int]
"""How many of each are running."""


class Share(msgspec.Struct, frozen=True, kw_only=True):
    """A part of a lot that is paid in one way."""

    lot: Lot
    amount: float
    """Instances; a plan may end in the middle of one."""
    price: float
    """USD per hour of each."""
    by: str = ""
    """The plan or the reservations that cover it; empty: nothing does."""

    @property
    def cost(self) -> float:
        return self.amount * self.price


class Bill(msgspec.Struct, frozen=True, kw_only=True):
    """What an hour of all that runs costs."""

    shares: tuple[Share, ...]
    slots: tuple[tuple[ReservedInstances, float], ...]
    """How many more instances each could pay for."""
    rest: tuple[tuple[SavingsPlan, float], ...]
    """What is left of each commitment, in USD per hour."""
    committed: float

    @property
    def cost(self) -> float:
        """USD per hour, at the rates by which it is billed; what is unused comes on top."""
        return sum(one.cost for one in self.shares)

    @property
    def used(self) -> float:
        """How much of what is committed is used."""
        return sum(one.cost for one in self.shares if one.by)

    @property
    def list_price(self) -> float:
        return sum(one.amount * one.lot.list_price for one in self.shares)


def settle(usage: Usage, book: DiscountBook, *, region: str) -> Bill:
    """Return the bill for what runs in a region."""
    left: dict[Lot, float] = {
        lot: float(usage[lot])
        for lot in sorted(usage, key=_by_price)
        if usage[lot] > 0 and isfinite(lot.list_price)
    }
    shares: list[Share] = []
    slots = [
        (one, _use_slots(one, left, shares, region))
        for one in sorted(book.reservations, key=_by_narrowness)
    ]
    rest = [
        (plan, _use_plan(plan, left, shares, region)) for plan in sorted(book.plans, key=_by_aim)
    ]
    for lot in list(left):
        factor = book.factor(lot.instance_type, region=region, capacity_type=lot.capacity_type)
        _take(left, shares, lot, left[lot], price=lot.list_price * factor)
    return Bill(
        shares=tuple(shares), slots=tuple(slots), rest=tuple(rest), committed=book.committed
    )


def _use_slots(
    one: ReservedInstances, left: dict[Lot, float], shares: list[Share], region: str
) -> float:
    """Let reservations pay for what they cover; return how many are not used."""
    slots = float(one.count)
    for lot in _coverable(left, one, region):
        slots -= _take(left, shares, lot, slots, price=one.price, by=one.name)
    return slots


def _use_plan(plan: SavingsPlan, left: dict[Lot, float], shares: list[Share], region: str) -> float:
    """Let a plan pay for what it covers; return what is left of the commitment."""
    rest = plan.commitment
    for lot in _coverable(left, plan, region):
        rate = plan.rate(lot.list_price)
        taken = _take(left, shares, lot, rest / rate, price=rate, by=plan.name)
        rest = max(0.0, rest - taken * rate)
    return rest


def _coverable(
    left: Mapping[Lot, float], one: ReservedInstances | SavingsPlan, region: str
) -> list[Lot]:
    return [
        lot
        for lot, amount in left.items()
        if amount > _CRUMB
        and lot.capacity_type == label_keys.ON_DEMAND
        and one.covers(lot.instance_type, region=region, zone=lot.zone)
    ]


def _take(
    left: dict[Lot, float],
    shares: list[Share],
    lot: Lot,
    most: float,
    *,
    price: float,
    by: str = "",
) -> float:
    """Have so many instances paid at a price, or as many as are left; return how many."""
    amount = min(left[lot], most)
    if amount <= _CRUMB:
        return 0.0
    left[lot] -= amount
    shares.append(Share(lot=lot, amount=amount, price=price, by=by))
    return amount


def _by_price(lot: Lot) -> tuple[float, str, str, str]:
    return (lot.list_price, lot.instance_type, lot.zone, lot.capacity_type)


def _by_narrowness(one: ReservedInstances) -> tuple[object, ...]:
    # The last part only settles ties, so that the order in a file never does.
    return (not one.zone, not one.region, one.price, *msgspec.structs.astuple(one))


def _by_aim(plan: SavingsPlan) -> tuple[object, ...]:
    name, commitment, percent, scope = msgspec.structs.astuple(plan)
    rest = (name, commitment, *msgspec.structs.astuple(scope))
    return (not plan.scope.names_machines, -percent, *rest)
