"""Drain stages of a node: pods are evicted, then volumes are detached.

A stage returns when to reconcile again, or None when it is complete.
"""

from datetime import datetime, timedelta
from typing import Final

from dovetail.controllers.context import ControllerBase, ControllerContext
from dovetail.controllers.event_reasons import AWAITING_VOLUME_DETACHMENT, FAILED_DRAINING
from dovetail.controllers.runtime.manager import RequeueAfter
from dovetail.core.node.drain import (
    DrainStatus,
    format_pods,
    get_min_drain_time,
    get_undrained_volume_claims,
    plan_drain,
)
from dovetail.core.nodeclaim.lifecycle import set_claim_condition
from dovetail.core.pod.eligibility import is_active
from dovetail.core.provisioning import format_names
from dovetail.model import labels as label_keys
from dovetail.model.karpenter.condition_types import DRAINED, VOLUMES_DETACHED
from dovetail.model.karpenter.nodeclaim import NodeClaim
from dovetail.model.kube.conditions import FALSE, TRUE, UNKNOWN, Condition
from dovetail.model.node import NodeObject
from dovetail.ports.metrics import NODES_DRAINED, NodePoolLabels
from dovetail.state.cluster.decoders import VolumeAttachment

RESYNC_INTERVAL: Final = timedelta(seconds=30)
"""Watch events trigger reconciles; this is for lost events, and repeats Events."""

_HAS_PODS: Final = "pods are waiting to be evicted"
"""Message of Drained; after a restart, it shows that the node had pods."""


class DrainProgress:
    """Conditions of a NodeClaim during one reconcile; dropped if there is no NodeClaim."""

    def __init__(self, claim: NodeClaim | None, deadline: datetime | None, now: datetime) -> None:
        self.before = self.claim = claim
        self.deadline = deadline
        """When the drain must end."""
        self.now = now

    def get(self, condition_type: str) -> Condition | None:
        return None if self.claim is None else self.claim.conditions.get(condition_type)

    def set(self, condition_type: str, status: str, reason: str = "", message: str = "") -> None:
        if self.claim is not None:
            self.claim = set_claim_condition(self.claim, self.now, condition_type, status, reason, message)


class DrainStages(ControllerBase):
    """The stages before the instance is terminated."""

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._evictions = context.evictions

    def evict_pods(self, node: NodeObject, progress: DrainProgress) -> RequeueAfter | None:
        """Evict pods in the order of their priority; complete when none remains.

        An empty node waits for the minimum drain time: pods that were bound before
        the taint may still appear in the cache.
        """
        now, deadline = progress.now, progress.deadline
        state = plan_drain(self._cache.pods_on(node.name), deadline=deadline, now=now)
        for pod in state.to_evict:
            self._evictions.add(pod, deadline=deadline)
        drained = progress.get(DRAINED)
        if drained is None or (drained.status == UNKNOWN and state.remaining and not drained.message):
            progress.set(DRAINED, UNKNOWN, "Draining", _HAS_PODS if state.remaining else "")
            drained = progress.get(DRAINED)
        if state.remaining:
            return self._wait_for_pods(node, state, now)
        if progress.claim is None or drained is None or drained.status == TRUE:
            return None
        min_time = get_min_drain_time(
            progress.claim,
            had_pods=bool(drained.message),
            has_pending_pods=any(is_active(pod) for pod in self._cache.unbound_pods()),
            now=now,
        )
        ends_at = (drained.last_transition_time or now) + min_time
        if now < ends_at:
            return RequeueAfter(ends_at - now)
        progress.set(DRAINED, TRUE)
        self._metrics.inc(NODES_DRAINED, NodePoolLabels(nodepool=node.labels.get(label_keys.NODEPOOL, "")))
        return None

    def _wait_for_pods(self, node: NodeObject, state: DrainStatus, now: datetime) -> RequeueAfter:
        self._events.publish(
            node,
            FAILED_DRAINING,
            f"Failed to drain node, {len(state.remaining)} pod(s) are waiting to be evicted: "
            f"{format_pods(state.remaining)}",
            dedupe_key=(node.name,),
        )
        return _requeue_at(now, state.changes_at)

    def wait_for_volumes(self, node: NodeObject, progress: DrainProgress) -> RequeueAfter | None:
        """Wait until volumes of drained pods are detached, or until the deadline."""
        now, deadline = progress.now, progress.deadline
        attached = self._get_attached(node, now)
        if not attached:
            progress.set(VOLUMES_DETACHED, TRUE)
            return None
        if deadline is not None and now > deadline:
            progress.set(VOLUMES_DETACHED, FALSE, "TerminationGracePeriodElapsed")
            return None
        names = format_names(sorted(attachment.name for attachment in attached))
        self._events.publish(
            node,
            AWAITING_VOLUME_DETACHMENT,
            f"Awaiting deletion of bound volumeattachments: {names}",
            dedupe_key=(node.name,),
        )
        progress.set(VOLUMES_DETACHED, UNKNOWN, "AwaitingVolumeDetachment")
        # Just after the deadline: at the deadline itself, detaching is still awaited.
        return _requeue_at(now, deadline and deadline + timedelta(milliseconds=1))

    def _get_attached(self, node: NodeObject, now: datetime) -> list[VolumeAttachment]:
        attachments = [
            attachment for attachment in self._cache.attachments_on(node.name) if attachment.volume
        ]
        if not attachments:
            return []
        kept_volumes = set()
        for namespace, name in get_undrained_volume_claims(self._cache.pods_on(node.name), now):
            volume_claim = self._cache.volume_claim(namespace, name)
            if volume_claim is not None:
                kept_volumes.add(volume_claim.volume)
        return [attachment for attachment in attachments if attachment.volume not in kept_volumes]


def _requeue_at(now: datetime, at: datetime | None) -> RequeueAfter:
    return RequeueAfter(RESYNC_INTERVAL if at is None else max(min(at - now, RESYNC_INTERVAL), timedelta()))
