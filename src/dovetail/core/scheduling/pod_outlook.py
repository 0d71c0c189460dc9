"""Where a pod is, or why it is nowhere: what a plan for the whole cluster says of it."""

import msgspec

from dovetail.core.scheduling.solver import solve
from dovetail.model.kube.pod import Pod
from dovetail.model.plan import PlannedNode, Refusal
from dovetail.model.settings import SchedulingSettings
from dovetail.model.snapshot import ClusterSnapshot


class Prospect(msgspec.Struct, frozen=True, kw_only=True):
    """What a waiting pod can expect."""

    existing: str = ""
    """A node that is there, or on its way, and has room for it."""
    new: PlannedNode | None = None
    """A node that would be bought for it and others."""
    refusals: tuple[Refusal, ...] = ()
    """Why it gets none, pool by pool."""


def prospect_of(
    pod: Pod, snapshot: ClusterSnapshot, settings: SchedulingSettings | None = None
) -> Prospect:
    """Plan for all who wait, and return what comes of it for one of them."""
    plan = solve(snapshot, settings)
    for placement in plan.existing:
        if any(one.uid == pod.uid and one.key == pod.key for one in placement.pods):
            return Prospect(existing=placement.node)
    for node in plan.nodes:
        if any(one.uid == pod.uid and one.key == pod.key for one in node.pods):
            return Prospect(new=node)
    for left in plan.unplaced:
        if left.pod.uid == pod.uid and left.pod.key == pod.key:
            return Prospect(refusals=left.refusals)
    return Prospect()
