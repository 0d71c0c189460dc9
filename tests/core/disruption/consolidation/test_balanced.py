"""Consolidation policy Balanced: saving of a command against its disruption."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dovetail.core.disruption.candidates import Candidate
from dovetail.core.disruption.consolidation.balanced import (
    PoolTotals,
    compute_pool_totals,
    compute_score,
    meets_balanced_policy,
)
from dovetail.model.karpenter.nodeclaim import NodeClaim
from dovetail.model.karpenter.nodepool import ConsolidationPolicy, Disruption
from dovetail.model.node import NodeObject
from tests.support.disruption.consolidation import a_pool_node
from tests.support.scheduling.builders import a_node, a_pool, cluster, pods
from tests.support.scheduling.instance_types import a_type

BALANCED = a_pool("default", disruption=Disruption(policy=ConsolidationPolicy.BALANCED))
some = st.floats(0.01, 1000.0)


def a_candidate(name: str = "a", price: float = 1.0, count: int = 1, pool: Any = BALANCED) -> Any:
    return Candidate(
        provider_id=name,
        claim=NodeClaim(name=name),
        node=NodeObject(name=name),
        pool=pool,
        reschedulable_pods=tuple(pods(count, name)),
        price=price,
    )


@pytest.mark.parametrize(("k", "fine"), [(1.0, False), (2.0, False), (3.0, True)])
def test_bl3_marginal_command_depends_on_k(k: float, fine: bool) -> None:
    totals = {"default": PoolTotals(10.0, 10.0)}
    candidate = a_candidate(count=0)

    assert compute_score(0.42, candidate.disruption_cost, totals["default"]) == pytest.approx(0.42)
    assert meets_balanced_policy([candidate], 0.42, totals, k) is fine


def test_bl4_command_without_saving_has_score_zero() -> None:
    assert compute_score(0.0, 1.0, PoolTotals(1.0, 1.0)) == 0.0
    assert compute_score(-1.0, 1.0, PoolTotals(1.0, 1.0)) == 0.0


def test_bl5_half_the_share_is_just_enough() -> None:
    assert meets_balanced_policy([a_candidate(count=0)], 0.5, {"default": PoolTotals(10.0, 10.0)}, 2.0)


@given(some, some, some, some, st.floats(0.1, 10.0))
def test_bl7_score_does_not_depend_on_the_size_of_the_nodepool(
    saving: float, disruption: float, price: float, total: float, factor: float
) -> None:
    larger = PoolTotals(price * factor, total * factor)

    assert compute_score(saving, disruption, larger) == pytest.approx(
        compute_score(saving, disruption, PoolTotals(price, total))
    )


def test_bl8_without_disruption_any_saving_is_enough_and_without_totals_none() -> None:
    assert compute_score(0.1, 0.0, PoolTotals(1.0, 1.0)) == float("inf")
    assert compute_score(0.1, 1.0, PoolTotals(0.0, 1.0)) == 0.0
    assert not meets_balanced_policy([a_candidate()], 0.1, {}, 2.0)
    assert not meets_balanced_policy([], 0.1, {"default": PoolTotals(1.0, 1.0)}, 2.0)


def test_bl9_every_balanced_nodepool_must_approve_and_no_other() -> None:
    other = a_candidate("b", pool=a_pool("other"))
    totals = {"default": PoolTotals(1000.0, 1.0)}

    assert meets_balanced_policy([other], 0.001, totals, 2.0)
    assert not meets_balanced_policy([a_candidate(), other], 0.001, totals, 2.0)


def test_bl10_saving_is_divided_between_nodepools_by_price() -> None:
    mine = a_candidate("a", price=1.0, count=0)
    theirs = a_candidate("b", price=3.0, pool=a_pool("other"))

    # A quarter of 2.0 is half of the pool's cost, for half of its disruption.
    assert meets_balanced_policy([mine, theirs], 2.0, {"default": PoolTotals(1.0, 2.0)}, 1.0)
    assert not meets_balanced_policy([mine, theirs], 1.9, {"default": PoolTotals(1.0, 2.0)}, 1.0)


def test_bl11_totals_include_nodes_that_are_no_candidates() -> None:
    kind = a_type("big", price=3.0)
    candidate = a_candidate("a", price=2.0, count=3)
    nodes = [
        a_node("a", pool="default", pods=pods(3, "x")),
        a_pool_node("spared", kind, pods(4, "y")),
        a_node("no-price", pool="default"),
        a_node("foreign", pods=pods(9, "z")),
    ]

    totals = compute_pool_totals([candidate], cluster(types=[kind], nodes=nodes))

    assert totals == {"default": PoolTotals(2.0 + 3.0, 4.0 + 5.0 + 1.0)}
