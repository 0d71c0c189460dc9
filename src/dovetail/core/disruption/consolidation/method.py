"""Consolidation as a disruption method."""

from collections.abc import Hashable
from datetime import datetime, timedelta
from typing import Final

from dovetail.core.disruption.candidates import DisruptionClass, StateNode
from dovetail.core.disruption.consolidation.eviction_price import get_age_in_days
from dovetail.core.disruption.consolidation.policy_choice import consolidate_by_policy
from dovetail.core.disruption.consolidation.validation import validate_commands
from dovetail.core.disruption.context import DisruptionContext, get_unconsolidatable_reason
from dovetail.core.disruption.method import (
    ELIGIBLE,
    NOT_ELIGIBLE,
    Decision,
    Eligibility,
    Method,
    MethodInput,
    Validation,
)
from dovetail.core.pod.eligibility import get_protection
from dovetail.model.karpenter.condition_types import CONSOLIDATABLE
from dovetail.model.karpenter.nodepool import ConsolidationPolicy, DisruptionReason, NodePool
from dovetail.model.kube.conditions import is_true

VALIDATION_DELAY: Final = timedelta(seconds=15)
_WHEN_EMPTY: Final = Eligibility(disabled_by="its NodePool has consolidationPolicy: WhenEmpty")
_NEVER: Final = Eligibility(disabled_by="its NodePool has consolidateAfter: Never")


def check_eligibility(state_node: StateNode, pool: NodePool | None, _: datetime) -> Eligibility:
    """Return whether pods of a node may be moved to reduce cost."""
    claim = state_node.claim
    if claim is None or pool is None or pool.replicas is not None or state_node.is_empty:
        return NOT_ELIGIBLE
    if pool.disruption.consolidate_after is None:
        return _NEVER
    if pool.disruption.policy is ConsolidationPolicy.WHEN_EMPTY:
        return _WHEN_EMPTY
    return ELIGIBLE if is_true(claim.conditions, CONSOLIDATABLE) else NOT_ELIGIBLE


def decide(inputs: MethodInput) -> Decision:
    """Evaluate all candidates together; the commands of one decision fit together."""
    result = consolidate_by_policy(inputs)
    over_budget = {reason.node for reason in result.keep_reasons if reason.code == "budget"}
    candidates = tuple(candidate for candidate in inputs.candidates if candidate.name in over_budget)
    return Decision(
        result.commands, candidates, result.keep_reasons, result.policy_failure, result.policy_answered
    )


def get_time_state(context: DisruptionContext) -> Hashable:
    """Return the ages of nodes, on which fleets and thresholds depend, and the protected pods."""
    now = context.snapshot.now
    ages = frozenset((candidate.name, get_age_in_days(candidate, now)) for candidate in context.candidates)
    protected = frozenset(
        pod.key
        for node in context.snapshot.nodes
        for group in node.pod_groups
        if group.has_do_not_disrupt
        for pod in group.pods
        if now is not None and get_protection(pod, now).active
    )
    return ages, protected


CONSOLIDATION: Final = Method(
    reason=DisruptionReason.UNDERUTILIZED,
    disruption_class=DisruptionClass.GRACEFUL,
    check_eligibility=check_eligibility,
    get_ineligible_reason=get_unconsolidatable_reason,
    decide=decide,
    needs_context=True,
    get_time_state=get_time_state,
    validation=Validation(VALIDATION_DELAY, validate_commands),
    consolidation_type=lambda nodes: "multi" if nodes > 1 else "single",
)
