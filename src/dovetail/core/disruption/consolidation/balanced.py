"""The policy Balanced: a move must save its share of what it disturbs."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec

from dovetail.core.disruption.candidates import Candidate, eviction_cost, price_of
from dovetail.model.cloud.instance_type import InstanceType
from dovetail.model.karpenter.nodepool import ConsolidationPolicy
from dovetail.model.node import Node
from dovetail.model.snapshot import ClusterSnapshot

_ENOUGH: Final = 1e-9
"""A score that falls short by no more than this is as good."""


class PoolTotals(msgspec.Struct, frozen=True):
    """What a whole pool costs, and what moving all of its pods would be worth avoiding."""

    cost: float = 0.0
    """USD per hour."""
    disruption: float = 0.0


def score(saving: float, disruption: float, totals: PoolTotals | None) -> float:
    """Return a move's share of its pool's cost over its share of the pool's disruption."""
    if totals is None or totals.cost <= 0 or totals.disruption <= 0 or saving <= 0:
        return 0.0
    if disruption <= 0:
        return float("inf")
    return (saving / totals.cost) / (disruption / totals.disruption)


def pool_totals(
    candidates: Iterable[Candidate], snapshot: ClusterSnapshot
) -> dict[str, PoolTotals]:
    """Reckon the totals of every pool that has candidates: all of its nodes count."""
    known = {one.node.name: one for one in candidates}
    pools = {one.pool.name for one in known.values()}
    types = {pool: _by_name(snapshot.instance_types.get(pool, ())) for pool in pools}
    price, disruption = dict.fromkeys(sorted(pools), 0.0), dict.fromkeys(pools, 0.0)
    for node in snapshot.nodes:
        if node.pool not in pools:
            continue
        candidate = known.get(node.name)
        price[node.pool] += candidate.price if candidate else price_of(node, types[node.pool])
        disruption[node.pool] += candidate.cost if candidate else _cost(node)
    return {pool: PoolTotals(price[pool], disruption[pool]) for pool in price}


def _by_name(types: Iterable[InstanceType]) -> dict[str, InstanceType]:
    return {one.name: one for one in types}


def _cost(node: Node) -> float:
    return 1.0 + sum(max(0.0, eviction_cost(pod)) for pod in node.pods if not pod.of_daemon_set)


def approves(
    removed: Sequence[Candidate], saving: float, totals: Mapping[str, PoolTotals], k: float
) -> bool:
    """Tell whether every Balanced pool that loses nodes finds a move worth it.

    The saving is divided between pools by the price of what they lose; pools
    with another policy have no say.
    """
    price = sum(one.price for one in removed)
    for pool in sorted({one.pool.name for one in removed}):
        own = [one for one in removed if one.pool.name == pool]
        if own[0].pool.disruption.policy is not ConsolidationPolicy.BALANCED:
            continue
        share = saving * sum(one.price for one in own) / price if price > 0 else 0.0
        reached = score(share, sum(one.cost for one in own), totals.get(pool))
        if reached * k < 1.0 - _ENOUGH:
            return False
    return bool(removed)
