"""Discounted prices of offerings."""

import pytest
from hypothesis import given

from dovetail.core.instancetypes.billing import UsageKey
from dovetail.core.instancetypes.discounts import COMMITTED_PRICE_FACTOR, Discounts
from dovetail.model.cloud.discounts import (
    DiscountBook,
    DiscountScope,
    PercentageDiscount,
    ReservedInstances,
    SavingsPlan,
)
from dovetail.model.cloud.instance_type import InstanceType
from dovetail.model.karpenter.ec2nodeclass import CapacityReservation, EC2NodeClass
from tests.core.instancetypes.builders import ZONES, build_type, offering
from tests.core.instancetypes.test_billing import BOOKS

A, B = ZONES
REGION = "eu-west-1"
M5 = build_type("m5.large")
LIST = 0.096
ONE_SLOT = ReservedInstances(name="r", instance_type="m5.large", count=1, price=0.05, zone=A)


def discounted_prices(
    book: DiscountBook, instance_type: InstanceType = M5, running: dict[UsageKey, int] | None = None
) -> dict[tuple[str, str], float]:
    """Return (zone, capacity type) → the price to decide by."""
    discounts = Discounts(book, region=REGION)
    (only,) = discounts.apply((instance_type,), discounts.bill(running or {}))
    return {(each.zone, each.capacity_type): each.price for each in only.offerings}


def running(count: int, zone: str = A) -> dict[UsageKey, int]:
    lot = UsageKey(instance_type="m5.large", zone=zone, capacity_type="on-demand", list_price=LIST)
    return {lot: count}


def test_a_percentage_lowers_the_prices_it_is_for() -> None:
    book = DiscountBook(
        percentages=(PercentageDiscount(percent=25, scope=DiscountScope(capacity_types=("spot",))),)
    )

    prices = discounted_prices(book)

    assert prices[A, "spot"] == pytest.approx(LIST * 0.5 * 0.75)
    assert prices[A, "on-demand"] == LIST


def test_types_that_no_discount_is_for_stay_the_same_objects() -> None:
    book = DiscountBook(percentages=(PercentageDiscount(percent=25, scope=DiscountScope(families=("c5",))),))

    (same,) = Discounts(book, region=REGION).apply((M5,))

    assert same is M5


def test_capacity_that_a_reservation_still_covers_counts_as_paid_already_in_its_zone() -> None:
    prices = discounted_prices(DiscountBook(reservations=(ONE_SLOT,)))

    assert prices[A, "on-demand"] == pytest.approx(LIST * COMMITTED_PRICE_FACTOR)
    assert prices[B, "on-demand"] == LIST
    assert prices[A, "on-demand"] < prices[A, "spot"]


def test_when_the_reservation_is_in_use_the_next_instance_costs_its_own_price() -> None:
    prices = discounted_prices(DiscountBook(reservations=(ONE_SLOT,)), running=running(1))

    assert prices[A, "on-demand"] == LIST


def test_an_instance_that_the_rest_of_a_plan_does_not_cover_whole_costs_its_own_price() -> None:
    plan = SavingsPlan(name="p", commitment=0.1, percent=50)
    book = DiscountBook(plans=(plan,))

    assert discounted_prices(book)[A, "on-demand"] == pytest.approx(LIST * COMMITTED_PRICE_FACTOR)
    assert discounted_prices(book, running=running(1))[A, "on-demand"] == pytest.approx(
        LIST * COMMITTED_PRICE_FACTOR
    )
    assert discounted_prices(book, running=running(2))[A, "on-demand"] == LIST


def test_reserved_capacity_keeps_its_price_and_stays_the_cheapest() -> None:
    held = CapacityReservation(id="cr-1", instance_type="m5.large", zone=A, available_count=3)
    m5 = build_type("m5.large", EC2NodeClass(capacity_reservations=(held,)))
    book = DiscountBook(percentages=(PercentageDiscount(percent=90),), reservations=(ONE_SLOT,))

    prices = discounted_prices(book, m5)

    assert prices[A, "reserved"] == offering(m5, A, "reserved").price
    assert prices[A, "reserved"] < prices[A, "on-demand"]


@given(book=BOOKS)
def test_prices_are_never_negative_and_never_higher_than_the_list(book: DiscountBook) -> None:
    discounts = Discounts(book, region=REGION)

    (only,) = discounts.apply((M5,), discounts.bill(running(2)))

    for new, old in zip(only.offerings, M5.offerings, strict=True):
        assert 0 <= new.price <= old.price
        assert new.available == old.available
