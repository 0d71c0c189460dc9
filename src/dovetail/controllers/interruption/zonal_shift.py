"""Keeps purchases out of zones that the cluster is being moved out of."""

from datetime import timedelta
from typing import Final

from dovetail.controllers.runtime.manager import SINGLETON, Registration, Requeue
from dovetail.model import labels as label_keys
from dovetail.model.karpenter.nodepool import NodePool
from dovetail.model.kube.requirements import Requirements
from dovetail.ports.api_resources import NODE_POOLS
from dovetail.ports.cloudprovider import Cloud, ZonalShifts
from dovetail.ports.event_loop import Loop
from dovetail.ports.telemetry import Events, Log
from dovetail.state.cluster.cache import Mirror
from dovetail.state.instancetypes.unavailable_offerings import Scarce, Scarcity

_AGAIN: Final = Requeue(after=timedelta(seconds=30))


class ZonalShift:
    """Asks every half minute. What cannot be asked stays as it was, for three minutes at most."""

    def __init__(
        self,
        *,
        shifts: ZonalShifts,
        mirror: Mirror,
        cloud: Cloud,
        scarcity: Scarcity,
        loop: Loop,
        log: Log,
        events: Events,
    ) -> None:
        self._shifts = shifts
        self._mirror = mirror
        self._cloud = cloud
        self._scarcity = scarcity
        self._loop = loop
        self._log = log
        self._events = events
        self._known: frozenset[str] = frozenset()

    async def reconcile(self, _: object) -> Requeue:
        shifted = frozenset(await self._shifts.away_from())
        came, went = shifted - self._known, self._known - shifted
        # Who may use a zone is seen before it is closed, or after it is open again.
        for zone in sorted(came):
            self._log.info("zonal shift is active", zone=zone)
            self._tell(zone, "ZonalShiftActive", f"Nothing is bought in {zone}: it is shifted away")
        self._scarcity.mark((Scarce(zone=one) for one in shifted), now=self._loop.now())
        self._scarcity.lift(Scarce(zone=one) for one in went)
        for zone in sorted(went):
            self._log.info("zonal shift has ended", zone=zone)
            self._tell(zone, "ZonalShiftCleared", f"{zone} can be bought in again")
        self._known = shifted
        return _AGAIN

    def _tell(self, zone: str, reason: str, message: str) -> None:
        for pool in self._mirror.pools():
            if self._can_use(pool, zone):
                self._events.publish(
                    NODE_POOLS,
                    pool.name,
                    uid=pool.uid,
                    reason=reason,
                    message=message,
                    warning=reason == "ZonalShiftActive",
                    same=(pool.name, zone),
                )

    def _can_use(self, pool: NodePool, zone: str) -> bool:
        wanted = Requirements.of_specs(pool.template.requirements)
        if not wanted.allowed(label_keys.ZONE).has(zone):
            return False
        return any(
            offering.zone == zone and offering.available
            for one in self._cloud.instance_types(pool)
            for offering in one.offerings
        )


def registration(
    *,
    shifts: ZonalShifts | None,
    mirror: Mirror,
    cloud: Cloud,
    scarcity: Scarcity,
    loop: Loop,
    log: Log,
    events: Events,
) -> Registration | None:
    """Return the controller; None where nobody knows of shifts."""
    if shifts is None:
        return None
    return Registration(
        name="zonalshift",
        controller=ZonalShift(
            shifts=shifts,
            mirror=mirror,
            cloud=cloud,
            scarcity=scarcity,
            loop=loop,
            log=log,
            events=events,
        ),
        at_start=[SINGLETON],
        workers=1,
    )
