"""Gives a node back: marks it, drains it, lets its volumes go, ends its machine.

All that is known about how far this has come is on the node and its claim, so
that it goes on from there after a restart. The node's finalizer is the last to go.
"""

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Final

from dovetail.codec.patches.nodeclaims import status_patch
from dovetail.controllers.disrupted_taint import put_mark
from dovetail.controllers.node.drain import Progress, Stages
from dovetail.controllers.runtime.manager import Registration, Requeue
from dovetail.core.node.drain import deadline_of
from dovetail.errors import DovetailError
from dovetail.model import labels as label_keys
from dovetail.model.karpenter.nodeclaim import NodeClaim
from dovetail.model.kube.conditions import TRUE
from dovetail.model.node import NodeObject
from dovetail.ports.api_resources import NODE_CLAIMS, NODES, PODS, VOLUME_ATTACHMENTS
from dovetail.ports.cloudprovider import Cloud, InstanceNotFound
from dovetail.ports.event_loop import Clock
from dovetail.ports.kube_client import Kube
from dovetail.ports.kube_errors import NotFound
from dovetail.ports.telemetry import Events, Log, Metrics
from dovetail.state.cluster.cache import Change, Mirror
from dovetail.state.pods.evictions import Evictions

NAME: Final = "node.termination"
POLL_SOON: Final = timedelta(seconds=1)
POLL_LATE: Final = timedelta(seconds=5)
SOON: Final = timedelta(seconds=10)
"""A machine that does not end so soon will take its time; the cloud's API is not free."""

_NO_CONNECTIONS: Final = {label_keys.EXCLUDED_FROM_BALANCERS: "karpenter"}
_ENDING: Final = "InstanceTerminating"


