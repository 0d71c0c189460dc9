"""Offerings that failed lately: set aside, and given another chance."""

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from dovetail.state.instancetypes.unavailable_offerings import TTL, Scarce, Scarcity, is_scarce

NINE = datetime(2026, 1, 1, 9, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
LARGE = Scarce(capacity_type="spot", instance_type="m5.large", zone="a")
XLARGE = Scarce(capacity_type="spot", instance_type="m5.xlarge", zone="a")


def test_a_mark_holds_for_three_minutes_and_then_goes_by_itself() -> None:
    scarcity = Scarcity()

    scarcity.mark([LARGE], now=NINE)

    assert scarcity.marks(NINE + 3 * MINUTE - timedelta(microseconds=1)) == {LARGE}
    assert scarcity.marks(NINE + 3 * MINUTE) == frozenset()


def test_marking_again_prolongs_and_is_no_change() -> None:
    scarcity = Scarcity()
    scarcity.mark([LARGE], now=NINE)
    before = scarcity.version(NINE)

    scarcity.mark([LARGE], now=NINE + MINUTE)

    assert scarcity.version(NINE + 3 * MINUTE) == before
    assert scarcity.marks(NINE + 3 * MINUTE) == {LARGE}
    assert scarcity.marks(NINE + 4 * MINUTE) == set()


def test_the_picture_is_the_same_object_until_it_changes() -> None:
    scarcity = Scarcity()
    scarcity.mark([LARGE], now=NINE)

    picture = scarcity.marks(NINE)

    assert scarcity.marks(NINE + MINUTE) is picture
    scarcity.mark([XLARGE], now=NINE + MINUTE)
    assert scarcity.marks(NINE + MINUTE) is not picture


def test_the_version_changes_when_a_mark_comes_and_when_it_goes() -> None:
    scarcity = Scarcity()

    versions = [scarcity.version(NINE)]
    scarcity.mark([LARGE], now=NINE)
    versions += [scarcity.version(NINE), scarcity.version(NINE + MINUTE)]
    versions.append(scarcity.version(NINE + TTL))

    assert versions[0] < versions[1] == versions[2] < versions[3]


def test_each_mark_goes_in_its_own_time() -> None:
    scarcity = Scarcity()
    scarcity.mark([LARGE], now=NINE)
    scarcity.mark([XLARGE], now=NINE + MINUTE)

    assert scarcity.marks(NINE + MINUTE) == {LARGE, XLARGE}
    assert scarcity.marks(NINE + TTL) == {XLARGE}
    assert scarcity.marks(NINE + MINUTE + TTL) == set()


def test_a_mark_on_a_pool_leaves_other_types_zones_and_capacity_types_alone() -> None:
    marks = frozenset({LARGE})

    assert is_scarce(marks, capacity_type="spot", instance_type="m5.large", zone="a")
    assert not is_scarce(marks, capacity_type="spot", instance_type="m5.xlarge", zone="a")
    assert not is_scarce(marks, capacity_type="spot", instance_type="m5.large", zone="b")
    assert not is_scarce(marks, capacity_type="on-demand", instance_type="m5.large", zone="a")


def test_a_mark_on_a_capacity_type_or_on_a_zone_covers_all_that_is_in_it() -> None:
    no_spot = frozenset({Scarce(capacity_type="spot")})
    no_spot_in_a = frozenset({Scarce(capacity_type="spot", zone="a")})

    assert is_scarce(no_spot, capacity_type="spot", instance_type="m5.large", zone="b")
    assert not is_scarce(no_spot, capacity_type="on-demand", instance_type="m5.large", zone="b")
    assert is_scarce(no_spot_in_a, capacity_type="spot", instance_type="c5.large", zone="a")
    assert not is_scarce(no_spot_in_a, capacity_type="spot", instance_type="c5.large", zone="b")


_MARKS = st.builds(
    Scarce,
    capacity_type=st.sampled_from(["spot", "on-demand"]),
    instance_type=st.sampled_from(["", "m5.large"]),
    zone=st.sampled_from(["", "a"]),
)


@given(st.lists(st.tuples(st.integers(0, 400), _MARKS), max_size=20), st.integers(0, 1000))
def test_what_is_scarce_is_what_was_marked_within_the_last_three_minutes(
    history: list[tuple[int, Scarce]], later: int
) -> None:
    scarcity = Scarcity()
    history.sort(key=lambda entry: entry[0])
    for second, one in history:
        scarcity.mark([one], now=NINE + timedelta(seconds=second))

    last = max((second for second, _ in history), default=0)
    asked = last + later
    marks = scarcity.marks(NINE + timedelta(seconds=asked))

    assert marks == {one for second, one in history if asked - second < TTL.total_seconds()}
