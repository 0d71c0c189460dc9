"""The report of a sweep: its sentences on the current settings."""

import pytest

from dovetail.cli.sweep.sections import build_sections
from dovetail.replay.sweep.choice import Limits, SweptPoint, mark_front
from dovetail.replay.sweep.report import Sweep
from tests.support.sweep import an_outcome


def a_point(budget: str, cost: float, evictions: int) -> SweptPoint:
    return SweptPoint(values={"budget": budget} if budget else {}, outcome=an_outcome(cost, evictions))


def place_of(current: SweptPoint, other: SweptPoint) -> str:
    points = tuple(mark_front([other, current]))
    sweep = Sweep(
        trace="day.trace",
        seconds=3600,
        varied={"budget": ["5"]},
        points=points,
        current=points[1],
        limits=Limits(),
        chosen=None,
        failed={},
        assumptions=(),
        seed=1,
        prices="list prices",
    )
    (front,) = [section for section in build_sections(sweep) if section.title == "Cost and evictions"]
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
