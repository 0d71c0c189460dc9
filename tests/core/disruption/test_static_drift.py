"""Drifted nodes of static NodePools: SD1–SD8, as decisions."""

from datetime import UTC, datetime, timedelta

import pytest

from dovetail.core.disruption.candidates import Candidate, StateNode
from dovetail.core.disruption.drift import STATIC_DRIFT
from dovetail.core.disruption.method import MethodInput
from dovetail.model.frozen import FrozenDict
from dovetail.model.karpenter.nodeclaim import NodeClaim
from dovetail.model.karpenter.nodepool import NodePool
from dovetail.model.kube.conditions import FALSE, TRUE, Condition
from dovetail.model.node import NodeObject

NOW = datetime(2026, 1, 1, 9, tzinfo=UTC)


def a_claim(name: str, *, minutes: float = 5, status: str = TRUE) -> NodeClaim:
    since = NOW - timedelta(minutes=minutes)
    drifted = Condition(status=status, reason="NodePoolDrifted", last_transition_time=since)
    return NodeClaim(name=name, conditions=FrozenDict({"Drifted": drifted}))


def a_candidate(name: str, pool: str = "fixed", *, minutes: float = 5) -> Candidate:
    return Candidate(
        provider_id=name,
        claim=a_claim(name, minutes=minutes),
        node=NodeObject(name=name),
        pool=NodePool(name=pool, replicas=3),
    )


def replaced(method_input: MethodInput) -> list[str]:
    commands = STATIC_DRIFT.decide(method_input).commands
    assert all(len(command.candidates) == len(command.template_nodepools) == 1 for command in commands)
    return [command.candidates[0].node.name for command in commands]


@pytest.mark.parametrize(("allowed", "headroom", "count"), [(2, 9, 2), (9, 1, 1), (9, 9, 3), (0, 9, 0)])
def test_budget_and_limit_bound_the_number_of_replacements(allowed: int, headroom: int, count: int) -> None:
    candidates = tuple(a_candidate(name) for name in "abc")

    method_input = MethodInput(
        candidates=candidates, allowed_disruptions={"fixed": allowed}, limit_headroom={"fixed": headroom}
    )

    assert len(replaced(method_input)) == count
    assert len(STATIC_DRIFT.decide(method_input).over_budget) == 3 - count


def test_node_that_drifted_first_is_replaced_first() -> None:
    candidates = (a_candidate("late", minutes=1), a_candidate("early", minutes=9))

    method_input = MethodInput(
        candidates=candidates, allowed_disruptions={"fixed": 1}, limit_headroom={"fixed": 9}
    )

    assert replaced(method_input) == ["early"]


def test_each_nodepool_has_its_own_budget() -> None:
    candidates = tuple(a_candidate(f"{pool}-{n}", pool) for pool in "ab" for n in range(3))

    method_input = MethodInput(
        candidates=candidates, allowed_disruptions={"a": 1, "b": 2}, limit_headroom={"a": 9, "b": 9}
    )

    assert len(replaced(method_input)) == 3


@pytest.mark.parametrize(
    ("replicas", "status", "is_eligible"), [(3, TRUE, True), (3, FALSE, False), (None, TRUE, False)]
)
def test_only_drifted_nodes_of_static_nodepools_are_eligible(
    replicas: int | None, status: str, is_eligible: bool
) -> None:
    state_node = StateNode(provider_id="a", claim=a_claim("a", status=status))

    eligibility = STATIC_DRIFT.check_eligibility(state_node, NodePool(name="fixed", replicas=replicas), NOW)

    assert eligibility.is_eligible is is_eligible
