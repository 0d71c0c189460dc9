"""Node termination: taint, drain, detach volumes, terminate the instance.

Progress is recorded in conditions of the NodeClaim, so that termination
continues after a restart. The Node's finalizer is removed last.

Who terminates an instance when::

    expiration, repair, interruption, disruption,        kubectl delete node
    timeouts, kubectl delete nodeclaim                            |
          | NodeClaim deleted                                     | Node deleted
          v                                                       v
    nodeclaim.lifecycle (finalizer) ---- deletes Nodes ---> node.termination
          |                                                       | deletes the NodeClaim,
          | no Node was registered,                               | taints, drains, waits
          | or all Nodes are gone                                 | for volumes
          v                                                       v
    terminates the instance                              terminates the instance,
    (mostly gone already),                               removes the Node's finalizer
    removes the NodeClaim's finalizer                    once the instance is gone

An instance without NodeClaim is terminated by ``instance.garbagecollection``. No
other controller terminates instances: they delete the NodeClaim, with
``nodeclaim_deletion.py``.
"""

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Final

from dovetail.controllers.context import ControllerBase, ControllerContext
from dovetail.controllers.disrupted_taint import add_disrupted_taint
from dovetail.controllers.event_reasons import TERMINATION_GRACE_PERIOD_EXPIRING
from dovetail.controllers.node.drain import DrainProgress, DrainStages
from dovetail.controllers.patches import write_claim_status
from dovetail.controllers.runtime.manager import Controller, RequeueAfter, is_unchanged
from dovetail.core.node.drain import decode_termination_deadline
from dovetail.errors import DovetailError
from dovetail.model import labels as label_keys
from dovetail.model.karpenter.condition_types import INSTANCE_TERMINATING
from dovetail.model.karpenter.nodeclaim import NodeClaim
from dovetail.model.kube.conditions import TRUE
from dovetail.model.node import NodeObject
from dovetail.ports.api_resources import NODE_CLAIMS, NODES, PODS, VOLUME_ATTACHMENTS
from dovetail.ports.cloudprovider import InstanceNotFoundError
from dovetail.ports.kube_errors import NotFound
from dovetail.ports.metrics import (
    NODES_LIFETIME_DURATION,
    NODES_TERMINATED,
    NODES_TERMINATION_DURATION,
    NodeLabels,
    NodePoolLabels,
)
from dovetail.state.cluster.cache import ObjectChange

NAME: Final = "node.termination"
FAST_POLL: Final = timedelta(seconds=1)
SLOW_POLL: Final = timedelta(seconds=5)
FAST_POLL_PERIOD: Final = timedelta(seconds=10)
"""After this time, the instance is polled less often, to save API calls."""

_LOAD_BALANCER_LABELS: Final = {label_keys.EXCLUDE_FROM_LOAD_BALANCERS: "karpenter"}


