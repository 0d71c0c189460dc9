"""Disruption budgets: how many nodes of a NodePool may be disrupted at once."""

from collections.abc import Iterable
from datetime import datetime
from typing import Final

import msgspec

from dovetail.core.disruption.cron import find_next_run, parse_schedule
from dovetail.model import labels as label_keys
from dovetail.model.karpenter.condition_types import INSTANCE_TERMINATING
from dovetail.model.karpenter.nodeclaim import NodeClaim
from dovetail.model.karpenter.nodepool import Budget, DisruptionReason
from dovetail.model.kube.conditions import is_true
from dovetail.model.kube.taints import DISRUPTED_TAINT
from dovetail.model.node import NodeObject

UNLIMITED: Final = 2**31 - 1
"""Number of nodes that a NodePool without active budgets may disrupt."""


class NodeCounts(msgspec.Struct, frozen=True):
    """Nodes of a NodePool as budgets count them."""

    total: int = 0
    disrupting: int = 0
    """Nodes that are deleted, tainted or not ready, whatever the cause."""


class AllowedDisruptions(msgspec.Struct, frozen=True):
    """Number of nodes that the budgets of a NodePool allow for one reason."""

    allowed: int
    errors: tuple[str, ...] = ()
    """Invalid budgets; with any of them nothing is allowed."""


def is_budget_active(budget: Budget, now: datetime) -> bool:
    """Return True if a budget applies now; ValueError: its schedule is invalid.

    A budget with a schedule applies for its duration after each scheduled time.
    """
    if budget.schedule is None or budget.duration is None:
        return True
    start = find_next_run(parse_schedule(budget.schedule), now - budget.duration)
    return start is not None and start <= now


def parse_node_count(budget: Budget, total: int) -> int:
    """Return the number of nodes of a budget; a percentage is rounded up."""
    text = budget.nodes.strip()
    number = text.removesuffix("%")
    if not (number.isascii() and number.isdigit()):
        raise ValueError(f"{budget.nodes!r} is neither a number of nodes nor a percentage")
    return -(-int(number) * total // 100) if text.endswith("%") else int(number)


def get_allowed_disruptions(
    budgets: Iterable[Budget], reason: DisruptionReason, *, total: int, now: datetime
) -> AllowedDisruptions:
    """Return the minimum over all active budgets that apply to a reason."""
    allowed, errors = UNLIMITED, []
    for budget in budgets:
        try:
            limit = parse_node_count(budget, total) if is_budget_active(budget, now) else UNLIMITED
        except ValueError as error:
            errors.append(str(error))
            continue
        if not budget.reasons or reason in budget.reasons:
            allowed = min(allowed, limit)
    return AllowedDisruptions(0 if errors else allowed, tuple(errors))


def validate_budgets(budgets: Iterable[Budget]) -> tuple[str, ...]:
    """Return the errors of all budgets, whether they apply now or not."""
    errors: list[str] = []
    for index, budget in enumerate(budgets):
        try:
            parse_node_count(budget, 1)
            if budget.schedule is not None:
                parse_schedule(budget.schedule)
        except ValueError as error:
            errors.append(f"budgets[{index}]: {error}")
    return tuple(errors)


def count_nodes(nodes: Iterable[tuple[NodeClaim, NodeObject | None]]) -> NodeCounts:
    """Count the initialized nodes of a NodePool, and those of them under disruption."""
    total = disrupting = 0
    for claim, node in nodes:
        if node is None or node.labels.get(label_keys.INITIALIZED) != "true":
            continue
        if is_true(claim.conditions, INSTANCE_TERMINATING):
            continue
        total += 1
        is_deleting = claim.deleting or node.deleting or DISRUPTED_TAINT in node.taints
        disrupting += is_deleting or not node.ready
    return NodeCounts(total, disrupting)


def count_remaining(allowed: int, counts: NodeCounts) -> int:
    """Return how many more nodes may be disrupted now."""
    return max(allowed - counts.disrupting, 0)
