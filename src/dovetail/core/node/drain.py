"""How a node is emptied: who waits, who goes first, who is made to go and when."""

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

DRAIN_LONG: Final = timedelta(seconds=5)
"""A scheduler that has not heard of the taint yet may still bind a pod: it is seen by then."""
DRAIN_SHORT: Final = timedelta(seconds=1)
"""Enough where no pod waits for a node: whoever comes now is scheduled after the taint."""
LEAST_GRACE: Final = 1
"""Seconds. With 0 the API server forgets a pod at once, while its containers still run."""

_CRITICAL: Final = frozenset({"system-cluster-critical", "system-node-critical"})
_INSTANT: Final = timedelta(microseconds=1)


class Drain(msgspec.Struct, frozen=True):
    """Where draining a node stands."""

    waiting: tuple[Pod, ...] = ()
    """Who must have gone before the node is drained."""
    turn: tuple[Pod, ...] = ()
    """Those of them who are to be asked to go now."""
    changes_at: datetime | None = None
    """When this will differ by the passing of time alone."""


class Way(StrEnum):
    """What to do about a pod whose turn it is."""

    EVICT = "evict"
    FORCE = "force"
    WAIT = "wait"
    NOTHING = "nothing"


def drain(pods: Iterable[Pod], *, deadline: datetime | None, now: datetime) -> Drain:
    """Say which pods are waited for and whose turn it is.

    Pods go in tiers, a tier only when the one before it has gone: what is not
    critical before what is, DaemonSets' after the others that they serve. Those
    who could not end in time otherwise go at once, whatever their tier.
    """
    waiting = [pod for pod in pods if not pod.terminal and is_drainable(pod, now)]
    if not waiting:
        return Drain()
    forced = [pod for pod in waiting if way(pod, deadline, now) is Way.FORCE]
    made_to_go = {pod.uid for pod in forced}
    others = [pod for pod in waiting if pod.uid not in made_to_go]
    first = min((_tier(pod) for pod in others), default=0)
    turn = [pod for pod in others if _tier(pod) == first and is_active(pod)]
    return Drain(
        waiting=tuple(waiting),
        turn=(*forced, *turn),
        changes_at=min(_changes(waiting, deadline, now), default=None),
    )


def way(pod: Pod, deadline: datetime | None, now: datetime) -> Way:
    """Say what to do about a pod whose turn it is."""
    starts = force_at(pod, deadline, now)
    if starts is not None and starts <= now:
        return Way.FORCE
    if not is_active(pod):
        return Way.NOTHING
    return Way.EVICT if is_evictable(pod, now) else Way.WAIT


def force_at(pod: Pod, deadline: datetime | None, now: datetime) -> datetime | None:
    """Tell when a pod must be made to go in order to be gone by the deadline.

    One that is going already is hurried only where that makes a difference.
    """
    if deadline is None:
        return None
    if not is_active(pod):
        ends = pod.deleted_at
        hurried = now + timedelta(seconds=force_grace(deadline, now))
        return now if ends is not None and ends > deadline and ends > hurried else None
    if pod.grace_seconds is None:
        return None
    return deadline - timedelta(seconds=pod.grace_seconds)


def force_grace(deadline: datetime, now: datetime) -> int:
    """Return the seconds a pod that is made to go has left."""
    return max(int((deadline - now).total_seconds()), LEAST_GRACE)


def least_drain(
    claim: NodeClaim, *, had_pods: bool, somebody_waits: bool, now: datetime
) -> timedelta:
    """Return how long a node must have been draining, even when it has no pods.

    The reference waits the longer time always. It is needed only where a pod
    could be on its way to the node: one has no node yet, or one came or went
    only just now.
    """
    just_now = claim.last_pod_event is not None and now < claim.last_pod_event + DRAIN_LONG
    return DRAIN_LONG if had_pods or somebody_waits or just_now else DRAIN_SHORT


def claims_that_stay(pods: Iterable[Pod], now: datetime) -> Iterator[tuple[str, str]]:
    """Name the volume claims (namespace, name) that go down with the node.

    Pods that are not drained hold on to their volumes; nobody waits for those.
    """
    for pod in pods:
        if pod.spec.volumes and not is_drainable(pod, now):
            for volume in pod.spec.volumes:
                yield pod.namespace, volume.claim


def deadline_of(claim: NodeClaim) -> datetime | None:
    """Read when draining a claim's node must be over."""
    text = claim.annotations.get(label_keys.TERMINATION_TIMESTAMP)
    if text is None:
        return None
    try:
        read = datetime.fromisoformat(text)
    except ValueError as error:
        raise DovetailError(
            f"nodeclaim {claim.name}: annotation {label_keys.TERMINATION_TIMESTAMP} is no time: "
            f"{text!r}; its node is not drained until that is mended"
        ) from error
    return read if read.tzinfo else read.replace(tzinfo=UTC)


def in_short(pods: Sequence[Pod], most: int = 5) -> str:
    """Name some pods for people."""
    named = ", ".join(sorted(pod.key for pod in pods)[:most])
    return f"{named} and {len(pods) - most} more" if len(pods) > most else named


def _tier(pod: Pod) -> int:
    return 2 * (pod.priority_class in _CRITICAL) + pod.of_daemon_set


def _changes(pods: Iterable[Pod], deadline: datetime | None, now: datetime) -> Iterator[datetime]:
    for pod in pods:
        if pod.deleted_at is not None:
            yield pod.deleted_at + STUCK_AFTER + _INSTANT
        forced = force_at(pod, deadline, now)
        if forced is not None and forced > now:
            yield forced
