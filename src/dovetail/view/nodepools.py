"""NodePools of the view: limits, usage, cost, and the disruption that budgets allow now."""

from collections.abc import Iterable
from datetime import datetime

import msgspec

from dovetail.core.disruption.budgets import (
    UNLIMITED,
    count_nodes,
    count_remaining,
    get_allowed_disruptions,
    is_budget_active,
)
from dovetail.model.karpenter.nodeclaim import NodeClaim
from dovetail.model.karpenter.nodepool import Budget, DisruptionReason, NodePool
from dovetail.model.kube.conditions import READY, TRUE
from dovetail.model.kube.resources import Resources
from dovetail.model.node import NodeObject
from dovetail.view.document import BudgetView, NodePoolView, NodeView, Usage


class PoolNodes(msgspec.Struct):
    """Sums over the nodes of a NodePool."""

    nodes: int = 0
    price: float = 0.0
    node_cost: float = 0.0
    cpu_requested: int = 0
    cpu_allocatable: int = 0
    memory_requested: int = 0
    memory_allocatable: int = 0
    capacity: dict[str, int] = msgspec.field(default_factory=dict)

    def add(self, node: NodeView, capacity: Resources) -> None:
        self.nodes += 1
        self.price += node.price_per_hour or 0.0
        self.node_cost += node.node_cost_per_hour
        self.cpu_requested += node.cpu.requested
        self.cpu_allocatable += node.cpu.allocatable
        self.memory_requested += node.memory.requested
        self.memory_allocatable += node.memory.allocatable
        for name, amount in capacity.items():
            self.capacity[name] = self.capacity.get(name, 0) + amount


def build_nodepool(
    pool: NodePool, sums: PoolNodes, claims: Iterable[tuple[NodeClaim, NodeObject | None]], now: datetime
) -> NodePoolView:
    """Return a NodePool with the sums over its nodes; ``claims`` are counted by its budgets."""
    counts = count_nodes(claims)
    allowed = {}
    for reason in DisruptionReason:
        limit = get_allowed_disruptions(pool.disruption.budgets, reason, total=counts.total, now=now).allowed
        allowed[reason.value] = counts.total if limit == UNLIMITED else count_remaining(limit, counts)
    ready = pool.conditions.get(READY)
    message = ""
    if ready is not None and ready.status != TRUE:
        message = ready.message or ready.reason
    after = pool.disruption.consolidate_after
    limits = dict(pool.limits or {})
    return NodePoolView(
        name=pool.name,
        ready=pool.ready and (ready is None or ready.status == TRUE),
        message=message,
        node_class=pool.template.node_class.name,
        weight=pool.weight,
        replicas=pool.replicas,
        nodes=sums.nodes,
        limits=limits,
        usage={name: amount for name, amount in sorted(sums.capacity.items()) if amount},
        cpu=Usage(requested=sums.cpu_requested, allocatable=sums.cpu_allocatable),
        memory=Usage(requested=sums.memory_requested, allocatable=sums.memory_allocatable),
        price_per_hour=sums.price,
        node_cost_per_hour=sums.node_cost,
        consolidation_policy=pool.disruption.policy.value,
        consolidate_after_seconds=None if after is None else after.total_seconds(),
        budgets=tuple(_show_budget(budget, now) for budget in pool.disruption.budgets),
        allowed_disruptions=allowed,
        disrupting=counts.disrupting,
    )


def _show_budget(budget: Budget, now: datetime) -> BudgetView:
    try:
        active = is_budget_active(budget, now)
    except ValueError:
        active = True  # An invalid schedule allows no disruption at all.
    return BudgetView(
        nodes=budget.nodes, reasons=budget.reasons, schedule=budget.schedule or "", active=active
    )
