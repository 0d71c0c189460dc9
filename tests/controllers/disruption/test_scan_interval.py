"""How often the whole cluster is looked at."""

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from dovetail.controllers.disruption.scan_interval import LEAST, MOST, Pace

NOW = datetime(2026, 1, 1, 9, tzinfo=UTC)


def looked(pace: Pace, *, nodes: int = 10, found: bool = False, **more: datetime) -> Pace:
    pace.looks()
    pace.looked(NOW, nodes=nodes, found=found, **more)
    return pace


def test_the_first_look_is_at_once() -> None:
    assert Pace().due(NOW) <= NOW


def test_while_nothing_changes_it_is_looked_again_after_five_minutes() -> None:
    assert looked(Pace()).due(NOW) == NOW + MOST


def test_a_change_is_looked_at_after_a_while_and_is_news_once() -> None:
    pace = looked(Pace())

    news = [pace.touch(), pace.touch()]

    assert news == [True, False]
    assert pace.due(NOW) == NOW + LEAST


def test_looks_in_vain_become_rarer() -> None:
    pace = Pace()
    waits = []
    for _ in range(4):
        looked(pace).touch()
        waits.append(pace.due(NOW) - NOW)

    assert waits == [LEAST, 2 * LEAST, 3 * LEAST, 3 * LEAST]


def test_after_something_was_found_it_is_looked_again_the_sooner_the_smaller_the_cluster() -> None:
    waits = [looked(Pace(), nodes=n, found=True).due(NOW) - NOW for n in (10, 2_000)]

    assert waits == [timedelta(seconds=0.15), timedelta(seconds=20)]


def test_two_thousand_nodes_are_looked_at_every_twenty_seconds_and_in_vain_every_minute() -> None:
    pace = Pace()
    waits = []
    for _ in range(4):
        looked(pace, nodes=2_000).touch()
        waits.append(int((pace.due(NOW) - NOW).total_seconds()))

    assert waits == [20, 40, 60, 60]


def test_what_people_wait_for_is_looked_at_at_once() -> None:
    pace = looked(Pace())

    pace.hurry()

    assert pace.due(NOW) <= NOW


@given(st.integers(0, 20_000), st.integers(1, 10))
def test_a_large_cluster_is_looked_at_more_rarely_and_never_too_rarely(
    nodes: int, times: int
) -> None:
    small, large = Pace(), Pace()
    for _ in range(times):
        looked(small, nodes=nodes).touch()
        looked(large, nodes=2 * nodes).touch()

    assert LEAST <= small.due(NOW) - NOW <= large.due(NOW) - NOW <= MOST


def test_what_changes_with_time_is_looked_at_then_but_not_before_its_turn() -> None:
    soon, late = NOW + timedelta(seconds=1), NOW + timedelta(seconds=100)

    assert looked(Pace(), again=late).due(NOW) == late
    assert looked(Pace(), again=soon).due(NOW) == NOW + LEAST
