"""Registration health: NP8 of the lifecycle checklist."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dovetail.core.nodepool.registration_health import (
    Health,
    Outcomes,
    add_outcome,
    get_health,
    infer_outcomes,
)


@pytest.mark.parametrize(
    ("outcomes", "expected"),
    [
        ((), Health.UNKNOWN),
        ((True,), Health.HEALTHY),
        ((False,), Health.HEALTHY),
        ((False, False), Health.UNHEALTHY),
        ((False, False, True), Health.UNHEALTHY),
        ((False, True, True, True), Health.HEALTHY),
    ],
)
def test_two_failures_of_the_last_four_are_unhealthy(outcomes: Outcomes, expected: Health) -> None:
    assert get_health(outcomes) is expected


@given(st.lists(st.booleans(), min_size=1))
def test_only_the_last_four_count(history: list[bool]) -> None:
    kept: Outcomes = ()
    for outcome in history:
        kept = add_outcome(kept, outcome)

    assert kept == tuple(history[-4:])


@pytest.mark.parametrize(
    ("status", "expected"),
    [("True", Health.HEALTHY), ("False", Health.UNHEALTHY), ("Unknown", Health.UNKNOWN)],
)
def test_outcomes_inferred_from_the_condition_give_its_health(status: str, expected: Health) -> None:
    assert get_health(infer_outcomes(status)) is expected
