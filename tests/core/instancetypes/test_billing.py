"""The bill: reservations, then savings plans, then the own price."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dovetail.core.instancetypes.billing import Bill, UsageKey, compute_bill
from dovetail.model.cloud.discounts import (
    DiscountBook,
    DiscountScope,
    PercentageDiscount,
    ReservedInstances,
    SavingsPlan,
)

REGION = "us-east-1"
A, B = "us-east-1a", "us-east-1b"


def a_usage_key(
    name: str, price: float = 0.1, *, zone: str = A, capacity_type: str = "on-demand"
) -> UsageKey:
    return UsageKey(instance_type=name, zone=zone, capacity_type=capacity_type, list_price=price)


def a_plan(commitment: float, percent: float = 50, name: str = "plan", **scope: str) -> SavingsPlan:
    only = {key: (value,) for key, value in scope.items()}
    return SavingsPlan(
        name=name,
        commitment=commitment,
        percent=percent,
        scope=DiscountScope(**only),  # type: ignore[arg-type]
    )


def slots(count: int, price: float = 0.06, name: str = "slots", **more: str) -> ReservedInstances:
    return ReservedInstances(name=name, instance_type="m5.large", count=count, price=price, **more)


def paid(bill: Bill) -> dict[tuple[str, str], tuple[float, float]]:
    """Return (type, covered by) → (amount, price)."""
    return {
        (share.usage_key.instance_type, share.covered_by): (round(share.amount, 6), round(share.price, 6))
        for share in bill.shares
    }


def test_without_discounts_everything_costs_its_list_price() -> None:
    bill = compute_bill({a_usage_key("m5.large", 0.096): 3}, DiscountBook(), region=REGION)

    assert bill.cost == pytest.approx(0.288)
    assert bill.cost == bill.list_price
    assert (bill.committed, bill.used) == (0, 0)


def test_percentages_that_match_apply_one_upon_another() -> None:
    book = DiscountBook(
        percentages=(
            PercentageDiscount(percent=10),
            PercentageDiscount(percent=20, scope=DiscountScope(families=("m5",))),
            PercentageDiscount(percent=50, scope=DiscountScope(regions=("eu-*",))),
            PercentageDiscount(percent=50, scope=DiscountScope(capacity_types=("spot",))),
        )
    )

    bill = compute_bill(
        {a_usage_key("m5.large", 1.0): 1, a_usage_key("c5.large", 1.0): 1}, book, region=REGION
    )

    assert paid(bill) == {("m5.large", ""): (1, 0.72), ("c5.large", ""): (1, 0.9)}


def test_the_first_n_instances_cost_what_the_reservation_says_and_the_others_their_own() -> None:
    book = DiscountBook(reservations=(slots(2),))

    bill = compute_bill({a_usage_key("m5.large", 0.096): 5}, book, region=REGION)

    assert paid(bill) == {("m5.large", "slots"): (2, 0.06), ("m5.large", ""): (3, 0.096)}
    assert [left for _, left in bill.unused_slots] == [0]


def test_a_reservation_of_a_zone_is_no_use_in_another_and_is_used_before_the_regions() -> None:
    zonal, regional = slots(1, name="zonal", zone=A), slots(1, name="regional", region=REGION)
    book = DiscountBook(reservations=(regional, zonal))

    bill = compute_bill(
        {a_usage_key("m5.large", zone=A): 1, a_usage_key("m5.large", zone=B): 1}, book, region=REGION
    )

    assert {(share.usage_key.zone, share.covered_by) for share in bill.shares} == {
        (A, "zonal"),
        (B, "regional"),
    }
    assert compute_bill({a_usage_key("m5.large", zone=B): 1}, book, region="us-west-2").used == 0


def test_a_savings_plan_lasts_until_its_commitment_is_used_up_even_within_an_instance() -> None:
    book = DiscountBook(plans=(a_plan(0.12),))

    bill = compute_bill({a_usage_key("m5.large", 0.1): 4}, book, region=REGION)

    assert paid(bill) == {("m5.large", "plan"): (2.4, 0.05), ("m5.large", ""): (1.6, 0.1)}
    assert bill.used == pytest.approx(0.12)
    assert bill.cost == pytest.approx(0.28)


def test_reservations_are_used_before_savings_plans() -> None:
    book = DiscountBook(plans=(a_plan(1),), reservations=(slots(1),))

    bill = compute_bill({a_usage_key("m5.large", 0.1): 2}, book, region=REGION)

    assert paid(bill) == {("m5.large", "slots"): (1, 0.06), ("m5.large", "plan"): (1, 0.05)}


def test_a_plan_for_a_family_is_used_before_a_plan_for_all() -> None:
    anything = a_plan(1, percent=60, name="compute")
    book = DiscountBook(plans=(anything, a_plan(0.05, name="m5 only", families="m5")))

    bill = compute_bill({a_usage_key("m5.large"): 1, a_usage_key("c5.large"): 1}, book, region=REGION)

    assert paid(bill) == {("m5.large", "m5 only"): (1, 0.05), ("c5.large", "compute"): (1, 0.04)}


def test_commitments_do_not_cover_spot() -> None:
    book = DiscountBook(plans=(a_plan(9),), reservations=(slots(9),))

    bill = compute_bill({a_usage_key("m5.large", 0.04, capacity_type="spot"): 3}, book, region=REGION)

    assert paid(bill) == {("m5.large", ""): (3, 0.04)}


def test_a_plan_covers_what_has_the_lowest_rate_first() -> None:
    book = DiscountBook(plans=(a_plan(0.05),))

    bill = compute_bill(
        {a_usage_key("m5.24xlarge", 5): 1, a_usage_key("m5.large", 0.1): 1}, book, region=REGION
    )

    assert paid(bill) == {("m5.large", "plan"): (1, 0.05), ("m5.24xlarge", ""): (1, 5)}


NAMES = st.sampled_from(["m5.large", "m5.xlarge", "c5.large"])
PRICES = st.floats(0.01, 10)
PERCENTS = st.floats(0.1, 99)
SCOPES = st.builds(
    DiscountScope, families=st.sampled_from([(), ("m5",), ("c*",)]), regions=st.sampled_from([(), ("eu-*",)])
)
LOTS = st.builds(
    UsageKey,
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
OFF = st.lists(st.builds(PercentageDiscount, percent=PERCENTS, scope=SCOPES), max_size=3)


def a_book(
    off: Sequence[PercentageDiscount], plans: Sequence[SavingsPlan], kept: Sequence[ReservedInstances]
) -> DiscountBook:
    return DiscountBook(percentages=tuple(off), plans=tuple(plans), reservations=tuple(kept))


BOOKS = st.builds(a_book, OFF, PLANS, SLOTS)


@given(usage=USAGES, book=BOOKS)
def test_everything_that_runs_is_paid_once_and_at_no_negative_price(
    usage: dict[UsageKey, int], book: DiscountBook
) -> None:
    bill = compute_bill(usage, book, region=REGION)

    for usage_key, count in usage.items():
        assert sum(share.amount for share in bill.shares if share.usage_key == usage_key) == pytest.approx(
            count
        )
    assert all(share.price >= 0 and share.amount > 0 for share in bill.shares)


@given(usage=USAGES, book=BOOKS)
def test_no_commitment_is_ever_exceeded(usage: dict[UsageKey, int], book: DiscountBook) -> None:
    bill = compute_bill(usage, book, region=REGION)

    assert bill.used <= bill.committed * (1 + 1e-9)
    assert all(0 <= left <= reservation.count for reservation, left in bill.unused_slots)
    assert all(0 <= rest <= plan.commitment for plan, rest in bill.unused_commitments)


@given(usage=USAGES, off=OFF, plans=PLANS, kept=SLOTS)
def test_the_order_in_which_discounts_are_written_makes_no_difference(
    usage: dict[UsageKey, int],
    off: list[PercentageDiscount],
    plans: list[SavingsPlan],
    kept: list[ReservedInstances],
) -> None:
    book, backwards = a_book(off, plans, kept), a_book(off[::-1], plans[::-1], kept[::-1])
    turned = dict(reversed(usage.items()))

    assert compute_bill(usage, book, region=REGION).shares == (
        compute_bill(turned, backwards, region=REGION).shares
    )


@given(usage=USAGES, off=OFF)
def test_percentages_never_make_anything_more_expensive(
    usage: dict[UsageKey, int], off: list[PercentageDiscount]
) -> None:
    bill = compute_bill(usage, a_book(off, (), ()), region=REGION)

    assert bill.cost <= bill.list_price * (1 + 1e-12)


@given(usage=USAGES, usage_key=LOTS, book=BOOKS)
def test_one_more_instance_never_leaves_more_of_a_commitment(
    usage: dict[UsageKey, int], usage_key: UsageKey, book: DiscountBook
) -> None:
    more = {**usage, usage_key: usage.get(usage_key, 0) + 1}

    before, after = (compute_bill(counts, book, region=REGION) for counts in (usage, more))

    assert sum(left for _, left in after.unused_slots) <= sum(left for _, left in before.unused_slots) + 1e-9
