"""Drifted nodes of static pools: SD1–SD8, by what is decided."""

from datetime import UTC, datetime, timedelta

import pytest

from dovetail.core.disruption.candidates import Candidate, Machine
from dovetail.core.disruption.method import Question
from dovetail.core.disruption.static_drift import STATIC_DRIFT
from dovetail.model.frozen import FrozenDict
from dovetail.model.karpenter.nodeclaim import NodeClaim
from dovetail.model.karpenter.nodepool import NodePool
from dovetail.model.kube.conditions import FALSE, TRUE, Condition
from dovetail.model.node import NodeObject

NOW = datetime(2026, 1, 1, 9, tzinfo=UTC)


def a_claim(name: str, *, minutes: float = 5, status: str = TRUE) -> NodeClaim:
    since = NOW - timedelta(minutes=minutes)
    drifted = Condition(status=status, reason="NodePoolDrifted", since=since)
    return NodeClaim(name=name, conditions=FrozenDict({"Drifted": drifted}))


def a_candidate(name: str, pool: str = "fixed", *, minutes: float = 5) -> Candidate:
    return Candidate(
        identity=name,
        claim=a_claim(name, minutes=minutes),
        node=NodeObject(name=name),
        pool=NodePool(name=pool, replicas=3),
    )


def replaced(question: Question) -> list[str]:
    moves = STATIC_DRIFT.decide(question).moves
    assert all(len(move.removed) == len(move.from_template) == 1 for move in moves)
    return [move.removed[0].node.name for move in moves]


@pytest.mark.parametrize(("room", "spare", "count"), [(2, 9, 2), (9, 1, 1), (9, 9, 3), (0, 9, 0)])
def test_as_many_are_replaced_as_budget_and_limit_allow(room: int, spare: int, count: int) -> None:
    candidates = tuple(a_candidate(name) for name in "abc")

    question = Question(candidates=candidates, room={"fixed": room}, spare={"fixed": spare})

    assert len(replaced(question)) == count
    assert len(STATIC_DRIFT.decide(question).over_budget) == 3 - count


def test_the_earliest_go_first() -> None:
    candidates = (a_candidate("late", minutes=1), a_candidate("early", minutes=9))

    question = Question(candidates=candidates, room={"fixed": 1}, spare={"fixed": 9})

    assert replaced(question) == ["early"]


def test_each_pool_has_its_own_budget() -> None:
    candidates = tuple(a_candidate(f"{pool}-{n}", pool) for pool in "ab" for n in range(3))

    question = Question(candidates=candidates, room={"a": 1, "b": 2}, spare={"a": 9, "b": 9})

    assert len(replaced(question)) == 3


@pytest.mark.parametrize(
    ("replicas", "status", "wanted"), [(3, TRUE, True), (3, FALSE, False), (None, TRUE, False)]
)
def test_only_drifted_nodes_of_static_pools_are_wanted(
    replicas: int | None, status: str, wanted: bool
) -> None:
    machine = Machine(identity="a", claim=a_claim("a", status=status))

    wish = STATIC_DRIFT.wish(machine, NodePool(name="fixed", replicas=replicas), NOW)

    assert wish.now is wanted
