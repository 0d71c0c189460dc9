"""Interruption handler: Events about an interruption, deletion of the NodeClaim.

To add an interruption kind, add it to ``InterruptionKind``; the type checker then
asks for its entry in ``get_response``.
"""

from typing import assert_never

import msgspec

from dovetail.controllers.context import ControllerBase, ControllerContext
from dovetail.controllers.event_reasons import (
    CAPACITY_RESERVATION_INTERRUPTED,
    INSTANCE_STOPPING,
    INSTANCE_TERMINATING,
    INSTANCE_UNHEALTHY,
    SPOT_INTERRUPTED,
    SPOT_REBALANCE_RECOMMENDATION,
    TERMINATING_ON_INTERRUPTION,
)
from dovetail.controllers.nodeclaim_deletion import delete_nodeclaim, set_termination_deadline
from dovetail.model import labels as label_keys
from dovetail.model.karpenter.nodeclaim import NodeClaim
from dovetail.ports.cloudprovider import InterruptionKind
from dovetail.ports.telemetry import EventObject, EventReason, get_resource
from dovetail.state.instancetypes.unavailable_offerings import UnavailableOffering


class InterruptionResponse(msgspec.Struct, frozen=True):
    """Reaction to one kind of interruption."""

    event: EventReason
    message: str
    unavailable_capacity_type: str = ""
    """Capacity type that is short: the instance's offering becomes unavailable."""
    is_impaired: bool = False
    """The instance runs no pods any more, so that its drain is skipped."""


def get_response(kind: InterruptionKind) -> InterruptionResponse | None:
    """Return the reaction to an interruption kind, None if there is none."""
    match kind:
        case InterruptionKind.SPOT_INTERRUPTED:
            message = "Spot interruption warning was triggered"
            return InterruptionResponse(SPOT_INTERRUPTED, message, label_keys.SPOT)
        case InterruptionKind.REBALANCE_RECOMMENDATION:
            message = "Spot rebalance recommendation was triggered"
            return InterruptionResponse(SPOT_REBALANCE_RECOMMENDATION, message, label_keys.SPOT)
        case InterruptionKind.CAPACITY_RESERVATION_INTERRUPTED:
            message = "Capacity reservation interruption warning was triggered"
            return InterruptionResponse(CAPACITY_RESERVATION_INTERRUPTED, message, label_keys.RESERVED)
        case InterruptionKind.INSTANCE_STOPPED:
            return InterruptionResponse(INSTANCE_STOPPING, "Instance is stopping")
        case InterruptionKind.INSTANCE_TERMINATED:
            return InterruptionResponse(INSTANCE_TERMINATING, "Instance is terminating")
        case InterruptionKind.SCHEDULED_CHANGE | InterruptionKind.EVENT_STATUS:
            return InterruptionResponse(INSTANCE_UNHEALTHY, "An unhealthy warning was triggered")
        case InterruptionKind.INSTANCE_STATUS | InterruptionKind.SYSTEM_STATUS:
            message = "An unhealthy warning was triggered"
            return InterruptionResponse(INSTANCE_UNHEALTHY, message, is_impaired=True)
        case InterruptionKind.NO_OP:
            return None
        case _:
            assert_never(kind)


class InterruptionHandler(ControllerBase):
    """Publishes Events about interrupted instances and deletes their NodeClaims."""

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._act_on_rebalance = context.interruption_settings.act_on_rebalance

    async def handle(self, claim: NodeClaim, kind: InterruptionKind) -> None:
        """Publish the interruption and delete the NodeClaim, which drains its node.

        A NodeClaim that is being deleted gets the Event only. So does a rebalance
        recommendation, unless the settings say otherwise.
        """
        response = get_response(kind)
        if response is None:
            return
        self._publish(claim, response.event, response.message)
        if kind is InterruptionKind.REBALANCE_RECOMMENDATION and not self._act_on_rebalance:
            return
        # Before the deletion: the replacement must not be launched with the same offering.
        self._mark_unavailable(claim, response.unavailable_capacity_type)
        if claim.deleting or (response.is_impaired and not await self._skip_drain(claim)):
            return
        if await delete_nodeclaim(self._context, claim, kind):
            self._log.info(
                "initiating delete from interruption message", nodeclaim=claim.name, message_kind=str(kind)
            )
            self._publish(claim, TERMINATING_ON_INTERRUPTION, "Interruption triggered termination")

    def _mark_unavailable(self, claim: NodeClaim, capacity_type: str) -> None:
        zone, instance_type = (claim.labels.get(key) for key in (label_keys.ZONE, label_keys.INSTANCE_TYPE))
        if capacity_type and zone and instance_type:
            offering = UnavailableOffering(
                capacity_type=capacity_type, instance_type=instance_type, zone=zone
            )
            self._context.unavailable_offerings.mark_unavailable([offering], now=self._loop.now())

    async def _skip_drain(self, claim: NodeClaim) -> bool:
        """Set a termination deadline of now; return False if the NodeClaim is gone."""
        if label_keys.TERMINATION_TIMESTAMP in claim.annotations:
            return True
        return await set_termination_deadline(self._context, claim, self._loop.now())

    def _publish(self, claim: NodeClaim, event: EventReason, message: str) -> None:
        objects: list[EventObject] = [claim, *self._cache.nodes_of(claim.provider_id)]
        for obj in objects:
            # One Event per object and kind, whichever message announced it.
            key = (get_resource(obj).plural, obj.name)
            self._events.publish(obj, event, message, dedupe_key=key)
