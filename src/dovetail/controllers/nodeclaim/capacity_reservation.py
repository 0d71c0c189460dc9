"""Capacity reservations: follows instances whose reservation ends.

An instance outlives an ordinary reservation as on-demand instance; NodeClaim and
Node are relabelled. A capacity block terminates its instances when it ends;
their NodeClaims are deleted before that.
"""

from collections.abc import Iterable
from datetime import timedelta
from typing import Final

from dovetail.controllers.context import ControllerBase, ControllerContext
from dovetail.controllers.nodeclaim_deletion import delete_nodeclaim
from dovetail.controllers.patches import patch_if_exists
from dovetail.controllers.runtime.manager import Controller, RequeueAfter
from dovetail.model import labels as label_keys
from dovetail.model.karpenter.condition_types import REGISTERED
from dovetail.model.karpenter.nodeclaim import NodeClaim
from dovetail.model.kube.conditions import is_true
from dovetail.ports.api_resources import NODE_CLAIMS, NODES
from dovetail.ports.cloudprovider import InstanceNotFoundError
from dovetail.state.cluster.cache import ObjectChange

_INTERVAL: Final = RequeueAfter(timedelta(minutes=1))
_ON_DEMAND_LABELS: Final[dict[str, str | None]] = {
    label_keys.CAPACITY_TYPE: label_keys.ON_DEMAND,
    label_keys.CAPACITY_RESERVATION_ID: None,
    label_keys.CAPACITY_RESERVATION_TYPE: None,
    # Karpenter keeps this label, though it has no meaning any more.
    label_keys.CAPACITY_RESERVATION_INTERRUPTIBLE: None,
}


class CapacityReservationController(ControllerBase):
    """Checks each NodeClaim in a capacity reservation once per minute."""

    async def reconcile(self, name: str) -> RequeueAfter | None:
        # Observe.
        claim = self._cache.claim(name)
        if claim is None or claim.deleting or not _is_reserved(claim):
            return None
        if self._is_expiring(claim):
            if await delete_nodeclaim(self._context, claim, "capacity_reservation_expiring"):
                self._log.info("deleting nodeclaim in expiring capacity block", nodeclaim=name)
            return None
        try:
            instance = await self._cloud_provider.get(claim.provider_id)
        except InstanceNotFoundError:
            return _INTERVAL  # Garbage collection deletes the NodeClaim.
        if instance.capacity_type != label_keys.ON_DEMAND:
            return _INTERVAL

        # Act. The NodeClaim last: after a crash, it is still reserved and reconciled again.
        patch = {"metadata": {"labels": _ON_DEMAND_LABELS}}
        if is_true(claim.conditions, REGISTERED):
            for node in self._cache.nodes_of(claim.provider_id):
                await patch_if_exists(self._kube, NODES, node.name, patch)
        await patch_if_exists(self._kube, NODE_CLAIMS, name, patch)

        # Report.
        self._log.info("nodeclaim left its capacity reservation", nodeclaim=name)
        return None

    def _is_expiring(self, claim: NodeClaim) -> bool:
        node_class = self._cache.node_class(claim.node_class.name)
        reservation_id = claim.labels.get(label_keys.CAPACITY_RESERVATION_ID)
        return node_class is not None and any(
            reservation.id == reservation_id and reservation.expiring
            for reservation in node_class.capacity_reservations
        )


def controller(context: ControllerContext) -> Controller:
    """Return the registration of this controller."""
    return Controller(
        name="nodeclaim.capacityreservation",
        reconciler=CapacityReservationController(context),
        watches=[(NODE_CLAIMS, _handle_claim)],
    )


def _handle_claim(change: ObjectChange) -> Iterable[str]:
    """Reconcile a NodeClaim once it is known to be reserved."""
    old, new = change.old, change.new
    is_new = old is None or not _is_reserved(old)
    return (new.name,) if new is not None and is_new and _is_reserved(new) else ()


def _is_reserved(claim: NodeClaim) -> bool:
    return (
        claim.node_class.is_supported
        and bool(claim.provider_id)
        and claim.labels.get(label_keys.CAPACITY_TYPE) == label_keys.RESERVED
    )
