"""Drain: order of eviction, forced deletion before the deadline, minimum drain time."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Final

import msgspec

from dovetail.core.pod.eligibility import STUCK_AFTER, is_active, is_drainable, is_evictable
from dovetail.errors import DovetailError
from dovetail.model import labels as label_keys
from dovetail.model.karpenter.nodeclaim import NodeClaim
from dovetail.model.kube.pod import Pod

LONG_DRAIN_TIME: Final = timedelta(seconds=5)
"""kube-scheduler may bind a pod before it sees the taint; the pod is visible by then."""
SHORT_DRAIN_TIME: Final = timedelta(seconds=1)
"""Enough without pending pods: pods created from now on are scheduled after the taint."""
MIN_GRACE_SECONDS: Final = 1
"""With 0 the API server removes a pod at once, while its containers still run."""

_CRITICAL: Final = frozenset({"system-cluster-critical", "system-node-critical"})
_EPSILON: Final = timedelta(microseconds=1)


class DrainStatus(msgspec.Struct, frozen=True):
    """Progress of a drain."""

    remaining: tuple[Pod, ...] = ()
    """Pods that must be gone before the node is drained."""
    to_evict: tuple[Pod, ...] = ()
    """Pods of the current tier, and pods to delete by force."""
    changes_at: datetime | None = None
    """When time alone changes the result."""


class EvictionAction(StrEnum):
    """Action for a pod that is to be evicted."""

    EVICT = "evict"
    DELETE = "force"
    WAIT = "wait"
    NONE = "nothing"


def plan_drain(pods: Iterable[Pod], *, deadline: datetime | None, now: datetime) -> DrainStatus:
    """Return the pods to wait for, and those to evict now.

    Pods are evicted in tiers, each after the one before is gone: non-critical
    before critical pods, and DaemonSet pods after the pods that they serve. Pods
    that could not terminate before the deadline are deleted whatever their tier.
    """
    waiting = [pod for pod in pods if not pod.is_terminal and is_drainable(pod, now)]
    if not waiting:
        return DrainStatus()
    forced = [pod for pod in waiting if choose_eviction_action(pod, deadline, now) is EvictionAction.DELETE]
    made_to_go = {pod.uid for pod in forced}
    others = [pod for pod in waiting if pod.uid not in made_to_go]
    first = min((_get_tier(pod) for pod in others), default=0)
    turn = [pod for pod in others if _get_tier(pod) == first and is_active(pod)]
    return DrainStatus(
        remaining=tuple(waiting),
        to_evict=(*forced, *turn),
        changes_at=min(_get_change_times(waiting, deadline, now), default=None),
    )


def choose_eviction_action(pod: Pod, deadline: datetime | None, now: datetime) -> EvictionAction:
    """Return the action for a pod that is to be evicted."""
    starts = get_force_time(pod, deadline, now)
    if starts is not None and starts <= now:
        return EvictionAction.DELETE
    if not is_active(pod):
        return EvictionAction.NONE
    return EvictionAction.EVICT if is_evictable(pod, now) else EvictionAction.WAIT


def get_force_time(pod: Pod, deadline: datetime | None, now: datetime) -> datetime | None:
    """Return when a pod must be deleted to be gone by the deadline.

    A terminating pod is deleted again only if that shortens its grace period.
    """
    if deadline is None:
        return None
    if not is_active(pod):
        ends = pod.deleted_at
        hurried = now + timedelta(seconds=get_forced_grace_seconds(deadline, now))
        return now if ends is not None and ends > deadline and ends > hurried else None
    if pod.termination_grace_period_seconds is None:
        return None
    return deadline - timedelta(seconds=pod.termination_grace_period_seconds)


def get_forced_grace_seconds(deadline: datetime, now: datetime) -> int:
    """Return the grace period in seconds of a pod deleted by force."""
    return max(int((deadline - now).total_seconds()), MIN_GRACE_SECONDS)


def get_min_drain_time(
    claim: NodeClaim, *, had_pods: bool, has_pending_pods: bool, now: datetime
) -> timedelta:
    """Return the minimum drain time, even of a node without pods.

    Karpenter always waits the longer time. It is needed only if a pod may be
    binding to the node: there are pending pods, or a recent pod event.
    """
    just_now = claim.last_pod_event is not None and now < claim.last_pod_event + LONG_DRAIN_TIME
    return LONG_DRAIN_TIME if had_pods or has_pending_pods or just_now else SHORT_DRAIN_TIME


def get_undrained_volume_claims(pods: Iterable[Pod], now: datetime) -> Iterator[tuple[str, str]]:
    """Yield the volume claims (namespace, name) of pods that are not drained.

    Such pods keep their volumes until the instance terminates, so that termination
    does not wait for these volumes to be detached.
    """
    for pod in pods:
        if pod.spec.volumes and not is_drainable(pod, now):
            for volume in pod.spec.volumes:
                yield pod.namespace, volume.claim


def decode_termination_deadline(claim: NodeClaim) -> datetime | None:
    """Return the deadline of the drain from a NodeClaim's annotation, or None."""
    text = claim.annotations.get(label_keys.TERMINATION_TIMESTAMP)
    if text is None:
        return None
    try:
        read = datetime.fromisoformat(text)
    except ValueError as error:
        raise DovetailError(
            f"nodeclaim {claim.name}: annotation {label_keys.TERMINATION_TIMESTAMP} is not a timestamp: "
            f"{text!r}; its node is not drained until the annotation is corrected"
        ) from error
    return read if read.tzinfo else read.replace(tzinfo=UTC)


def format_pods(pods: Sequence[Pod], limit: int = 5) -> str:
    """Return the first pods by name and the number of the others."""
    named = ", ".join(sorted(pod.key for pod in pods)[:limit])
    return f"{named} and {len(pods) - limit} more" if len(pods) > limit else named


def _get_tier(pod: Pod) -> int:
    return 2 * (pod.priority_class in _CRITICAL) + pod.is_owned_by_daemon_set


def _get_change_times(pods: Iterable[Pod], deadline: datetime | None, now: datetime) -> Iterator[datetime]:
    for pod in pods:
        if pod.deleted_at is not None:
            yield pod.deleted_at + STUCK_AFTER + _EPSILON
        forced = get_force_time(pod, deadline, now)
        if forced is not None and forced > now:
            yield forced
