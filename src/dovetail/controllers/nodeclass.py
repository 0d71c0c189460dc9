"""Looks up what node classes select in the cloud, and says whether they can be bought from."""

from collections.abc import Iterable
from datetime import timedelta
from typing import Any, Final

from dovetail.codec.conditions import show_conditions
from dovetail.controllers.runtime import Registration, Requeue
from dovetail.core.nodeclasses import conditions_of
from dovetail.model.nodeclass import NodeClass
from dovetail.ports.cloud import Cloud
from dovetail.ports.kube import Kube, Object
from dovetail.ports.kubeerrors import NotFound
from dovetail.ports.loop import Clock, Loop
from dovetail.ports.resources import EC2_NODE_CLASSES, NODE_CLAIMS
from dovetail.ports.telemetry import Events
from dovetail.state.mirror import Change, Mirror

FINALIZER: Final = "karpenter.k8s.aws/termination"
_LOOK_AGAIN: Final = Requeue(after=timedelta(minutes=1))
_REMIND: Final = Requeue(after=timedelta(minutes=10))
_FOUND: Final = ("subnets", "securityGroups", "amis", "instanceProfile", "capacityReservations")
"""What is in the status only as long as the cloud has it."""
_MOST_NAMES: Final = 5


class NodeClasses:
    """Keeps the status of a node class; holds it while claims are made from it."""

    def __init__(
        self, *, mirror: Mirror, kube: Kube, cloud: Cloud, clock: Clock, events: Events
    ) -> None:
        self._mirror = mirror
        self._kube = kube
        self._cloud = cloud
        self._clock = clock
        self._events = events

    async def reconcile(self, name: str) -> Requeue | None:
        node_class, raw = self._mirror.node_class(name), self._mirror.raw_node_class(name)
        if node_class is None or raw is None:
            return None
        try:
            if node_class.deleting:
                return await self._let_go(node_class)
            return await self._look_up(node_class, raw)
        except NotFound:
            return None  # It went meanwhile.

    async def _look_up(self, node_class: NodeClass, raw: Object) -> Requeue:
        if FINALIZER not in node_class.finalizers:
            held = [*node_class.finalizers, FINALIZER]
            await self._write_finalizers(node_class, held)
        found = await self._cloud.resolve(raw)
        # Looking up takes a while; what was read before it is old now.
        current = self._mirror.node_class(node_class.name)
        now_raw = self._mirror.raw_node_class(node_class.name)
        if current is None or now_raw is None:
            return _LOOK_AGAIN
        conditions = conditions_of(current, found.problems, self._clock.now())
        wanted: dict[str, Any] = {name: found.status.get(name) for name in _FOUND}
        wanted |= {**found.status, "conditions": show_conditions(conditions)}
        known = now_raw.get("status") or {}
        changed = {name: one for name, one in wanted.items() if known.get(name) != one}
        if changed:
            patch = {
                "metadata": {"resourceVersion": current.resource_version},
                "status": changed,
            }
            await self._kube.patch(EC2_NODE_CLASSES, node_class.name, patch, subresource="status")
        return _LOOK_AGAIN

    async def _let_go(self, node_class: NodeClass) -> Requeue | None:
        if FINALIZER not in node_class.finalizers:
            return None
        users = sorted(
            claim.name
            for claim in self._mirror.claims()
            if claim.node_class.supported and claim.node_class.name == node_class.name
        )
        if users:
            self._tell_of_users(node_class, users)
            return _REMIND
        left = [one for one in node_class.finalizers if one != FINALIZER]
        await self._write_finalizers(node_class, left)
        return None

    async def _write_finalizers(self, node_class: NodeClass, wanted: list[str]) -> None:
        meta = {"resourceVersion": node_class.resource_version, "finalizers": wanted or None}
        await self._kube.patch(EC2_NODE_CLASSES, node_class.name, {"metadata": meta})

    def _tell_of_users(self, node_class: NodeClass, users: list[str]) -> None:
        shown = ", ".join(users[:_MOST_NAMES])
        more = f" and {len(users) - _MOST_NAMES} more" if len(users) > _MOST_NAMES else ""
        self._events.publish(
            EC2_NODE_CLASSES,
            node_class.name,
            uid=node_class.uid,
            reason="WaitingOnNodeClaimTermination",
            message=f"Waiting on NodeClaim termination for {shown}{more}",
            same=(node_class.name,),
        )


def registration(
    *, mirror: Mirror, kube: Kube, cloud: Cloud, loop: Loop, events: Events
) -> Registration:
    """Return the controller."""

    def class_of_gone_claim(change: Change) -> Iterable[str]:
        if change.new is not None or not change.old.node_class.supported:
            return ()
        left = mirror.node_class(change.old.node_class.name)
        return (left.name,) if left is not None and left.deleting else ()

    def class_itself(change: Change) -> Iterable[str]:
        """Name a class when others changed it: its status comes from here."""
        old, new = change.old, change.new
        if old is not None and new is not None and _stirring(old) == _stirring(new):
            return ()
        return (change.either.name,)

    return Registration(
        name="nodeclass",
        controller=NodeClasses(mirror=mirror, kube=kube, cloud=cloud, clock=loop, events=events),
        watches=[(EC2_NODE_CLASSES, class_itself), (NODE_CLAIMS, class_of_gone_claim)],
        workers=10,
    )


def _stirring(node_class: NodeClass) -> tuple[object, ...]:
    return node_class.uid, node_class.generation, node_class.deleting
