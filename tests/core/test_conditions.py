"""Rules for status conditions: lifecycle §0.3."""

from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from dovetail.core.conditions import (
    NODECLAIM_CONDITIONS,
    NODEPOOL_CONDITIONS,
    ConditionOwner,
    add_missing_conditions,
    clear_condition,
    set_condition,
)
from dovetail.model.kube.conditions import FALSE, NO_CONDITIONS, TRUE, UNKNOWN, Condition, Conditions
from tests.support.simulator.api_server import START

LATER = START + timedelta(minutes=1)
DEPENDENTS = st.sampled_from(NODECLAIM_CONDITIONS.dependents)
STATUSES = st.sampled_from([TRUE, FALSE, UNKNOWN])


def a_claim(**fields: object) -> ConditionOwner:
    given = {"condition_set": NODECLAIM_CONDITIONS, "now": LATER, "created": START, "generation": 1, **fields}
    return ConditionOwner(**given)  # type: ignore[arg-type]


def after(*steps: tuple[str, str], owner: ConditionOwner | None = None) -> Conditions:
    conditions = NO_CONDITIONS
    for condition_type, status in steps:
        conditions = set_condition(conditions, owner or a_claim(), condition_type, status)
    return conditions


def test_missing_conditions_are_unknown_since_creation() -> None:
    conditions = add_missing_conditions(NO_CONDITIONS, a_claim())

    assert set(conditions) == {"Launched", "Registered", "Initialized", "Ready"}
    assert set(conditions.values()) == {
        Condition(
            status=UNKNOWN,
            reason="AwaitingReconciliation",
            message="object is awaiting reconciliation",
            last_transition_time=START,
            observed_generation=1,
        )
    }


def test_conditions_of_an_object_without_generation_have_observed_none() -> None:
    owner = ConditionOwner(condition_set=NODECLAIM_CONDITIONS, now=LATER)

    conditions = add_missing_conditions(NO_CONDITIONS, owner)

    assert {condition.observed_generation for condition in conditions.values()} == {0}
    assert {condition.last_transition_time for condition in conditions.values()} == {LATER}


def test_complete_conditions_are_returned_unchanged() -> None:
    conditions = add_missing_conditions(NO_CONDITIONS, a_claim())

    assert add_missing_conditions(conditions, a_claim(now=LATER + timedelta(hours=1))) is conditions


def test_true_condition_has_its_type_as_reason_and_no_message() -> None:
    condition = after(("Launched", TRUE))["Launched"]

    assert (condition.reason, condition.message, condition.last_transition_time) == ("Launched", "", LATER)


def test_transition_time_changes_only_with_the_status() -> None:
    conditions = set_condition(NO_CONDITIONS, a_claim(), "Registered", UNKNOWN, reason="NodeNotFound")
    again = set_condition(conditions, a_claim(), "Registered", FALSE, reason="Broken", message="a")
    later = a_claim(now=LATER + timedelta(hours=1), generation=2)
    changed = set_condition(again, later, "Registered", FALSE, reason="Other", message="b")

    assert conditions["Registered"].last_transition_time == START
    assert again["Registered"].last_transition_time == LATER
    assert changed["Registered"].last_transition_time == LATER
    assert (changed["Registered"].reason, changed["Registered"].observed_generation) == ("Other", 2)


def test_root_is_true_when_all_dependents_are() -> None:
    conditions = after(*((condition_type, TRUE) for condition_type in NODECLAIM_CONDITIONS.dependents))

    assert (conditions["Ready"].status, conditions["Ready"].reason) == (TRUE, "Ready")


def test_root_is_false_when_a_dependent_is_and_lists_the_unmet_ones() -> None:
    root = after(("Launched", TRUE), ("Registered", FALSE))["Ready"]

    assert (root.status, root.reason) == (FALSE, "UnhealthyDependents")
    assert root.message == "Registered=False, Initialized=Unknown"


def test_root_is_unknown_while_a_dependent_is_unknown_and_none_false() -> None:
    root = after(("Launched", TRUE))["Ready"]

    assert (root.status, root.reason, root.last_transition_time) == (UNKNOWN, "ReconcilingDependents", START)


def test_true_dependent_of_an_older_generation_does_not_make_the_root_true() -> None:
    conditions = after(*((condition_type, TRUE) for condition_type in NODECLAIM_CONDITIONS.dependents))

    newer = set_condition(conditions, a_claim(generation=2), "Launched", TRUE)

    assert newer["Ready"].status == UNKNOWN


def test_false_dependent_of_an_older_generation_does_not_make_the_root_false() -> None:
    conditions = after(("Registered", FALSE))

    newer = set_condition(conditions, a_claim(generation=2), "Launched", TRUE)

    assert newer["Ready"].status == UNKNOWN


def test_root_of_a_deleted_object_does_not_change() -> None:
    conditions = after(*((condition_type, TRUE) for condition_type in NODECLAIM_CONDITIONS.dependents))

    going = set_condition(conditions, a_claim(generation=2, deleting=True), "Drained", TRUE)

    assert going["Ready"].status == TRUE
    assert {condition.observed_generation for condition in going.values()} == {2}


def test_condition_outside_the_set_starts_now_and_can_be_cleared() -> None:
    conditions = after(*((condition_type, TRUE) for condition_type in NODECLAIM_CONDITIONS.dependents))

    drifted = set_condition(conditions, a_claim(), "Drifted", TRUE)

    assert drifted["Drifted"].last_transition_time == LATER
    assert drifted["Ready"] == conditions["Ready"]
    assert clear_condition(drifted, "Drifted") == conditions
    assert clear_condition(conditions, "Drifted") is conditions


def test_nodepool_and_nodeclaim_have_different_dependents() -> None:
    owner = ConditionOwner(condition_set=NODEPOOL_CONDITIONS, now=LATER, created=START, generation=1)

    conditions = after(("ValidationSucceeded", TRUE), ("NodeClassReady", TRUE), owner=owner)

    assert conditions["Ready"].status == TRUE


@given(st.lists(st.tuples(DEPENDENTS, STATUSES), min_size=1, max_size=8))
def test_setting_the_same_condition_again_changes_nothing(steps: list[tuple[str, str]]) -> None:
    conditions = after(*steps)
    condition_type, status = steps[-1]

    assert (
        set_condition(conditions, a_claim(now=LATER + timedelta(hours=1)), condition_type, status)
        == conditions
    )


@given(st.lists(st.tuples(DEPENDENTS, STATUSES), min_size=1, max_size=8))
def test_root_follows_from_its_dependents_in_any_order(steps: list[tuple[str, str]]) -> None:
    conditions = after(*steps)

    statuses = {conditions[condition_type].status for condition_type in NODECLAIM_CONDITIONS.dependents}
    expected = FALSE if FALSE in statuses else UNKNOWN if UNKNOWN in statuses else TRUE
    assert conditions["Ready"].status == expected
