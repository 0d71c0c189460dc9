"""Acts on the cloud's own checks: machines that are broken, or soon to be touched, go."""

from datetime import timedelta
from typing import Final

from dovetail.controllers.interruption.handler import Alarm
from dovetail.controllers.runtime.manager import SINGLETON, Registration, Requeue
from dovetail.ports.cloudprovider import Ailment, Checkups, Interruption
from dovetail.ports.event_loop import Loop
from dovetail.ports.kube_client import Kube
from dovetail.ports.telemetry import Events, Log, Metrics
from dovetail.state.cluster.cache import Mirror

_AGAIN: Final = Requeue(after=timedelta(minutes=1))
_GRACE: Final = timedelta(seconds=120)
"""How long a check must have failed: machines that boot or hiccup fail for a moment."""


class Unchecked:
    """``ports.cloudprovider.Checkups`` of a cloud that checks nothing."""

    async def ailing(self) -> tuple[Ailment, ...]:
        return ()


class StatusChecks:
    """Asks once a minute; needs no queue."""

    def __init__(
        self, *, mirror: Mirror, checkups: Checkups, alarm: Alarm, loop: Loop, metrics: Metrics
    ) -> None:
        self._mirror = mirror
        self._checkups = checkups
        self._alarm = alarm
        self._loop = loop
        self._metrics = metrics
        self._counted: frozenset[tuple[str, Interruption]] = frozenset()

    async def reconcile(self, _: object) -> Requeue:
        found = [one for one in await self._checkups.ailing() if self._is_serious(one)]
        self._count(found)
        for one in found:
            for claim in self._mirror.claims_of(one.instance_id):
                if claim.node_class.supported and not claim.deleting:
                    self._alarm.tell(claim, one.kind)
                    if one.kind is Interruption.EVENT_STATUS:
                        await self._alarm.drain(claim, one.kind)
                    else:
                        await self._alarm.drain_at_once(claim, one.kind)
        return _AGAIN

    def _is_serious(self, one: Ailment) -> bool:
        if one.kind is Interruption.EVENT_STATUS:
            return True
        return one.since is not None and self._loop.now() - one.since >= _GRACE

    def _count(self, found: list[Ailment]) -> None:
        """Count each incident once; one that comes back after it was gone is another."""
        ours = frozenset(
            (one.instance_id, one.kind) for one in found if self._mirror.claims_of(one.instance_id)
        )
        for _, kind in sorted(ours - self._counted):
            self._metrics.count(
                "karpenter_interruption_instance_status_unhealthy_total", category=kind
            )
        self._counted = ours


UNCHECKED: Final = Unchecked()


def registration(
    *,
    mirror: Mirror,
    kube: Kube,
    loop: Loop,
    log: Log,
    events: Events,
    metrics: Metrics,
    checkups: Checkups = UNCHECKED,
) -> Registration:
    """Return the controller."""
    return Registration(
        name="interruption.status",
        controller=StatusChecks(
            mirror=mirror,
            checkups=checkups,
            alarm=Alarm(
                mirror=mirror, kube=kube, clock=loop, log=log, events=events, metrics=metrics
            ),
            loop=loop,
            metrics=metrics,
        ),
        at_start=[SINGLETON],
        workers=1,
    )
