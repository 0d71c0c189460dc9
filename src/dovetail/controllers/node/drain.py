"""The stages before a node's machine ends: its pods leave, then its volumes.

Each says when to look again, or None once it is over.
"""

from datetime import datetime, timedelta
from typing import Final

from dovetail.controllers.runtime.manager import Requeue
from dovetail.core.node.drain import Drain, claims_that_stay, drain, in_short, least_drain
from dovetail.core.nodeclaim.lifecycle import stated
from dovetail.core.pod.eligibility import is_active
from dovetail.model import labels as label_keys
from dovetail.model.karpenter.nodeclaim import NodeClaim
from dovetail.model.kube.conditions import FALSE, TRUE, UNKNOWN, Condition
from dovetail.model.node import NodeObject
from dovetail.ports.api_resources import NODES
from dovetail.ports.telemetry import Events, Metrics
from dovetail.state.cluster.cache import Mirror
from dovetail.state.cluster.decoders import VolumeAttachment
from dovetail.state.pods.evictions import Evictions

LOOK_AGAIN: Final = timedelta(seconds=30)
"""Pods and volumes that go are told of; this is for news that got lost, and for Events."""

_DRAINED, _DETACHED = "Drained", "VolumesDetached"
_HAS_PODS: Final = "pods are waiting to be evicted"
"""Message of Drained: it says after a restart that the node was not empty to begin with."""


class Progress:
    """A claim's conditions as a pass leaves them; without a claim nothing is kept."""

    def __init__(self, claim: NodeClaim | None, deadline: datetime | None, now: datetime) -> None:
        self.before = self.claim = claim
        self.deadline = deadline
        """When draining must be over."""
        self.now = now

    def get(self, kind: str) -> Condition | None:
        return None if self.claim is None else self.claim.conditions.get(kind)

    def set(self, kind: str, status: str, reason: str = "", message: str = "") -> None:
        if self.claim is not None:
            self.claim = stated(self.claim, self.now, kind, status, reason, message)


class Stages:
    """What is done before the machine ends, in this order."""

    def __init__(
        self, *, mirror: Mirror, evictions: Evictions, events: Events, metrics: Metrics
    ) -> None:
        self._mirror = mirror
        self._evictions = evictions
        self._events = events
        self._metrics = metrics

    def drain(self, node: NodeObject, progress: Progress) -> Requeue | None:
        """Have the pods leave whose turn it is; over when none is left and none is on its way."""
        now, deadline = progress.now, progress.deadline
        state = drain(self._mirror.pods_on(node.name), deadline=deadline, now=now)
        for pod in state.turn:
            self._evictions.add(pod, deadline=deadline)
        begun = progress.get(_DRAINED)
        if begun is None or (begun.status == UNKNOWN and state.waiting and not begun.message):
            progress.set(_DRAINED, UNKNOWN, "Draining", _HAS_PODS if state.waiting else "")
            begun = progress.get(_DRAINED)
        if state.waiting:
            return self._wait_for_pods(node, state, now)
        if progress.claim is None or begun is None or begun.status == TRUE:
            return None
        least = least_drain(
            progress.claim,
            had_pods=bool(begun.message),
            somebody_waits=any(is_active(pod) for pod in self._mirror.unbound_pods()),
            now=now,
        )
        ends = (begun.since or now) + least
        if now < ends:
            return Requeue(ends - now)
        progress.set(_DRAINED, TRUE)
        self._metrics.count(
            "karpenter_nodes_drained_total", nodepool=node.labels.get(label_keys.NODEPOOL, "")
        )
        return None

    def _wait_for_pods(self, node: NodeObject, state: Drain, now: datetime) -> Requeue:
        self._events.publish(
            NODES,
            node.name,
            uid=node.uid,
            reason="FailedDraining",
            message=f"{len(state.waiting)} pod(s) are still to leave: {in_short(state.waiting)}",
            warning=True,
            same=(node.name,),
        )
        return _again(now, state.changes_at)

    def detach(self, node: NodeObject, progress: Progress) -> Requeue | None:
        """Wait until the volumes of pods that left are off the node, or the time is up."""
        now, deadline = progress.now, progress.deadline
        left = self._attached(node, now)
        if not left:
            progress.set(_DETACHED, TRUE)
            return None
        if deadline is not None and now > deadline:
            progress.set(_DETACHED, FALSE, "TerminationGracePeriodElapsed")
            return None
        names = sorted(one.name for one in left)
        more = f" and {len(names) - 5} more" if len(names) > 5 else ""
        self._events.publish(
            NODES,
            node.name,
            uid=node.uid,
            reason="AwaitingVolumeDetachment",
            message=f"Waiting for volume attachments to go: {', '.join(names[:5])}{more}",
            same=(node.name,),
        )
        progress.set(_DETACHED, UNKNOWN, "AwaitingVolumeDetachment")
        # A moment after: at the deadline itself there is still time.
        return _again(now, deadline and deadline + timedelta(milliseconds=1))

    def _attached(self, node: NodeObject, now: datetime) -> list[VolumeAttachment]:
        attachments = [one for one in self._mirror.attachments_on(node.name) if one.volume]
        if not attachments:
            return []
        stays = set()
        for namespace, name in claims_that_stay(self._mirror.pods_on(node.name), now):
            found = self._mirror.volume_claim(namespace, name)
            if found is not None:
                stays.add(found.volume)
        return [one for one in attachments if one.volume not in stays]


def _again(now: datetime, at: datetime | None) -> Requeue:
    return Requeue(LOOK_AGAIN if at is None else max(min(at - now, LOOK_AGAIN), timedelta()))