class Termination:
    """One node at a time, from the mark for deletion to its end."""

    def __init__(
        self,
        *,
        mirror: Mirror,
        kube: Kube,
        cloud: Cloud,
        loop: Clock,
        evictions: Evictions,
        log: Log,
        events: Events,
        metrics: Metrics,
    ) -> None:
        self._mirror = mirror
        self._kube = kube
        self._cloud = cloud
        self._clock = loop
        self._stages = Stages(mirror=mirror, evictions=evictions, events=events, metrics=metrics)
        self._log = log
        self._events = events
        self._metrics = metrics

    def registration(self) -> Registration:
        """Have it told of nodes that go, and of what they wait for."""
        return Registration(
            name=NAME,
            controller=self,
            watches=(
                (NODES, self.on_node),
                (NODE_CLAIMS, self.on_claim),
                (PODS, self.on_pod),
                (VOLUME_ATTACHMENTS, self.on_attachment),
            ),
        )

    async def reconcile(self, name: str) -> Requeue | None:
        """Bring a node that is being deleted one step further."""
        # Observe.
        now = self._clock.now()
        node = self._mirror.node(name)
        if node is None or not _is_ours(node):
            return None
        claim = await self._claim_of(node)
        if not node.ready and await self._has_vanished(node):
            await self._let_go(node, now)
            return None
        deadline = deadline_of(claim) if claim is not None else None
        if deadline is not None:
            self._tell_deadline(node, deadline)

        # Act: each stage decides by rules of its own and says when to look again.
        await put_mark(node, _NO_CONNECTIONS, kube=self._kube, log=self._log)
        progress = Progress(claim, deadline, now)
        try:
            again = (
                self._stages.drain(node, progress)
                or self._stages.detach(node, progress)
                or await self._end_machine(progress)
            )
        except DovetailError:
            # The machine cannot be ended now, but the stages before that are over.
            await self._write(progress)
            raise
        await self._write(progress)
        if again is not None:
            return again
        await self._let_go(node, now)
        return None

    async def _claim_of(self, node: NodeObject) -> NodeClaim | None:
        """Return the node's claim, on its way out as well; None where it is not clear whose."""
        claims = self._mirror.claims_of(node.provider_id)
        if len(claims) != 1:
            return None
        (claim,) = claims
        if claim.deleting:
            return claim
        try:
            await self._kube.delete(NODE_CLAIMS, claim.name, uid=claim.uid)
        except NotFound:
            return None
        return self._mirror.claim(claim.name)

    async def _has_vanished(self, node: NodeObject) -> bool:
        if not node.provider_id:
            return False
        try:
            await self._cloud.get(node.provider_id)
        except InstanceNotFound:
            return True
        return False

    def _tell_deadline(self, node: NodeObject, deadline: datetime) -> None:
        self._events.publish(
            NODES,
            node.name,
            uid=node.uid,
            reason="TerminationGracePeriodExpiring",
            message=f"All pods will be deleted by {deadline:%Y-%m-%dT%H:%M:%SZ}",
            warning=True,
        )

    async def _end_machine(self, progress: Progress) -> Requeue | None:
        claim, now = progress.claim, progress.now
        if claim is None:
            return None  # Whose machine it is has to be settled by those who look after machines.
        try:
            await self._cloud.delete(claim.provider_id)
        except InstanceNotFound:
            progress.set(_ENDING, TRUE)
            return None
        progress.set(_ENDING, TRUE)
        noted = progress.get(_ENDING)
        since = now if noted is None or noted.since is None else noted.since
        return Requeue(POLL_SOON if now < since + SOON else POLL_LATE)

    async def _write(self, progress: Progress) -> None:
        before, after = progress.before, progress.claim
        if before is None or after is None or before.conditions == after.conditions:
            return
        patch = status_patch(before, after)
        try:
            await self._kube.patch(NODE_CLAIMS, before.name, patch, subresource="status")
        except NotFound:
            return  # Somebody took it away by force.

    async def _let_go(self, node: NodeObject, now: datetime) -> None:
        """Take the finalizer off; with that the node is gone."""
        latest = self._mirror.node(node.name)
        if latest is None or latest.uid != node.uid:
            return
        others = [one for one in latest.finalizers if one != label_keys.TERMINATION_FINALIZER]
        meta = {"finalizers": others, "resourceVersion": latest.resource_version}
        try:
            await self._kube.patch(NODES, node.name, {"metadata": meta})
        except NotFound:
            return
        self._log.info("deleted node", node=node.name)
        self._metrics.count(
            "karpenter_nodes_terminated_total",
            nodepool=_pool(node),
            zone=node.labels.get(label_keys.ZONE, ""),
        )
        for name, since in (
            ("karpenter_nodes_termination_duration_seconds", node.deleted_at),
            ("karpenter_nodes_lifetime_duration_seconds", node.created),
        ):
            if since is not None:
                self._metrics.observe(name, (now - since).total_seconds(), nodepool=_pool(node))

    # Who is to be looked at when something changes.

    def on_node(self, change: Change) -> Iterable[str]:
        """Look at nodes that begin to go; not at every beat of their hearts."""
        old, new = change.old, change.new
        if new is not None and _is_ours(new) and (old is None or _stand(old) != _stand(new)):
            yield new.name

    def on_claim(self, change: Change) -> Iterable[str]:
        """Look at a claim's nodes when its deadline changes or it is gone; not at our own notes."""
        old, new = change.old, change.new
        if old is not None and new is not None:
            if (old.deleting, old.annotations, old.provider_id) == (
                new.deleting,
                new.annotations,
                new.provider_id,
            ):
                return
        for node in self._mirror.nodes_of(change.either.provider_id):
            yield from self._if_going(node.name)

    def on_pod(self, change: Change) -> Iterable[str]:
        """Look at a node that drains when one of its pods moves."""
        name = change.either.node_name
        return self._if_going(name) if name else ()

    def on_attachment(self, change: Change) -> Iterable[str]:
        """Look at a node that drains when a volume has left it."""
        return self._if_going(change.old.node_name) if change.new is None else ()

    def _if_going(self, name: str) -> Iterable[str]:
        node = self._mirror.node(name)
        return (name,) if node is not None and _is_ours(node) else ()


def _is_ours(node: NodeObject) -> bool:
    """Tell whether a node is being deleted and it is for us to see to that."""
    return (
        node.deleting
        and label_keys.TERMINATION_FINALIZER in node.finalizers
        and label_keys.EC2_NODE_CLASS in node.labels
    )


def _stand(node: NodeObject) -> tuple[object, ...]:
    return node.deleting, node.ready, node.finalizers, node.provider_id, node.uid


def _pool(node: NodeObject) -> str:
    return node.labels.get(label_keys.NODEPOOL, "")
