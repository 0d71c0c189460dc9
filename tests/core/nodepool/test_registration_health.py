"""Registration health: NP8 of the lifecycle checklist."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dovetail.core.nodepool.registration_health import (
    Health,
    Outcomes,
    health,
    outcomes_behind,
    with_outcome,
)


@pytest.mark.parametrize(
    ("outcomes", "verdict"),
    [
        ((), Health.UNKNOWN),
        ((True,), Health.HEALTHY),
        ((False,), Health.HEALTHY),
        ((False, False), Health.UNHEALTHY),
        ((False, False, True), Health.UNHEALTHY),
        ((False, True, True, True), Health.HEALTHY),
    ],
)
def test_two_failures_of_the_last_four_are_too_many(outcomes: Outcomes, verdict: Health) -> None:
    assert health(outcomes) is verdict


@given(st.lists(st.booleans(), min_size=1))
def test_only_the_last_four_count(history: list[bool]) -> None:
    kept: Outcomes = ()
    for one in history:
        kept = with_outcome(kept, one)

    assert kept == tuple(history[-4:])


@pytest.mark.parametrize(
    ("status", "verdict"),
    [("True", Health.HEALTHY), ("False", Health.UNHEALTHY), ("Unknown", Health.UNKNOWN)],
)
def test_after_a_restart_the_condition_stands_for_what_led_to_it(
    status: str, verdict: Health
) -> None:
    assert health(outcomes_behind(status)) is verdict
