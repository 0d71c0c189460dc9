"""When a node's pods last changed, and when it has been quiet for long enough."""

from datetime import datetime, timedelta
from typing import Final

from dovetail.core.nodeclaim.lifecycle import INITIALIZED
from dovetail.model.karpenter.nodeclaim import NodeClaim
from dovetail.model.kube.conditions import is_true
from dovetail.model.kube.pod import Pod

SPACING: Final = timedelta(seconds=10)
"""Events closer together are one; less than the 15 s after which decisions are checked again."""


def stirs(before: Pod | None, after: Pod | None) -> bool:
    """Tell whether a change of a pod is news for the node it is on."""
    if after is None or not after.node_name or after.of_daemon_set:
        return False
    if before is None:
        return True
    return (
        before.node_name != after.node_name
        or (after.terminal and not before.terminal)
        or (after.deleting and not before.deleting)
    )


def noted_before(pod: Pod, claim: NodeClaim) -> bool:
    """Tell whether a pod that we see for the first time had come before the last event.

    After a restart every pod is seen for the first time. That is no reason to
    think that it has just come.
    """
    if claim.last_pod_event is None or pod.deleting or pod.terminal:
        return claim.last_pod_event is not None
    came = max((at for at in (pod.created, pod.started) if at is not None), default=None)
    return came is not None and came <= claim.last_pod_event


def worth_noting(claim: NodeClaim, now: datetime) -> bool:
    """Tell whether an event now is far enough from the last one."""
    return claim.last_pod_event is None or now - claim.last_pod_event >= SPACING


def quiet_at(claim: NodeClaim, consolidate_after: timedelta | None) -> datetime | None:
    """Tell from when on a node may be consolidated; None: not at all as things stand."""
    if consolidate_after is None or not is_true(claim.conditions, INITIALIZED):
        return None
    since = claim.last_pod_event or claim.conditions[INITIALIZED].since
    return None if since is None else since + consolidate_after
