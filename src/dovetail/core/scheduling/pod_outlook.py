"""Pod outlook: what the plan for the whole cluster means for one pending pod."""

import msgspec

from dovetail.core.scheduling.host_groups import (
    StuckHostGroup,
    find_stuck_groups,
    format_reasons,
    plan_without_node,
)
from dovetail.core.scheduling.solver import solve
from dovetail.model.kube.pod import Pod
from dovetail.model.plan import Plan, PlannedNode, UnschedulableReason
from dovetail.model.settings import SchedulingSettings
from dovetail.model.snapshot import ClusterSnapshot


class PodOutlook(msgspec.Struct, frozen=True, kw_only=True):
    """Expected node of a pending pod, or the reasons why it gets none."""

    existing: str = ""
    """Name of the existing or in-flight node that has room for it."""
    new: PlannedNode | None = None
    """New node that would be launched for it and others."""
    reasons: tuple[UnschedulableReason, ...] = ()
    """Why it gets no node, per NodePool."""
    host_group: StuckHostGroup | None = None
    """Pods with which it must share a host that has no room for it."""
    remedy: str = ""
    """Change that would resolve a stuck host group."""


def predict_outlook(
    pod: Pod, snapshot: ClusterSnapshot, settings: SchedulingSettings | None = None
) -> PodOutlook:
    """Plan for all pending pods and return the result for one of them."""
    plan = solve(snapshot, settings)
    for placement in plan.existing:
        if any(candidate.uid == pod.uid and candidate.key == pod.key for candidate in placement.pods):
            return PodOutlook(existing=placement.node)
    for node in plan.nodes:
        if any(candidate.uid == pod.uid and candidate.key == pod.key for candidate in node.pods):
            return PodOutlook(new=node)
    for entry in plan.unschedulable:
        if entry.pod.uid == pod.uid and entry.pod.key == pod.key:
            outlook = PodOutlook(reasons=entry.reasons)
            group = _find_host_group(pod, snapshot, plan)
            return outlook if group is None else _add_host_group(outlook, group, snapshot, settings)
    return PodOutlook()


def _find_host_group(pod: Pod, snapshot: ClusterSnapshot, plan: Plan) -> StuckHostGroup | None:
    groups = find_stuck_groups(snapshot, [entry.pod for entry in plan.unschedulable])
    return next((group for group in groups if any(pod.key == other.key for other in group.waiting)), None)


def _add_host_group(
    outlook: PodOutlook, group: StuckHostGroup, snapshot: ClusterSnapshot, settings: SchedulingSettings | None
) -> PodOutlook:
    """Add the stuck host group of an unschedulable pod, and what would resolve it."""
    together = {pod.key for pod in (*group.waiting, *group.members)}
    plan = plan_without_node(snapshot, group.node, settings)
    unplaced = next((entry for entry in plan.unschedulable if entry.pod.key in together), None)
    node = next(node for node in snapshot.nodes if node.name == group.node)
    if unplaced is not None:
        remedy = f"no NodePool has a node for all of them ({format_reasons(unplaced)})"
    elif not node.claim:
        remedy = f"delete the pods on Node {group.node}, so that all of them are scheduled together"
    else:
        remedy = (
            "the feature gate HostGroupReplacement replaces the node by one with room for all of them; "
            f"or delete the NodeClaim {node.claim}, so that they are scheduled together"
        )
    return msgspec.structs.replace(outlook, host_group=group, remedy=remedy)
