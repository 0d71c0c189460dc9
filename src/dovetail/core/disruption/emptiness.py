"""Emptiness: delete nodes without pods that need rescheduling."""

from datetime import datetime, timedelta
from typing import Final

from dovetail.core.disruption.candidates import Candidate, DisruptionClass, StateNode
from dovetail.core.disruption.command import Command
from dovetail.core.disruption.method import ELIGIBLE, NOT_ELIGIBLE, Decision, Eligibility, Method, MethodInput
from dovetail.model.karpenter.condition_types import CONSOLIDATABLE, INITIALIZED
from dovetail.model.karpenter.nodepool import DisruptionReason, NodePool
from dovetail.model.kube.conditions import is_true

MIN_EMPTY_TIME: Final = timedelta(seconds=15)
"""Minimum time that a node must be empty, however short ``consolidateAfter`` is.

A rolling update leaves a node empty for a moment. Pod events are written to
NodeClaims with a delay of up to ten seconds.
"""


def get_eligible_time(state_node: StateNode, pool: NodePool) -> datetime | None:
    """Return when a node that stays empty may be deleted; None: never, or unknown.

    Counts from the last pod event, else from the node's initialization.
    """
    consolidate_after, claim = pool.disruption.consolidate_after, state_node.claim
    if consolidate_after is None or claim is None:
        return None
    initialized = claim.conditions.get(INITIALIZED)
    since = claim.last_pod_event or (initialized.last_transition_time if initialized is not None else None)
    if since is None:
        return None
    return max(since, state_node.emptied_at or since) + max(consolidate_after, MIN_EMPTY_TIME)


def check_eligibility(state_node: StateNode, pool: NodePool | None, now: datetime) -> Eligibility:
    """Return whether a node is, or will be, eligible for deletion as empty."""
    claim = state_node.claim
    if claim is None or pool is None or pool.replicas is not None:
        return NOT_ELIGIBLE
    if not state_node.is_empty:
        return NOT_ELIGIBLE
    if pool.disruption.consolidate_after is None:
        return Eligibility(disabled_by=f"NodePool {pool.name!r} has consolidateAfter: Never")
    if state_node.needed_by_buffer:
        return Eligibility(disabled_by="a CapacityBuffer needs its free capacity")
    eligible_at = get_eligible_time(state_node, pool)
    if eligible_at is None or not is_true(claim.conditions, CONSOLIDATABLE):
        return NOT_ELIGIBLE
    return ELIGIBLE if eligible_at <= now else Eligibility(eligible_at=eligible_at)


def decide(inputs: MethodInput) -> Decision:
    """Select as many empty nodes as budgets allow, highest savings ratio first."""
    remaining = dict(inputs.allowed_disruptions)
    selected: list[Candidate] = []
    over_budget: list[Candidate] = []
    for candidate in sorted(inputs.candidates, key=lambda node: (-node.savings_ratio, node.name)):
        if remaining.get(candidate.pool.name, 0) > 0:
            remaining[candidate.pool.name] -= 1
            selected.append(candidate)
        else:
            over_budget.append(candidate)
    saving = sum(candidate.cost for candidate in selected)
    commands = (Command(candidates=tuple(selected), saving=saving),) if selected else ()
    return Decision(commands, tuple(over_budget))


EMPTINESS: Final = Method(
    reason=DisruptionReason.EMPTY,
    disruption_class=DisruptionClass.GRACEFUL,
    check_eligibility=check_eligibility,
    decide=decide,
    needs_empty_nodes=True,
    launches_replacements=False,
    consolidation_type=lambda _: "empty",
    explain=lambda _: "it is empty",
)
