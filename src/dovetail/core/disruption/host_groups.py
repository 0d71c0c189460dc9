"""Host groups: replace a node without room for pods that must share its host.

The replacement has room for the whole group. Off by default (gate HostGroupReplacement).
"""

from typing import Final

from msgspec.structs import replace

from dovetail.core.disruption.candidates import Candidate, DisruptionClass, StateNode
from dovetail.core.disruption.command import Command, KeepReason
from dovetail.core.disruption.context import DisruptionContext
from dovetail.core.disruption.method import ELIGIBLE, NOT_ELIGIBLE, Decision, Eligibility, Method, MethodInput
from dovetail.core.scheduling.host_groups import find_stuck_groups, format_reasons, plan_without_node
from dovetail.model.karpenter.nodepool import DisruptionReason, NodePool
from dovetail.model.settings import SchedulingSettings


def decide(method_input: MethodInput) -> Decision:
    """Replace one node: its pods and those that wait for them are scheduled together."""
    over_budget: list[Candidate] = []
    keep_reasons: list[KeepReason] = []
    for candidate in sorted(method_input.candidates, key=lambda candidate: candidate.name):
        if method_input.allowed_disruptions.get(candidate.pool.name, 0) <= 0:
            over_budget.append(candidate)
            continue
        result = _replace(candidate, method_input.required_context, method_input.scheduling)
        if isinstance(result, Command):
            return Decision((result,), tuple(over_budget), tuple(keep_reasons))
        keep_reasons.append(result)
    return Decision((), tuple(over_budget), tuple(keep_reasons))


def _replace(
    candidate: Candidate, context: DisruptionContext, scheduling: SchedulingSettings
) -> Command | KeepReason:
    groups = find_stuck_groups(context.snapshot, context.snapshot.pending_pods)
    waiting = [pod for group in groups if group.node == candidate.name for pod in group.waiting]
    if not waiting:
        return _keep(candidate, "no pod waits for room on it any more")
    plan = plan_without_node(context.snapshot, candidate.name, scheduling)
    moving = {pod.uid for pod in candidate.reschedulable_pods}
    together = moving | {pod.uid for pod in waiting}
    for entry in plan.unschedulable:
        if entry.pod.uid in together:
            return _keep(candidate, f"Pod {entry.pod.key} cannot be scheduled: {format_reasons(entry)}")
    replacements = tuple(node for node in plan.nodes if any(pod.uid in together for pod in node.pods))
    placements = (
        replace(placement, pods=tuple(pod for pod in placement.pods if pod.uid in moving))
        for placement in plan.existing
    )
    return Command(
        candidates=(candidate,),
        replacements=replacements,
        placements=tuple(placement for placement in placements if placement.pods),
        saving=candidate.price - sum(node.price for node in replacements),
    )


def _keep(candidate: Candidate, message: str) -> KeepReason:
    return KeepReason(node=candidate.name, price=candidate.price, code="no-place", message=message)


def _check_eligibility(state_node: StateNode, pool: NodePool | None) -> Eligibility:
    if not state_node.has_stuck_group or pool is None or pool.replicas is not None:
        return NOT_ELIGIBLE
    return ELIGIBLE


HOST_GROUPS: Final = Method(
    reason=DisruptionReason.UNDERUTILIZED,
    disruption_class=DisruptionClass.GRACEFUL,
    check_eligibility=lambda state_node, pool, _: _check_eligibility(state_node, pool),
    decide=decide,
    needs_context=True,
    explain=lambda _: "pods that must share its host find no room on it",
)
