"""The policy Balanced: a move's saving against its disruption."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dovetail.core.disruption.candidates import Candidate
from dovetail.core.disruption.consolidation.balanced import PoolTotals, approves, pool_totals, score
from dovetail.model.karpenter.nodeclaim import NodeClaim
from dovetail.model.karpenter.nodepool import ConsolidationPolicy, Disruption
from dovetail.model.node import NodeObject
from tests.support.build import a_node, a_pool, cluster, pods
from tests.support.catalog import a_type
from tests.support.consolidating import a_bought_node

BALANCED = a_pool("default", disruption=Disruption(policy=ConsolidationPolicy.BALANCED))
some = st.floats(0.01, 1000.0)


def a_candidate(name: str = "a", price: float = 1.0, count: int = 1, pool: Any = BALANCED) -> Any:
    return Candidate(
        identity=name,
        claim=NodeClaim(name=name),
        node=NodeObject(name=name),
        pool=pool,
        reschedulable=tuple(pods(count, name)),
        price=price,
    )


@pytest.mark.parametrize(("k", "fine"), [(1.0, False), (2.0, False), (3.0, True)])
def test_bl3_a_marginal_move_depends_on_k(k: float, fine: bool) -> None:
    totals = {"default": PoolTotals(10.0, 10.0)}
    one = a_candidate(count=0)

    assert score(0.42, one.cost, totals["default"]) == pytest.approx(0.42)
    assert approves([one], 0.42, totals, k) is fine


def test_bl4_a_move_that_saves_nothing_scores_nothing() -> None:
    assert score(0.0, 1.0, PoolTotals(1.0, 1.0)) == 0.0
    assert score(-1.0, 1.0, PoolTotals(1.0, 1.0)) == 0.0


def test_bl5_half_the_share_is_just_enough() -> None:
    assert approves([a_candidate(count=0)], 0.5, {"default": PoolTotals(10.0, 10.0)}, 2.0)


@given(some, some, some, some, st.floats(0.1, 10.0))
def test_bl7_the_score_does_not_depend_on_the_size_of_the_pool(
    saving: float, disruption: float, price: float, total: float, factor: float
) -> None:
    larger = PoolTotals(price * factor, total * factor)

    assert score(saving, disruption, larger) == pytest.approx(
        score(saving, disruption, PoolTotals(price, total))
    )


def test_bl8_without_disruption_any_saving_will_do_and_without_totals_none() -> None:
    assert score(0.1, 0.0, PoolTotals(1.0, 1.0)) == float("inf")
    assert score(0.1, 1.0, PoolTotals(0.0, 1.0)) == 0.0
    assert not approves([a_candidate()], 0.1, {}, 2.0)
    assert not approves([], 0.1, {"default": PoolTotals(1.0, 1.0)}, 2.0)


def test_bl9_only_balanced_pools_have_a_say_and_each_of_them_must_agree() -> None:
    other = a_candidate("b", pool=a_pool("other"))
    totals = {"default": PoolTotals(1000.0, 1.0)}

    assert approves([other], 0.001, totals, 2.0)
    assert not approves([a_candidate(), other], 0.001, totals, 2.0)


def test_bl10_a_saving_across_pools_is_divided_by_the_price_of_what_they_lose() -> None:
    mine = a_candidate("a", price=1.0, count=0)
    theirs = a_candidate("b", price=3.0, pool=a_pool("other"))

    # A quarter of 2.0 is half of the pool's cost, for half of its disruption.
    assert approves([mine, theirs], 2.0, {"default": PoolTotals(1.0, 2.0)}, 1.0)
    assert not approves([mine, theirs], 1.9, {"default": PoolTotals(1.0, 2.0)}, 1.0)


def test_bl11_all_nodes_of_a_pool_count_candidates_or_not() -> None:
    kind = a_type("big", price=3.0)
    known = a_candidate("a", price=2.0, count=3)
    nodes = [
        a_node("a", pool="default", pods=pods(3, "x")),
        a_bought_node("spared", kind, pods(4, "y")),
        a_node("no-price", pool="default"),
        a_node("foreign", pods=pods(9, "z")),
    ]

    totals = pool_totals([known], cluster(types=[kind], nodes=nodes))

    assert totals == {"default": PoolTotals(2.0 + 3.0, 4.0 + 5.0 + 1.0)}