class TerminationController(ControllerBase):
    """Terminates one deleted node per key."""

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._drain = DrainStages(context)

    async def reconcile(self, name: str) -> RequeueAfter | None:
        """Advance the termination of a deleted node."""
        # Observe.
        now = self._loop.now()
        node = self._cache.node(name)
        if node is None or not _is_terminating(node):
            return None
        claim = await self._get_deleting_claim(node)
        if not node.ready and await self._is_instance_gone(node):
            await self._remove_finalizer(node, now)
            return None
        deadline = decode_termination_deadline(claim) if claim is not None else None
        if deadline is not None:
            self._publish_deadline(node, deadline)

        # Act: each stage returns None when it is complete, else when to reconcile again.
        await add_disrupted_taint(self._context, node, _LOAD_BALANCER_LABELS)
        progress = DrainProgress(claim, deadline, now)
        try:
            requeue = (
                self._drain.evict_pods(node, progress)
                or self._drain.wait_for_volumes(node, progress)
                or await self._terminate_instance(progress)
            )
        except DovetailError:
            # Record the completed stages; only the instance termination is retried.
            await self._write_conditions(progress)
            raise
        await self._write_conditions(progress)
        if requeue is not None:
            return requeue
        await self._remove_finalizer(node, now)
        return None

    async def _get_deleting_claim(self, node: NodeObject) -> NodeClaim | None:
        """Return the node's NodeClaim, after deleting it if needed; None if ambiguous.

        The deletion is not counted as disruption: a user has deleted the Node.
        """
        claims = self._cache.claims_of(node.provider_id)
        if len(claims) != 1:
            return None
        (claim,) = claims
        if claim.deleting:
            return claim
        try:
            await self._kube.delete(NODE_CLAIMS, claim.name, uid=claim.uid)
        except NotFound:
            return None
        return self._cache.claim(claim.name)

    async def _is_instance_gone(self, node: NodeObject) -> bool:
        if not node.provider_id:
            return False
        try:
            await self._cloud_provider.get(node.provider_id)
        except InstanceNotFoundError:
            return True
        return False

    def _publish_deadline(self, node: NodeObject, deadline: datetime) -> None:
        self._events.publish(
            node,
            TERMINATION_GRACE_PERIOD_EXPIRING,
            f"All pods will be deleted by {deadline:%Y-%m-%dT%H:%M:%SZ}",
        )

    async def _terminate_instance(self, progress: DrainProgress) -> RequeueAfter | None:
        claim, now = progress.claim, progress.now
        if claim is None:
            return None  # Garbage collection terminates instances without NodeClaim.
        try:
            await self._cloud_provider.delete(claim.provider_id)
        except InstanceNotFoundError:
            progress.set(INSTANCE_TERMINATING, TRUE)
            return None
        progress.set(INSTANCE_TERMINATING, TRUE)
        condition = progress.get(INSTANCE_TERMINATING)
        since = (condition and condition.last_transition_time) or now
        return RequeueAfter(FAST_POLL if now < since + FAST_POLL_PERIOD else SLOW_POLL)

    async def _write_conditions(self, progress: DrainProgress) -> None:
        if progress.before is not None and progress.claim is not None:
            await write_claim_status(self._kube, progress.before, progress.claim)

    async def _remove_finalizer(self, node: NodeObject, now: datetime) -> None:
        """Remove the finalizer, which completes the deletion of the Node."""
        latest = self._cache.node(node.name)
        if latest is None or latest.uid != node.uid:
            return
        remaining = [
            finalizer for finalizer in latest.finalizers if finalizer != label_keys.TERMINATION_FINALIZER
        ]
        metadata = {"finalizers": remaining, "resourceVersion": latest.resource_version}
        try:
            await self._kube.patch(NODES, node.name, {"metadata": metadata})
        except NotFound:
            return
        self._log.info("deleted node", node=node.name)
        self._metrics.inc(
            NODES_TERMINATED,
            NodeLabels(nodepool=_get_nodepool(node), zone=node.labels.get(label_keys.ZONE, "")),
        )
        for histogram, since in (
            (NODES_TERMINATION_DURATION, node.deleted_at),
            (NODES_LIFETIME_DURATION, node.created),
        ):
            if since is not None:
                seconds = (now - since).total_seconds()
                self._metrics.observe(histogram, seconds, NodePoolLabels(nodepool=_get_nodepool(node)))

    def handle_node(self, change: ObjectChange) -> Iterable[str]:
        """Reconcile a terminating node when it changes, without its heartbeats."""
        if change.new is not None and _is_terminating(change.new) and not is_unchanged(change, _get_state):
            yield change.new.name

    def handle_claim(self, change: ObjectChange) -> Iterable[str]:
        """Reconcile when a NodeClaim gets a deadline or is gone, not after own writes."""
        if is_unchanged(change, lambda claim: (claim.deleting, claim.annotations, claim.provider_id)):
            return
        for node in self._cache.nodes_of(change.latest.provider_id):
            yield from self._get_terminating(node.name)

    def handle_pod(self, change: ObjectChange) -> Iterable[str]:
        """Reconcile a draining node when one of its pods changes."""
        name = change.latest.node_name
        return self._get_terminating(name) if name else ()

    def handle_attachment(self, change: ObjectChange) -> Iterable[str]:
        """Reconcile a draining node when a volume is detached."""
        return self._get_terminating(change.old.node_name) if change.new is None else ()

    def _get_terminating(self, name: str) -> Iterable[str]:
        node = self._cache.node(name)
        return (name,) if node is not None and _is_terminating(node) else ()


def controller(context: ControllerContext) -> Controller:
    """Return the registration of this controller."""
    reconciler = TerminationController(context)
    return Controller(
        name=NAME,
        reconciler=reconciler,
        watches=(
            (NODES, reconciler.handle_node),
            (NODE_CLAIMS, reconciler.handle_claim),
            (PODS, reconciler.handle_pod),
            (VOLUME_ATTACHMENTS, reconciler.handle_attachment),
        ),
    )


def _is_terminating(node: NodeObject) -> bool:
    """Return True if a node is being deleted and has the finalizer of this controller."""
    return (
        node.deleting
        and label_keys.TERMINATION_FINALIZER in node.finalizers
        and label_keys.EC2_NODE_CLASS in node.labels
    )


def _get_state(node: NodeObject) -> tuple[object, ...]:
    return node.deleting, node.ready, node.finalizers, node.provider_id, node.uid


def _get_nodepool(node: NodeObject) -> str:
    return node.labels.get(label_keys.NODEPOOL, "")
