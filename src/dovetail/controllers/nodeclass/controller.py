"""Looks up what node classes select in the cloud, and says whether they can be bought from."""

from collections.abc import Iterable
from datetime import timedelta
from typing import Any, Final

from dovetail.codec.kube.conditions import show_conditions
from dovetail.controllers.runtime.manager import Registration, Requeue
from dovetail.core.nodeclass.readiness import conditions_of
from dovetail.model.karpenter.ec2nodeclass import NodeClass
from dovetail.model.settings import SchedulingSettings
from dovetail.ports.api_resources import EC2_NODE_CLASSES, NODE_CLAIMS
from dovetail.ports.cloudprovider import ClassStatus, Cloud
from dovetail.ports.event_loop import Clock, Loop
from dovetail.ports.kube_client import Kube, Object
from dovetail.ports.kube_errors import NotFound
from dovetail.ports.telemetry import Events, Log
from dovetail.state.cluster.cache import Change, Mirror

FINALIZER: Final = "karpenter.k8s.aws/termination"
_LOOK_AGAIN: Final = Requeue(after=timedelta(minutes=1))
_UNSURE: Final = Requeue(after=timedelta(seconds=5))
"""Throttled or cut off: nothing may be bought meanwhile, so that is looked at sooner."""
_REMIND: Final = Requeue(after=timedelta(minutes=10))
_FOUND: Final = {
    "SubnetsReady": "subnets",
    "SecurityGroupsReady": "securityGroups",
    "AMIsReady": "amis",
    "InstanceProfileReady": "instanceProfile",
    "CapacityReservationsReady": "capacityReservations",
}
"""Condition → what is in the status only as long as the cloud has it."""
_MOST_NAMES: Final = 5
_DEFAULTS: Final = SchedulingSettings()
_HASH: Final = "ec2nodeclass-hash"


class NodeClasses:
    """Keeps the status of a node class; holds it while claims are made from it."""

    def __init__(
        self,
        *,
        mirror: Mirror,
        kube: Kube,
        cloud: Cloud,
        clock: Clock,
        log: Log,
        events: Events,
        reserved_capacity: bool = True,
    ) -> None:
        self._mirror = mirror
        self._kube = kube
        self._cloud = cloud
        self._clock = clock
        self._log = log
        self._events = events
        self._reserved_capacity = reserved_capacity
        self._told: dict[str, Any] = {}
        """Class → what was logged of it last, so that each thing is said once."""

    async def reconcile(self, name: str) -> Requeue | None:
        node_class, raw = self._mirror.node_class(name), self._mirror.raw_node_class(name)
        if node_class is None or raw is None:
            self._told.pop(name, None)
            return None
        try:
            if node_class.deleting:
                return await self._let_go(node_class, raw)
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
        self._tell_of_problems(current, found)
        conditions = conditions_of(
            current,
            self._clock.now(),
            problems=found.problems,
            unsure=found.unsure,
            reserved_capacity=self._reserved_capacity,
        )
        wanted: dict[str, Any] = {
            name: found.status.get(name)
            for kind, name in _FOUND.items()
            if kind not in found.unsure
        }
        wanted["conditions"] = show_conditions(conditions)
        known = now_raw.get("status") or {}
        changed = {name: one for name, one in wanted.items() if known.get(name) != one}
        if changed:
            patch = {
                "metadata": {"resourceVersion": current.resource_version},
                "status": changed,
            }
            await self._kube.patch(EC2_NODE_CLASSES, node_class.name, patch, subresource="status")
        return _UNSURE if found.unsure else _LOOK_AGAIN

    async def _let_go(self, node_class: NodeClass, raw: Object) -> Requeue | None:
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
        await self._cloud.forget(raw)
        left = [one for one in node_class.finalizers if one != FINALIZER]
        await self._write_finalizers(node_class, left)
        return None

    async def _write_finalizers(self, node_class: NodeClass, wanted: list[str]) -> None:
        meta = {"resourceVersion": node_class.resource_version, "finalizers": wanted or None}
        await self._kube.patch(EC2_NODE_CLASSES, node_class.name, {"metadata": meta})

    def _tell_of_problems(self, node_class: NodeClass, found: ClassStatus) -> None:
        told = {**found.unsure, **found.problems}
        before = self._told.get(node_class.name, {})
        # Expired credentials fail every call in the same way: one line says it for all.
        causes: dict[str, list[str]] = {}
        for kind, (reason, message) in sorted(told.items()):
            if before.get(kind) != (reason, message):
                causes.setdefault(_cause(message), []).append(kind)
        for kinds in causes.values():
            reason, message = told[kinds[0]]
            self._log.error(
                "failed resolving nodeclass",
                nodeclass=node_class.name,
                condition=", ".join(kinds),
                reason=reason,
                error=message,
            )
        self._told[node_class.name] = told

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
    *,
    mirror: Mirror,
    kube: Kube,
    cloud: Cloud,
    loop: Loop,
    log: Log,
    events: Events,
    settings: SchedulingSettings = _DEFAULTS,
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
        controller=NodeClasses(
            mirror=mirror,
            kube=kube,
            cloud=cloud,
            clock=loop,
            log=log,
            events=events,
            reserved_capacity=settings.reserved_capacity,
        ),
        watches=[(EC2_NODE_CLASSES, class_itself), (NODE_CLAIMS, class_of_gone_claim)],
        workers=10,
    )


def _cause(message: str) -> str:
    """Return what is said after the call that it was said to."""
    call, _, rest = message.partition(": ")
    return rest if rest and " " not in call else message


def _stirring(node_class: NodeClass) -> tuple[object, ...]:
    """Return what a class is looked up anew for; a user's annotation is a request for it."""
    noted = {key: one for key, one in node_class.annotations.items() if _HASH not in key}
    return node_class.uid, node_class.generation, node_class.deleting, noted
