"""Who pays for what: reservations, then savings plans, then one's own money."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dovetail.core.instancetypes.billing import Bill, Lot, settle
from dovetail.model.cloud.discounts import (
    DiscountBook,
    Percentage,
    ReservedInstances,
    SavingsPlan,
    Scope,
)

REGION = "us-east-1"
A, B = "us-east-1a", "us-east-1b"


def a_lot(name: str, price: float = 0.1, *, zone: str = A, sold_as: str = "on-demand") -> Lot:
    return Lot(instance_type=name, zone=zone, capacity_type=sold_as, list_price=price)


def a_plan(commitment: float, percent: float = 50, name: str = "plan", **scope: str) -> SavingsPlan:
    only = {key: (value,) for key, value in scope.items()}
    return SavingsPlan(
        name=name,
        commitment=commitment,
        percent=percent,
        scope=Scope(**only),  # type: ignore[arg-type]
    )


def slots(count: int, price: float = 0.06, name: str = "slots", **more: str) -> ReservedInstances:
    return ReservedInstances(name=name, instance_type="m5.large", count=count, price=price, **more)


def paid(bill: Bill) -> dict[tuple[str, str], tuple[float, float]]:
    """Return (type, by whom) → (how many, at what price)."""
    return {
        (one.lot.instance_type, one.by): (round(one.amount, 6), round(one.price, 6))
        for one in bill.shares
    }


def test_without_discounts_everything_costs_its_list_price() -> None:
    bill = settle({a_lot("m5.large", 0.096): 3}, DiscountBook(), region=REGION)

    assert bill.cost == pytest.approx(0.288)
    assert bill.cost == bill.list_price
    assert (bill.committed, bill.used) == (0, 0)


def test_percentages_that_match_apply_one_upon_another() -> None:
    book = DiscountBook(
        percentages=(
            Percentage(percent=10),
            Percentage(percent=20, scope=Scope(families=("m5",))),
            Percentage(percent=50, scope=Scope(regions=("eu-*",))),
            Percentage(percent=50, scope=Scope(capacity_types=("spot",))),
        )
    )

    bill = settle({a_lot("m5.large", 1.0): 1, a_lot("c5.large", 1.0): 1}, book, region=REGION)

    assert paid(bill) == {("m5.large", ""): (1, 0.72), ("c5.large", ""): (1, 0.9)}


def test_the_first_n_instances_cost_what_the_reservation_says_and_the_others_their_own() -> None:
    book = DiscountBook(reservations=(slots(2),))

    bill = settle({a_lot("m5.large", 0.096): 5}, book, region=REGION)

    assert paid(bill) == {("m5.large", "slots"): (2, 0.06), ("m5.large", ""): (3, 0.096)}
    assert [left for _, left in bill.slots] == [0]


def test_a_reservation_of_a_zone_is_no_use_in_another_and_is_used_before_the_regions() -> None:
    zonal, regional = slots(1, name="zonal", zone=A), slots(1, name="regional", region=REGION)
    book = DiscountBook(reservations=(regional, zonal))

    bill = settle({a_lot("m5.large", zone=A): 1, a_lot("m5.large", zone=B): 1}, book, region=REGION)

    assert {(one.lot.zone, one.by) for one in bill.shares} == {(A, "zonal"), (B, "regional")}
    assert settle({a_lot("m5.large", zone=B): 1}, book, region="us-west-2").used == 0


def test_a_savings_plan_lasts_until_its_commitment_is_used_up_even_within_an_instance() -> None:
    book = DiscountBook(plans=(a_plan(0.12),))

    bill = settle({a_lot("m5.large", 0.1): 4}, book, region=REGION)

    assert paid(bill) == {("m5.large", "plan"): (2.4, 0.05), ("m5.large", ""): (1.6, 0.1)}
    assert bill.used == pytest.approx(0.12)
    assert bill.cost == pytest.approx(0.28)


def test_reservations_are_used_before_savings_plans() -> None:
    book = DiscountBook(plans=(a_plan(1),), reservations=(slots(1),))

    bill = settle({a_lot("m5.large", 0.1): 2}, book, region=REGION)

    assert paid(bill) == {("m5.large", "slots"): (1, 0.06), ("m5.large", "plan"): (1, 0.05)}


def test_a_plan_for_a_family_is_used_before_a_plan_for_all() -> None:
    anything = a_plan(1, percent=60, name="compute")
    book = DiscountBook(plans=(anything, a_plan(0.05, name="m5 only", families="m5")))

    bill = settle({a_lot("m5.large"): 1, a_lot("c5.large"): 1}, book, region=REGION)

    assert paid(bill) == {("m5.large", "m5 only"): (1, 0.05), ("c5.large", "compute"): (1, 0.04)}


def test_spot_is_paid_by_nobody_else() -> None:
    book = DiscountBook(plans=(a_plan(9),), reservations=(slots(9),))

    bill = settle({a_lot("m5.large", 0.04, sold_as="spot"): 3}, book, region=REGION)

    assert paid(bill) == {("m5.large", ""): (3, 0.04)}


def test_a_plan_covers_what_has_the_lowest_rate_first() -> None:
    book = DiscountBook(plans=(a_plan(0.05),))

    bill = settle({a_lot("m5.24xlarge", 5): 1, a_lot("m5.large", 0.1): 1}, book, region=REGION)

    assert paid(bill) == {("m5.large", "plan"): (1, 0.05), ("m5.24xlarge", ""): (1, 5)}


NAMES = st.sampled_from(["m5.large", "m5.xlarge", "c5.large"])
PRICES = st.floats(0.01, 10)
PERCENTS = st.floats(0.1, 99)
SCOPES = st.builds(
    Scope,
    families=st.sampled_from([(), ("m5",), ("c*",)]),
    regions=st.sampled_from([(), ("eu-*",)]),
)
LOTS = st.builds(
    Lot,
    instance_type=NAMES,
    zone=st.sampled_from([A, B]),
    capacity_type=st.sampled_from(["on-demand", "spot"]),
    list_price=PRICES,
)
USAGES = st.dictionaries(LOTS, st.integers(0, 50), max_size=6)
PLANS = st.lists(
    st.builds(
        SavingsPlan,
        name=st.sampled_from("pqr"),
        commitment=st.floats(0.01, 20),
        percent=PERCENTS,
        scope=SCOPES,
    ),
    max_size=3,
)
SLOTS = st.lists(
    st.builds(
        ReservedInstances,
        name=st.sampled_from("stu"),
        instance_type=NAMES,
        count=st.integers(1, 40),
        price=st.floats(0, 5),
        zone=st.sampled_from(["", A]),
    ),
    max_size=3,
)
OFF = st.lists(st.builds(Percentage, percent=PERCENTS, scope=SCOPES), max_size=3)


def a_book(
    off: Sequence[Percentage], plans: Sequence[SavingsPlan], kept: Sequence[ReservedInstances]
) -> DiscountBook:
    return DiscountBook(percentages=tuple(off), plans=tuple(plans), reservations=tuple(kept))


BOOKS = st.builds(a_book, OFF, PLANS, SLOTS)


@given(usage=USAGES, book=BOOKS)
def test_everything_that_runs_is_paid_once_and_at_no_negative_price(
    usage: dict[Lot, int], book: DiscountBook
) -> None:
    bill = settle(usage, book, region=REGION)

    for lot, many in usage.items():
        assert sum(one.amount for one in bill.shares if one.lot == lot) == pytest.approx(many)
    assert all(one.price >= 0 and one.amount > 0 for one in bill.shares)


@given(usage=USAGES, book=BOOKS)
def test_no_ceiling_is_ever_passed(usage: dict[Lot, int], book: DiscountBook) -> None:
    bill = settle(usage, book, region=REGION)

    assert bill.used <= bill.committed * (1 + 1e-9)
    assert all(0 <= left <= one.count for one, left in bill.slots)
    assert all(0 <= rest <= plan.commitment for plan, rest in bill.rest)


@given(usage=USAGES, off=OFF, plans=PLANS, kept=SLOTS)
def test_the_order_in_which_discounts_are_written_makes_no_difference(
    usage: dict[Lot, int],
    off: list[Percentage],
    plans: list[SavingsPlan],
    kept: list[ReservedInstances],
) -> None:
    book, backwards = a_book(off, plans, kept), a_book(off[::-1], plans[::-1], kept[::-1])
    turned = dict(reversed(usage.items()))

    assert settle(usage, book, region=REGION).shares == (
        settle(turned, backwards, region=REGION).shares
    )


@given(usage=USAGES, off=OFF)
def test_percentages_never_make_anything_dearer(
    usage: dict[Lot, int], off: list[Percentage]
) -> None:
    bill = settle(usage, a_book(off, (), ()), region=REGION)

    assert bill.cost <= bill.list_price * (1 + 1e-12)


@given(usage=USAGES, lot=LOTS, book=BOOKS)
def test_one_more_instance_never_leaves_more_of_a_commitment(
    usage: dict[Lot, int], lot: Lot, book: DiscountBook
) -> None:
    more = {**usage, lot: usage.get(lot, 0) + 1}

    before, after = (settle(one, book, region=REGION) for one in (usage, more))

    assert sum(left for _, left in after.slots) <= sum(left for _, left in before.slots) + 1e-9
