"""Follows what becomes of machines that were bought in capacity reservations."""

from collections.abc import Iterable
from datetime import timedelta
from typing import Any, Final

from dovetail.controllers.nodeclaim_deletion import retire
from dovetail.controllers.runtime.manager import Registration, Requeue
from dovetail.core.nodeclaim.lifecycle import REGISTERED
from dovetail.model import labels as label_keys
from dovetail.model.karpenter.nodeclaim import NodeClaim
from dovetail.model.kube.conditions import is_true
from dovetail.ports.api_resources import NODE_CLAIMS, NODES, Resource
from dovetail.ports.cloudprovider import Cloud, InstanceNotFound
from dovetail.ports.kube_client import Kube
from dovetail.ports.kube_errors import NotFound
from dovetail.ports.telemetry import Log, Metrics
from dovetail.state.cluster.cache import Change, Mirror

_LOOK_AGAIN: Final = Requeue(after=timedelta(minutes=1))
_ENDING: Final = "capacity_reservation_expiring"
_AS_ON_DEMAND: Final[dict[str, str | None]] = {
    label_keys.CAPACITY_TYPE: label_keys.ON_DEMAND,
    label_keys.CAPACITY_RESERVATION_ID: None,
    label_keys.CAPACITY_RESERVATION_TYPE: None,
    # Karpenter leaves this one behind, where it says nothing any more.
    label_keys.CAPACITY_RESERVATION_INTERRUPTIBLE: None,
}


class Reserved:
    """Looks at reserved claims once a minute.

    A machine outlives its reservation as an on-demand one; its claim and node say
    so then. Capacity blocks end with their machines: those go in good time.
    """

    def __init__(
        self, *, mirror: Mirror, kube: Kube, cloud: Cloud, log: Log, metrics: Metrics
    ) -> None:
        self._mirror = mirror
        self._kube = kube
        self._cloud = cloud
        self._log = log
        self._metrics = metrics

    async def reconcile(self, name: str) -> Requeue | None:
        claim = self._mirror.claim(name)
        if claim is None or claim.deleting or not _is_reserved(claim):
            return None
        if self._is_about_to_end(claim):
            if await retire(claim, _ENDING, kube=self._kube, metrics=self._metrics):
                self._log.info("deleting nodeclaim in expiring capacity block", nodeclaim=name)
            return None
        try:
            machine = await self._cloud.get(claim.provider_id)
        except InstanceNotFound:
            return _LOOK_AGAIN  # Garbage collection is for that.
        if machine.capacity_type != label_keys.ON_DEMAND:
            return _LOOK_AGAIN
        # The node first: the claim is what we would find again after a crash.
        if is_true(claim.conditions, REGISTERED):
            for node in self._mirror.nodes_of(claim.provider_id):
                await self._relabel(NODES, node.name)
        await self._relabel(NODE_CLAIMS, name)
        self._log.info("nodeclaim left its capacity reservation", nodeclaim=name)
        return None

    def _is_about_to_end(self, claim: NodeClaim) -> bool:
        node_class = self._mirror.node_class(claim.node_class.name)
        held = claim.labels.get(label_keys.CAPACITY_RESERVATION_ID)
        return node_class is not None and any(
            one.id == held and one.expiring for one in node_class.reservations
        )

    async def _relabel(self, resource: Resource, name: str) -> None:
        patch: dict[str, Any] = {"metadata": {"labels": _AS_ON_DEMAND}}
        try:
            await self._kube.patch(resource, name, patch)
        except NotFound:
            return  # Nothing to say it of any more.


def registration(
    *, mirror: Mirror, kube: Kube, cloud: Cloud, log: Log, metrics: Metrics
) -> Registration:
    """Return the controller."""

    def reserved_ones(change: Change) -> Iterable[str]:
        old, new = change.old, change.new
        is_news = old is None or not _is_reserved(old)
        return (new.name,) if new is not None and is_news and _is_reserved(new) else ()

    return Registration(
        name="nodeclaim.capacityreservation",
        controller=Reserved(mirror=mirror, kube=kube, cloud=cloud, log=log, metrics=metrics),
        watches=[(NODE_CLAIMS, reserved_ones)],
    )


def _is_reserved(claim: NodeClaim) -> bool:
    return (
        claim.node_class.supported
        and bool(claim.provider_id)
        and claim.labels.get(label_keys.CAPACITY_TYPE) == label_keys.RESERVED
    )
