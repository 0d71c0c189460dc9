"""Pod events of a NodeClaim, and the start of its consolidatability."""

from datetime import datetime, timedelta
from typing import Final

from dovetail.model.karpenter.condition_types import INITIALIZED
from dovetail.model.karpenter.nodeclaim import NodeClaim
from dovetail.model.kube.conditions import is_true
from dovetail.model.kube.pod import Pod

DEDUPE_INTERVAL: Final = timedelta(seconds=10)
"""Events closer together count as one; less than the 15 s validation delay of consolidation."""


def is_pod_event(before: Pod | None, after: Pod | None) -> bool:
    """Return True if a pod was bound, finished or started to terminate."""
    if after is None or not after.node_name or after.is_owned_by_daemon_set:
        return False
    if before is None:
        return True
    return (
        before.node_name != after.node_name
        or (after.is_terminal and not before.is_terminal)
        or (after.deleting and not before.deleting)
    )


def is_already_recorded(pod: Pod, claim: NodeClaim) -> bool:
    """Return True if a newly observed pod was bound before the last recorded event.

    After a restart every pod is newly observed, but not newly bound.
    """
    if claim.last_pod_event is None or pod.deleting or pod.is_terminal:
        return claim.last_pod_event is not None
    came = max((at for at in (pod.created, pod.start_time) if at is not None), default=None)
    return came is not None and came <= claim.last_pod_event


def should_record(claim: NodeClaim, now: datetime) -> bool:
    """Return True if the last event is old enough to record another one."""
    return claim.last_pod_event is None or now - claim.last_pod_event >= DEDUPE_INTERVAL


def get_consolidatable_time(claim: NodeClaim, consolidate_after: timedelta | None) -> datetime | None:
    """Return when a node becomes consolidatable; None: never, as things stand."""
    if consolidate_after is None or not is_true(claim.conditions, INITIALIZED):
        return None
    since = claim.last_pod_event or claim.conditions[INITIALIZED].last_transition_time
    return None if since is None else since + consolidate_after
