"""Pareto front of cost and evictions, and the setting to choose."""

from dovetail.replay.sweep.choice import Limits, SweptPoint, choose, mark_front
from tests.support.sweep import an_outcome


def point(name: str, cost: float, evictions: int, unschedulable: int = 0) -> SweptPoint:
    outcome = an_outcome(cost, evictions, unschedulable=unschedulable)
    return SweptPoint(values={"k": name} if name else {}, outcome=outcome)


POINTS = mark_front(
    [
        point("cheap", 100, 500),
        point("middle", 110, 90),
        point("", 120, 200),
        point("calm", 150, 10),
        point("calm-too", 151, 10),
        point("broken", 10, 0, unschedulable=40),
    ]
)


def chosen(**limits: float) -> str | None:
    best = choose(POINTS, Limits(**limits))
    return None if best is None else best.values["k"]


def test_the_front_has_the_points_that_no_other_point_beats() -> None:
    assert [entry.values.get("k") for entry in POINTS if entry.on_front] == ["cheap", "middle", "calm"]


def test_settings_that_leave_pods_unschedulable_are_not_on_the_front() -> None:
    assert [entry.on_front for entry in POINTS if entry.values.get("k") == "broken"] == [False]


def test_the_price_of_an_eviction_decides_between_cost_and_calm() -> None:
    assert chosen(eviction_price=0) == "cheap"
    assert chosen(eviction_price=0.1) == "middle"
    assert chosen(eviction_price=1) == "calm"


def test_a_limit_of_evictions_chooses_the_cheapest_within_it() -> None:
    assert chosen(max_evictions=90) == "middle"
    assert chosen(max_evictions=9) is None


def test_a_limit_of_cost_chooses_the_fewest_evictions_within_it() -> None:
    assert chosen(max_cost=149.99) == "middle"
    assert chosen(max_cost=99) is None


def test_several_limits_hold_together() -> None:
    assert chosen(max_cost=149, max_evictions=600, eviction_price=100) == "middle"


def test_of_equal_points_the_current_settings_are_on_the_front() -> None:
    points = mark_front([point("other", 5, 5), point("", 5, 5)])

    assert [entry.values for entry in points if entry.on_front] == [{}]
