"""What becomes of a replacement under way, from what its claims say: QU1–QU9."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from dovetail.core.disruption.replacement import (
    STARTING,
    Judgement,
    Sight,
    Undertaking,
    Verdict,
    judge,
    patience,
    read_undertaking,
    undertaking,
)
from dovetail.model.frozen import FrozenDict
from dovetail.model.karpenter.nodeclaim import NodeClaim
from dovetail.model.kube.conditions import TRUE, Condition

BEGUN = datetime(2026, 1, 1, 9, tzinfo=UTC)
OLD = NodeClaim(name="old", uid="1")
OTHER = NodeClaim(name="other", uid="2")
NAMES = st.text("abc-123", min_size=1, max_size=8)


def come(begun: Undertaking, name: str, *, ready: bool = False) -> NodeClaim:
    """A claim that was made for an undertaking."""
    known = {"Initialized": Condition(status=TRUE, reason="Initialized")} if ready else {}
    return NodeClaim(
        name=name,
        created=BEGUN,
        annotations=FrozenDict(begun.annotations()),
        conditions=FrozenDict(known),
    )


def judged(
    begun: Undertaking,
    *claims: NodeClaim,
    after: timedelta = timedelta(),
    marked: bool = True,
    nodes: int = 1,
) -> Judgement:
    there = {one.name: one for one in claims}
    sight = Sight(now=BEGUN + after, claim=there.get, marked=lambda _: marked, nodes=nodes)
    return judge(begun, sight)


ONE = undertaking([OLD], ["new"])
TWO = undertaking([OLD, OTHER], ["new-a", "new-b"])


@given(st.lists(NAMES, min_size=1, unique=True), st.lists(NAMES, min_size=1, unique=True))
def test_what_is_written_on_a_claim_is_read_from_it(old: list[str], new: list[str]) -> None:
    begun = undertaking([NodeClaim(name=name, uid=f"uid-{name}") for name in old], new)

    assert read_undertaking(come(begun, new[0])) == begun


def test_a_claim_that_replaces_nobody_has_nothing_to_read() -> None:
    assert read_undertaking(OLD) is None


def test_a_replacement_that_starts_is_waited_for_until_its_time_is_up() -> None:
    found = judged(ONE, OLD, come(ONE, "new"))

    assert (found.verdict, found.until) == (Verdict.WAIT, BEGUN + timedelta(minutes=10))


def test_when_it_is_ready_the_node_goes() -> None:
    found = judged(ONE, OLD, come(ONE, "new", ready=True))

    assert (found.verdict, found.staying) == (Verdict.FINISH, (OLD,))


def test_when_its_time_is_up_the_node_lives_on() -> None:
    found = judged(ONE, OLD, come(ONE, "new"), after=timedelta(minutes=10))

    assert found.verdict is Verdict.ROLL_BACK
    assert found.because == "replacement new was not ready in time"


def test_one_that_is_ready_late_is_as_good() -> None:
    found = judged(ONE, OLD, come(ONE, "new", ready=True), after=timedelta(hours=2))

    assert found.verdict is Verdict.FINISH


def test_all_of_several_must_be_ready() -> None:
    claims = (come(TWO, "new-a", ready=True), come(TWO, "new-b"))

    assert judged(TWO, OLD, OTHER, *claims).verdict is Verdict.WAIT


def test_one_that_is_deleted_ends_it_at_once() -> None:
    going = replace(come(TWO, "new-b"), deleting=True)

    found = judged(TWO, OLD, OTHER, come(TWO, "new-a"), going)

    assert found.verdict is Verdict.ROLL_BACK


def test_one_that_is_not_there_yet_may_just_be_being_written() -> None:
    early = judged(TWO, OLD, OTHER, come(TWO, "new-a"))
    late = judged(TWO, OLD, OTHER, come(TWO, "new-a"), after=STARTING)

    assert (early.verdict, early.until) == (Verdict.WAIT, BEGUN + STARTING)
    assert late.verdict is Verdict.ROLL_BACK


def test_one_that_has_forgotten_what_it_is_for_ends_it() -> None:
    forgetful = replace(come(TWO, "new-b"), annotations=FrozenDict())

    assert judged(TWO, OLD, OTHER, come(TWO, "new-a"), forgetful).verdict is Verdict.ROLL_BACK


def test_nodes_that_have_gone_are_not_waited_for() -> None:
    claims = (come(TWO, "new-a", ready=True), come(TWO, "new-b", ready=True))

    found = judged(TWO, replace(OLD, deleting=True), OTHER, *claims)

    assert (found.verdict, found.staying) == (Verdict.FINISH, (OTHER,))


@pytest.mark.parametrize("old", [None, replace(OLD, uid="9"), replace(OLD, deleting=True)])
def test_it_is_over_when_all_have_gone(old: NodeClaim | None) -> None:
    there = [old] if old is not None else []

    assert judged(ONE, *there, come(ONE, "new")).verdict is Verdict.OVER


def test_a_taint_that_was_taken_off_ends_it() -> None:
    assert judged(ONE, OLD, come(ONE, "new", ready=True), marked=False).verdict is Verdict.ROLL_BACK


@pytest.mark.parametrize(
    ("nodes", "minutes"), [(1, 10), (7500, 10), (10_000, 13 + 1 / 3), (40_000, 53 + 1 / 3)]
)
def test_the_more_nodes_wait_the_longer_they_may(nodes: int, minutes: float) -> None:
    assert patience(nodes) == timedelta(minutes=minutes)


def test_but_never_longer_than_an_hour() -> None:
    assert patience(45_000) == patience(10**6) == timedelta(hours=1)
