"""Pod outlook: what the plan for the whole cluster means for one pending pod."""

import msgspec

from dovetail.core.scheduling.solver import solve
from dovetail.model.kube.pod import Pod
from dovetail.model.plan import PlannedNode, UnschedulableReason
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
            return PodOutlook(reasons=entry.reasons)
    return PodOutlook()
