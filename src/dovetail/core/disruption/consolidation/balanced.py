"""Consolidation policy Balanced: savings must be in proportion to the disruption."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec

from dovetail.core.disruption.candidates import Candidate, eviction_cost, get_node_price
from dovetail.model.cloud.instance_type import InstanceType
from dovetail.model.karpenter.nodepool import ConsolidationPolicy
from dovetail.model.node import Node
from dovetail.model.snapshot import ClusterSnapshot

_TOLERANCE: Final = 1e-9
"""Amount by which ``k`` times the score may miss 1."""


class PoolTotals(msgspec.Struct, frozen=True):
    """Price and disruption cost of all nodes of a NodePool."""

    price: float = 0.0
    """USD per hour."""
    disruption_cost: float = 0.0


def compute_score(saving: float, disruption_cost: float, totals: PoolTotals | None) -> float:
    """Return the share of the NodePool's price saved per share of its disruption cost."""
    if totals is None or totals.price <= 0 or totals.disruption_cost <= 0 or saving <= 0:
        return 0.0
    if disruption_cost <= 0:
        return float("inf")
    return (saving / totals.price) / (disruption_cost / totals.disruption_cost)


def compute_pool_totals(candidates: Iterable[Candidate], snapshot: ClusterSnapshot) -> dict[str, PoolTotals]:
    """Return the totals of every NodePool with candidates, over all of its nodes."""
    by_node = {candidate.name: candidate for candidate in candidates}
    pools = {candidate.pool.name for candidate in by_node.values()}
    types = {pool: _index_by_name(snapshot.instance_types.get(pool, ())) for pool in pools}
    price, disruption = dict.fromkeys(sorted(pools), 0.0), dict.fromkeys(pools, 0.0)
    for node in snapshot.nodes:
        if node.pool not in pools:
            continue
        candidate = by_node.get(node.name)
        price[node.pool] += (
            candidate.price if candidate else get_node_price(node, types[node.pool], node.pods)
        )
        disruption[node.pool] += candidate.disruption_cost if candidate else _get_disruption_cost(node)
    return {pool: PoolTotals(price[pool], disruption[pool]) for pool in price}


def _index_by_name(types: Iterable[InstanceType]) -> dict[str, InstanceType]:
    return {instance_type.name: instance_type for instance_type in types}


def _get_disruption_cost(node: Node) -> float:
    return 1.0 + sum(max(0.0, eviction_cost(pod)) for pod in node.pods if not pod.is_owned_by_daemon_set)


def meets_balanced_policy(
    candidates: Sequence[Candidate], saving: float, totals: Mapping[str, PoolTotals], k: float
) -> bool:
    """Return True if every NodePool with policy Balanced gets a score of 1/k or more.

    The saving is divided between NodePools by the price of their candidates.
    NodePools with another policy are not checked.
    """
    price = sum(candidate.price for candidate in candidates)
    for pool in sorted({candidate.pool.name for candidate in candidates}):
        own = [candidate for candidate in candidates if candidate.pool.name == pool]
        if own[0].pool.disruption.policy is not ConsolidationPolicy.BALANCED:
            continue
        own_price = sum(candidate.price for candidate in own)
        share = saving * own_price / price if price > 0 else 0.0
        disruption_cost = sum(candidate.disruption_cost for candidate in own)
        if compute_score(share, disruption_cost, totals.get(pool)) * k < 1.0 - _TOLERANCE:
            return False
    return bool(candidates)
