"""Gives a node back: marks it, drains it, lets its volumes go, ends its machine.

All that is known about how far this has come is on the node and its claim, so
that it goes on from there after a restart. The node's finalizer is the last to go.
"""

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Final

from dovetail.codec.conditions import show_conditions
from dovetail.codec.tainting import with_taint
from dovetail.controllers.runtime import Registration, Requeue
from dovetail.core import conditions as rules
from dovetail.core.draining import (
    Drain,
    claims_that_stay,
    deadline_of,
    drain,
    in_short,
    least_drain,
)
from dovetail.core.podrules import is_active
from dovetail.model import labels as label_keys
from dovetail.model.conditions import FALSE, NO_CONDITIONS, TRUE, UNKNOWN, Condition
from dovetail.model.nodeclaim import NodeClaim
from dovetail.model.nodes import NodeObject
from dovetail.model.taints import DISRUPTED
from dovetail.ports.cloud import Cloud, InstanceNotFound
from dovetail.ports.kube import Kube
from dovetail.ports.kubeerrors import NotFound
from dovetail.ports.loop import Clock
from dovetail.ports.resources import NODE_CLAIMS, NODES, PODS, VOLUME_ATTACHMENTS
from dovetail.ports.telemetry import Events, Log, Metrics
from dovetail.state.decoding import VolumeAttachment
from dovetail.state.evictions import Evictions
from dovetail.state.mirror import Change, Mirror

NAME: Final = "node.termination"
LOOK_AGAIN: Final = timedelta(seconds=30)
"""Pods and volumes that go are told of; this is for news that got lost, and for Events."""
POLL_SOON: Final = timedelta(seconds=1)
POLL_LATE: Final = timedelta(seconds=5)
SOON: Final = timedelta(seconds=10)
"""A machine that does not end so soon will take its time; the cloud's API is not free."""

_BALANCERS: Final = (label_keys.EXCLUDED_FROM_BALANCERS, "karpenter")
_DRAINED, _DETACHED, _ENDING = "Drained", "VolumesDetached", "InstanceTerminating"
_HAS_PODS: Final = "pods are waiting to be evicted"
"""Message of Drained: it says after a restart that the node was not empty to begin with."""


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
        self._evictions = evictions
        self._log = log
        self._events = events
        self._metrics = metrics

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
        await self._mark(node)
        record = _Record(claim, now)
        try:
            again = (
                self._drain(node, record, deadline)
                or self._detach(node, record, deadline)
                or await self._end_machine(record)
            )
        finally:
            # Also when the machine cannot be ended: the stages before that are over.
            await self._write(record)
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

    async def _mark(self, node: NodeObject) -> None:
        """Keep new pods and new connections away."""
        key, value = _BALANCERS
        if DISRUPTED in node.taints and node.labels.get(key) == value:
            return
        found = await self._kube.get(NODES, node.name)
        await self._kube.patch(
            NODES,
            node.name,
            {
                "metadata": {
                    "resourceVersion": found["metadata"]["resourceVersion"],
                    "labels": {key: value},
                },
                "spec": {"taints": with_taint(found, DISRUPTED)},
            },
        )
        if DISRUPTED not in node.taints:
            self._log.info("tainted node", node=node.name, taint=str(DISRUPTED))

    def _drain(
        self, node: NodeObject, record: "_Record", deadline: datetime | None
    ) -> Requeue | None:
        state = drain(self._mirror.pods_on(node.name), deadline=deadline, now=record.now)
        for pod in state.turn:
            self._evictions.add(pod, deadline=deadline)
        begun = record.begin(_DRAINED, "Draining", _HAS_PODS if state.waiting else "")
        if state.waiting:
            return self._wait_for_pods(node, state, record.now)
        if record.claim is None or begun.status == TRUE:
            return None
        least = least_drain(
            record.claim,
            had_pods=begun.message == _HAS_PODS,
            somebody_waits=any(is_active(pod) for pod in self._mirror.unbound_pods()),
            now=record.now,
        )
        ends = (begun.since or record.now) + least
        if record.now < ends:
            return Requeue(ends - record.now)
        record.set(_DRAINED, TRUE)
        self._metrics.count("karpenter_nodes_drained_total", nodepool=_pool(node))
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

    def _detach(
        self, node: NodeObject, record: "_Record", deadline: datetime | None
    ) -> Requeue | None:
        left = self._attached(node, record.now)
        if not left:
            record.set(_DETACHED, TRUE)
            return None
        if deadline is not None and record.now > deadline:
            record.set(_DETACHED, FALSE, "TerminationGracePeriodElapsed")
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
        record.set(_DETACHED, UNKNOWN, "AwaitingVolumeDetachment")
        # A moment after: at the deadline itself there is still time.
        return _again(record.now, deadline and deadline + timedelta(milliseconds=1))

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

    async def _end_machine(self, record: "_Record") -> Requeue | None:
        if record.claim is None:
            return None  # Whose machine it is has to be settled by those who look after machines.
        try:
            await self._cloud.delete(record.claim.provider_id)
        except InstanceNotFound:
            record.set(_ENDING, TRUE)
            return None
        record.set(_ENDING, TRUE)
        since = record.known[_ENDING].since or record.now
        return Requeue(POLL_SOON if record.now < since + SOON else POLL_LATE)

    async def _write(self, record: "_Record") -> None:
        claim = record.claim
        if claim is None or record.known == claim.conditions:
            return
        try:
            await self._kube.patch(
                NODE_CLAIMS,
                claim.name,
                {
                    "metadata": {"resourceVersion": claim.resource_version},
                    "status": {"conditions": show_conditions(record.known)},
                },
                subresource="status",
            )
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


class _Record:
    """The claim's conditions as this pass leaves them; without a claim nothing is kept."""

    def __init__(self, claim: NodeClaim | None, now: datetime) -> None:
        self.claim = claim
        self.now = now
        self.known = NO_CONDITIONS if claim is None else claim.conditions

    def begin(self, kind: str, reason: str, message: str) -> Condition:
        """Have a condition that is not settled yet; what its message says stays said."""
        found = self.known.get(kind)
        if found is None or (found.status == UNKNOWN and message and found.message != message):
            self.set(kind, UNKNOWN, reason, message)
        return self.known.get(kind, Condition())

    def set(self, kind: str, status: str, reason: str = "", message: str = "") -> None:
        claim = self.claim
        if claim is None:
            return
        subject = rules.Subject(
            family=rules.CLAIM,
            now=self.now,
            created=claim.created,
            generation=claim.generation,
            deleting=True,
        )
        self.known = rules.changed(
            self.known, subject, kind, status, reason=reason, message=message
        )


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


def _again(now: datetime, at: datetime | None) -> Requeue:
    return Requeue(LOOK_AGAIN if at is None else max(min(at - now, LOOK_AGAIN), timedelta()))


def registration(
    *,
    mirror: Mirror,
    kube: Kube,
    cloud: Cloud,
    loop: Clock,
    evictions: Evictions,
    log: Log,
    events: Events,
    metrics: Metrics,
) -> Registration:
    """Return the controller as the runtime takes it."""
    controller = Termination(
        mirror=mirror,
        kube=kube,
        cloud=cloud,
        loop=loop,
        evictions=evictions,
        log=log,
        events=events,
        metrics=metrics,
    )
    return Registration(
        name=NAME,
        controller=controller,
        watches=(
            (NODES, controller.on_node),
            (NODE_CLAIMS, controller.on_claim),
            (PODS, controller.on_pod),
            (VOLUME_ATTACHMENTS, controller.on_attachment),
        ),
    )
