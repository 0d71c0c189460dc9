"""How status conditions change: lifecycle §0.3."""

from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from dovetail.core.conditions import CLAIM, POOL, Subject, changed, cleared, settled
from dovetail.model.kube.conditions import (
    FALSE,
    NO_CONDITIONS,
    TRUE,
    UNKNOWN,
    Condition,
    Conditions,
)
from tests.support.cluster import START

LATER = START + timedelta(minutes=1)
DEPENDENTS = st.sampled_from(CLAIM.dependents)
STATUSES = st.sampled_from([TRUE, FALSE, UNKNOWN])


def a_claim(**fields: object) -> Subject:
    given = {"family": CLAIM, "now": LATER, "created": START, "generation": 1, **fields}
    return Subject(**given)  # type: ignore[arg-type]


def after(*steps: tuple[str, str], subject: Subject | None = None) -> Conditions:
    known = NO_CONDITIONS
    for kind, status in steps:
        known = changed(known, subject or a_claim(), kind, status)
    return known


def test_what_must_be_there_is_unknown_since_the_object_was_made() -> None:
    known = settled(NO_CONDITIONS, a_claim())

    assert set(known) == {"Launched", "Registered", "Initialized", "Ready"}
    assert set(known.values()) == {
        Condition(
            status=UNKNOWN,
            reason="AwaitingReconciliation",
            message="object is awaiting reconciliation",
            since=START,
            generation=1,
        )
    }


def test_a_set_that_is_complete_stays_the_same_object() -> None:
    known = settled(NO_CONDITIONS, a_claim())

    assert settled(known, a_claim(now=LATER + timedelta(hours=1))) is known


def test_a_true_condition_is_named_after_itself_and_has_no_message() -> None:
    one = after(("Launched", TRUE))["Launched"]

    assert (one.reason, one.message, one.since) == ("Launched", "", LATER)


def test_its_time_moves_only_with_its_status() -> None:
    known = changed(NO_CONDITIONS, a_claim(), "Registered", UNKNOWN, reason="NodeNotFound")
    again = changed(known, a_claim(), "Registered", FALSE, reason="Broken", message="a")
    later = a_claim(now=LATER + timedelta(hours=1), generation=2)
    told = changed(again, later, "Registered", FALSE, reason="Other", message="b")

    assert known["Registered"].since == START
    assert again["Registered"].since == LATER
    assert told["Registered"].since == LATER
    assert (told["Registered"].reason, told["Registered"].generation) == ("Other", 2)


def test_the_root_is_true_when_all_that_it_depends_on_are() -> None:
    known = after(*((kind, TRUE) for kind in CLAIM.dependents))

    assert (known["Ready"].status, known["Ready"].reason) == (TRUE, "Ready")


def test_the_root_is_false_as_soon_as_one_is_and_says_which_are_unmet() -> None:
    root = after(("Launched", TRUE), ("Registered", FALSE))["Ready"]

    assert (root.status, root.reason) == (FALSE, "UnhealthyDependents")
    assert root.message == "Registered=False, Initialized=Unknown"


def test_the_root_is_unknown_while_nothing_is_wrong_but_something_is_open() -> None:
    root = after(("Launched", TRUE))["Ready"]

    assert (root.status, root.reason, root.since) == (UNKNOWN, "ReconcilingDependents", START)


def test_what_was_true_of_an_older_generation_does_not_make_the_root_true() -> None:
    known = after(*((kind, TRUE) for kind in CLAIM.dependents))

    newer = changed(known, a_claim(generation=2), "Launched", TRUE)

    assert newer["Ready"].status == UNKNOWN


def test_what_was_false_of_an_older_generation_does_not_make_the_root_false() -> None:
    known = after(("Registered", FALSE))

    newer = changed(known, a_claim(generation=2), "Launched", TRUE)

    assert newer["Ready"].status == UNKNOWN


def test_the_root_of_an_object_that_is_deleted_does_not_flap() -> None:
    known = after(*((kind, TRUE) for kind in CLAIM.dependents))

    going = changed(known, a_claim(generation=2, deleting=True), "Drained", TRUE)

    assert going["Ready"].status == TRUE
    assert {one.generation for one in going.values()} == {2}


def test_a_condition_that_stands_by_itself_starts_now_and_can_be_cleared() -> None:
    known = after(*((kind, TRUE) for kind in CLAIM.dependents))

    drifted = changed(known, a_claim(), "Drifted", TRUE)

    assert drifted["Drifted"].since == LATER
    assert drifted["Ready"] == known["Ready"]
    assert cleared(drifted, "Drifted") == known
    assert cleared(known, "Drifted") is known


def test_a_pool_depends_on_other_things_than_a_claim() -> None:
    subject = Subject(family=POOL, now=LATER, created=START, generation=1)

    known = after(("ValidationSucceeded", TRUE), ("NodeClassReady", TRUE), subject=subject)

    assert known["Ready"].status == TRUE


@given(st.lists(st.tuples(DEPENDENTS, STATUSES), min_size=1, max_size=8))
def test_saying_the_same_again_changes_nothing(steps: list[tuple[str, str]]) -> None:
    known = after(*steps)
    kind, status = steps[-1]

    assert changed(known, a_claim(now=LATER + timedelta(hours=1)), kind, status) == known


@given(st.lists(st.tuples(DEPENDENTS, STATUSES), min_size=1, max_size=8))
def test_the_root_follows_from_the_others_whatever_came_first(steps: list[tuple[str, str]]) -> None:
    known = after(*steps)

    statuses = {known[kind].status for kind in CLAIM.dependents}
    expected = FALSE if FALSE in statuses else UNKNOWN if UNKNOWN in statuses else TRUE
    assert known["Ready"].status == expected
