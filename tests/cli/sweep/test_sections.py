"""The report of a sweep: its sentences on the current settings."""

import pytest

from dovetail.cli.sweep.sections import build_sections
from dovetail.replay.sweep.choice import Limits, SweptPoint, choose, mark_front
from dovetail.replay.sweep.report import Sweep
from tests.support.sweep import an_outcome

NO_LIMITS = Limits()


def a_point(budget: str, cost: float, evictions: int, *, unschedulable: int = 0) -> SweptPoint:
    outcome = an_outcome(cost, evictions, unschedulable=unschedulable)
    return SweptPoint(values={"budget": budget} if budget else {}, outcome=outcome)


def a_sweep(*swept: SweptPoint, limits: Limits = NO_LIMITS) -> Sweep:
    points = tuple(mark_front(swept))
    return Sweep(
        trace="day.trace",
        seconds=3600,
        varied={"budget": ["5"]},
        points=points,
        current=next(point for point in points if not point.values),
        limits=limits,
        chosen=choose(points, limits),
        failed={},
        assumptions=(),
        seed=1,
        prices="list prices",
    )


def place_of(current: SweptPoint, other: SweptPoint) -> str:
    sections = build_sections(a_sweep(other, current))
    (front,) = [section for section in sections if section.title == "Cost and evictions"]
    (sentence,) = front.footer
    return sentence.removeprefix("The current settings are not on the front: budget=5 saves ")


@pytest.mark.parametrize(
    ("cost", "evictions", "saved"),
    [
        (0.9, 10, "$0.10."),
        (0.9999, 10, "less than a cent."),
        (1.0, 7, "3 evictions."),
        (0.9, 9, "$0.10 and 1 eviction."),
    ],
)
def test_what_better_settings_save_is_named_without_zeros(cost: float, evictions: int, saved: str) -> None:
    assert place_of(a_point("", 1.0, 10), a_point("5", cost, evictions)) == saved


def test_limits_that_no_setting_keeps_are_compared_with_settings_that_may_be_chosen() -> None:
    limits = Limits(max_evictions=1, max_cost=0.001, eviction_price=0.02)
    points = (a_point("", 0.7, 4), a_point("5", 0.8, 3), a_point("0", 0.0001, 0, unschedulable=5))

    section = build_sections(a_sweep(*points, limits=limits))[0]

    assert section.title == "No setting has at most 1 eviction and a cost of at most $0.0010"
    assert section.lines == ("The fewest evictions are 3, the lowest cost is $0.7000.",)


def test_a_choice_names_the_price_of_evictions_and_the_limits() -> None:
    section = build_sections(
        a_sweep(a_point("", 2.5, 4), limits=Limits(eviction_price=0.02, max_evictions=9))
    )[0]

    assert section.title == "Choose, for evictions at $0.02 each, at most 9 evictions"
