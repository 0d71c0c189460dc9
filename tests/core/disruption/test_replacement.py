"""In-flight replacements, decoded from NodeClaims: QU1–QU9."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from dovetail.core.disruption.replacement import (
    CREATION_GRACE_PERIOD,
    Replacement,
    ReplacementAction,
    ReplacementContext,
    ReplacementStatus,
    create_replacement,
    decode_replacement,
    evaluate_replacement,
    get_timeout,
)
from dovetail.model.frozen import FrozenDict
from dovetail.model.karpenter.nodeclaim import NodeClaim
from dovetail.model.kube.conditions import TRUE, Condition

BEGUN = datetime(2026, 1, 1, 9, tzinfo=UTC)
OLD = NodeClaim(name="old", uid="1")
OTHER = NodeClaim(name="other", uid="2")
NAMES = st.text("abc-123", min_size=1, max_size=8)


def a_new_claim(replacement: Replacement, name: str, *, ready: bool = False) -> NodeClaim:
    """A new claim of a replacement."""
    conditions = {"Initialized": Condition(status=TRUE, reason="Initialized")} if ready else {}
    return NodeClaim(
        name=name,
        created=BEGUN,
        annotations=FrozenDict(replacement.encode_annotations()),
        conditions=FrozenDict(conditions),
    )


def evaluate(
    replacement: Replacement,
    *claims: NodeClaim,
    after: timedelta = timedelta(),
    is_tainted: bool = True,
    nodes: int = 1,
) -> ReplacementStatus:
    existing = {claim.name: claim for claim in claims}
    context = ReplacementContext(
        now=BEGUN + after, get_claim=existing.get, is_tainted=lambda _: is_tainted, waiting_nodes=nodes
    )
    return evaluate_replacement(replacement, context)


ONE = create_replacement([OLD], ["new"])
TWO = create_replacement([OLD, OTHER], ["new-a", "new-b"])


@given(st.lists(NAMES, min_size=1, unique=True), st.lists(NAMES, min_size=1, unique=True))
def test_decoding_annotations_returns_the_encoded_replacement(old: list[str], new: list[str]) -> None:
    replacement = create_replacement([NodeClaim(name=name, uid=f"uid-{name}") for name in old], new)

    assert decode_replacement(a_new_claim(replacement, new[0])) == replacement


def test_claim_without_annotations_belongs_to_no_replacement() -> None:
    assert decode_replacement(OLD) is None


def test_uninitialized_replacement_is_waited_for_until_the_timeout() -> None:
    status = evaluate(ONE, OLD, a_new_claim(ONE, "new"))

    assert (status.action, status.deadline) == (ReplacementAction.WAIT, BEGUN + timedelta(minutes=10))


def test_initialized_replacement_deletes_the_old_claim() -> None:
    status = evaluate(ONE, OLD, a_new_claim(ONE, "new", ready=True))

    assert (status.action, status.remaining) == (ReplacementAction.DELETE, (OLD,))


def test_timeout_rolls_back() -> None:
    status = evaluate(ONE, OLD, a_new_claim(ONE, "new"), after=timedelta(minutes=10))

    assert status.action is ReplacementAction.ROLL_BACK
    assert status.message == "replacement new was not initialized in time"


def test_replacement_initialized_after_the_timeout_still_deletes() -> None:
    status = evaluate(ONE, OLD, a_new_claim(ONE, "new", ready=True), after=timedelta(hours=2))

    assert status.action is ReplacementAction.DELETE


def test_all_replacements_must_be_initialized() -> None:
    claims = (a_new_claim(TWO, "new-a", ready=True), a_new_claim(TWO, "new-b"))

    assert evaluate(TWO, OLD, OTHER, *claims).action is ReplacementAction.WAIT


def test_deleted_replacement_rolls_back_at_once() -> None:
    deleted = replace(a_new_claim(TWO, "new-b"), deleting=True)

    status = evaluate(TWO, OLD, OTHER, a_new_claim(TWO, "new-a"), deleted)

    assert status.action is ReplacementAction.ROLL_BACK


def test_missing_replacement_has_a_grace_period_for_its_creation() -> None:
    early = evaluate(TWO, OLD, OTHER, a_new_claim(TWO, "new-a"))
    late = evaluate(TWO, OLD, OTHER, a_new_claim(TWO, "new-a"), after=CREATION_GRACE_PERIOD)

    assert (early.action, early.deadline) == (ReplacementAction.WAIT, BEGUN + CREATION_GRACE_PERIOD)
    assert late.action is ReplacementAction.ROLL_BACK


def test_replacement_without_annotations_rolls_back() -> None:
    unannotated = replace(a_new_claim(TWO, "new-b"), annotations=FrozenDict())

    assert (
        evaluate(TWO, OLD, OTHER, a_new_claim(TWO, "new-a"), unannotated).action
        is ReplacementAction.ROLL_BACK
    )


def test_deleted_claims_are_not_deleted_again() -> None:
    claims = (a_new_claim(TWO, "new-a", ready=True), a_new_claim(TWO, "new-b", ready=True))

    status = evaluate(TWO, replace(OLD, deleting=True), OTHER, *claims)

    assert (status.action, status.remaining) == (ReplacementAction.DELETE, (OTHER,))


@pytest.mark.parametrize("old", [None, replace(OLD, uid="9"), replace(OLD, deleting=True)])
def test_replacement_is_done_when_all_old_claims_are_gone(old: NodeClaim | None) -> None:
    existing = [old] if old is not None else []

    assert evaluate(ONE, *existing, a_new_claim(ONE, "new")).action is ReplacementAction.DONE


def test_removed_taint_rolls_back() -> None:
    assert (
        evaluate(ONE, OLD, a_new_claim(ONE, "new", ready=True), is_tainted=False).action
        is ReplacementAction.ROLL_BACK
    )


@pytest.mark.parametrize(
    ("nodes", "minutes"), [(1, 10), (7500, 10), (10_000, 13 + 1 / 3), (40_000, 53 + 1 / 3)]
)
def test_timeout_grows_with_the_number_of_waiting_nodes(nodes: int, minutes: float) -> None:
    assert get_timeout(nodes) == timedelta(minutes=minutes)


def test_timeout_is_at_most_an_hour() -> None:
    assert get_timeout(45_000) == get_timeout(10**6) == timedelta(hours=1)
