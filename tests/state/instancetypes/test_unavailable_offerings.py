"""Unavailable offerings expire and become available again."""

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from dovetail.state.instancetypes.unavailable_offerings import (
    TTL,
    UnavailableOffering,
    UnavailableOfferings,
    is_unavailable,
)

NINE = datetime(2026, 1, 1, 9, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
LARGE = UnavailableOffering(capacity_type="spot", instance_type="m5.large", zone="a")
XLARGE = UnavailableOffering(capacity_type="spot", instance_type="m5.xlarge", zone="a")


def test_unavailable_offering_expires_after_three_minutes() -> None:
    offerings = UnavailableOfferings()

    offerings.mark_unavailable([LARGE], now=NINE)

    assert offerings.get(NINE + 3 * MINUTE - timedelta(microseconds=1)) == {LARGE}
    assert offerings.get(NINE + 3 * MINUTE) == frozenset()


def test_marking_again_prolongs_without_a_change() -> None:
    offerings = UnavailableOfferings()
    offerings.mark_unavailable([LARGE], now=NINE)
    before = offerings.version(NINE)

    offerings.mark_unavailable([LARGE], now=NINE + MINUTE)

    assert offerings.version(NINE + 3 * MINUTE) == before
    assert offerings.get(NINE + 3 * MINUTE) == {LARGE}
    assert offerings.get(NINE + 4 * MINUTE) == set()


def test_unavailable_offerings_are_the_same_object_until_they_change() -> None:
    offerings = UnavailableOfferings()
    offerings.mark_unavailable([LARGE], now=NINE)

    initial = offerings.get(NINE)

    assert offerings.get(NINE + MINUTE) is initial
    offerings.mark_unavailable([XLARGE], now=NINE + MINUTE)
    assert offerings.get(NINE + MINUTE) is not initial


def test_version_changes_when_an_offering_is_marked_and_expires() -> None:
    offerings = UnavailableOfferings()

    versions = [offerings.version(NINE)]
    offerings.mark_unavailable([LARGE], now=NINE)
    versions += [offerings.version(NINE), offerings.version(NINE + MINUTE)]
    versions.append(offerings.version(NINE + TTL))

    assert versions[0] < versions[1] == versions[2] < versions[3]


def test_each_offering_expires_independently() -> None:
    offerings = UnavailableOfferings()
    offerings.mark_unavailable([LARGE], now=NINE)
    offerings.mark_unavailable([XLARGE], now=NINE + MINUTE)

    assert offerings.get(NINE + MINUTE) == {LARGE, XLARGE}
    assert offerings.get(NINE + TTL) == {XLARGE}
    assert offerings.get(NINE + MINUTE + TTL) == set()


def test_marked_offering_does_not_affect_other_types_zones_and_capacity_types() -> None:
    current = frozenset({LARGE})

    assert is_unavailable(current, capacity_type="spot", instance_type="m5.large", zone="a")
    assert not is_unavailable(current, capacity_type="spot", instance_type="m5.xlarge", zone="a")
    assert not is_unavailable(current, capacity_type="spot", instance_type="m5.large", zone="b")
    assert not is_unavailable(current, capacity_type="on-demand", instance_type="m5.large", zone="a")


def test_marked_capacity_type_or_zone_covers_all_its_offerings() -> None:
    no_spot = frozenset({UnavailableOffering(capacity_type="spot")})
    no_spot_in_a = frozenset({UnavailableOffering(capacity_type="spot", zone="a")})

    assert is_unavailable(no_spot, capacity_type="spot", instance_type="m5.large", zone="b")
    assert not is_unavailable(no_spot, capacity_type="on-demand", instance_type="m5.large", zone="b")
    assert is_unavailable(no_spot_in_a, capacity_type="spot", instance_type="c5.large", zone="a")
    assert not is_unavailable(no_spot_in_a, capacity_type="spot", instance_type="c5.large", zone="b")


_MARKS = st.builds(
    UnavailableOffering,
    capacity_type=st.sampled_from(["spot", "on-demand"]),
    instance_type=st.sampled_from(["", "m5.large"]),
    zone=st.sampled_from(["", "a"]),
)


@given(st.lists(st.tuples(st.integers(0, 400), _MARKS), max_size=20), st.integers(0, 1000))
def test_unavailable_offerings_are_those_marked_in_the_last_three_minutes(
    history: list[tuple[int, UnavailableOffering]], later: int
) -> None:
    offerings = UnavailableOfferings()
    history.sort(key=lambda entry: entry[0])
    for second, offering in history:
        offerings.mark_unavailable([offering], now=NINE + timedelta(seconds=second))

    last = max((second for second, _ in history), default=0)
    now = last + later
    current = offerings.get(NINE + timedelta(seconds=now))

    assert current == {offering for second, offering in history if now - second < TTL.total_seconds()}
