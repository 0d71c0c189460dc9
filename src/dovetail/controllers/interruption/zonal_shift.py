"""Zonal shift: launches no instances in zones that EKS shifts traffic away from."""

from datetime import timedelta
from typing import Final

from dovetail.controllers.context import ControllerBase, ControllerContext
from dovetail.controllers.event_reasons import ZONAL_SHIFT_ACTIVE, ZONAL_SHIFT_CLEARED
from dovetail.controllers.runtime.manager import SINGLETON, Controller, RequeueAfter
from dovetail.model import labels as label_keys
from dovetail.model.karpenter.nodepool import NodePool
from dovetail.model.kube.requirements import Requirements
from dovetail.ports.cloudprovider import ZonalShiftProvider
from dovetail.ports.telemetry import EventReason
from dovetail.state.instancetypes.unavailable_offerings import UnavailableOffering

_INTERVAL: Final = RequeueAfter(timedelta(seconds=30))


class ZonalShiftController(ControllerBase):
    """Marks all offerings of shifted zones unavailable.

    If the API fails, the marks expire after three minutes.
    """

    def __init__(self, context: ControllerContext, zonal_shifts: ZonalShiftProvider) -> None:
        super().__init__(context)
        self._zonal_shifts = zonal_shifts
        self._unavailable_offerings = context.unavailable_offerings
        self._shifted: frozenset[str] = frozenset()

    async def reconcile(self, _: object) -> RequeueAfter:
        # Observe.
        shifted = frozenset(await self._zonal_shifts.list_shifted_zones())
        started, ended = shifted - self._shifted, self._shifted - shifted

        # Report and act. Which NodePools can use a zone depends on its available offerings:
        # Events precede the mark, and follow its removal.
        for zone in sorted(started):
            self._log.info("zonal shift is active", zone=zone)
            self._publish(zone, ZONAL_SHIFT_ACTIVE, f"No instances are launched in {zone}: zonal shift")
        self._unavailable_offerings.mark_unavailable(
            (UnavailableOffering(zone=zone) for zone in shifted), now=self._loop.now()
        )
        self._unavailable_offerings.clear(UnavailableOffering(zone=zone) for zone in ended)
        for zone in sorted(ended):
            self._log.info("zonal shift has ended", zone=zone)
            self._publish(zone, ZONAL_SHIFT_CLEARED, f"Instances can be launched in {zone} again")
        self._shifted = shifted
        return _INTERVAL

    def _publish(self, zone: str, event: EventReason, message: str) -> None:
        for pool in self._cache.pools():
            if self._can_use(pool, zone):
                self._events.publish(pool, event, message, dedupe_key=(pool.name, zone))

    def _can_use(self, pool: NodePool, zone: str) -> bool:
        requirements = Requirements.from_specs(pool.template.requirements)
        return requirements.get_or_exists(label_keys.ZONE).has(zone) and any(
            offering.zone == zone and offering.available
            for instance_type in self._cloud_provider.instance_types(pool)
            for offering in instance_type.offerings
        )


def controller(context: ControllerContext) -> Controller | None:
    """Return the registration, None if the cloud provider has no zonal shifts."""
    if context.zonal_shifts is None:
        return None
    reconciler = ZonalShiftController(context, context.zonal_shifts)
    return Controller(name="zonalshift", reconciler=reconciler, initial_keys=[SINGLETON], workers=1)
