"""Gives up claims whose machine does not come, or does not become a node, in time."""

from typing import Final

from dovetail.controllers.nodeclaim_deletion import retire
from dovetail.controllers.nodepool.registration_outcomes import PoolHealth
from dovetail.controllers.runtime.manager import Registration, Requeue
from dovetail.core.nodeclaim.lifecycle import Overdue, Timeouts, overdue
from dovetail.ports.api_resources import NODE_CLAIMS
from dovetail.ports.event_loop import Clock, Loop
from dovetail.ports.kube_client import Kube
from dovetail.ports.telemetry import Log, Metrics
from dovetail.state.cluster.cache import Mirror
from dovetail.state.nodes.launch_outcomes import LaunchOutcomes

_USUAL: Final = Timeouts()


class Liveness:
    """Looks at a claim when its time is up.

    It stands beside the lifecycle controller, so that a launch that hangs or
    fails again and again does not keep it from being given up in time.
    """

    def __init__(
        self,
        *,
        mirror: Mirror,
        kube: Kube,
        clock: Clock,
        health: PoolHealth,
        log: Log,
        metrics: Metrics,
        timeouts: Timeouts,
    ) -> None:
        self._mirror = mirror
        self._kube = kube
        self._clock = clock
        self._health = health
        self._log = log
        self._metrics = metrics
        self._timeouts = timeouts

    async def reconcile(self, name: str) -> Requeue | None:
        # Observe.
        claim = self._mirror.claim(name)
        if claim is None or claim.deleting or not claim.node_class.supported:
            return None
        now = self._clock.now()

        # Decide.
        verdict = overdue(claim, now, self._timeouts)
        if verdict is None:
            return None
        if not isinstance(verdict, Overdue):
            return Requeue(after=verdict - now)

        # Act.
        await self._health.timed_out(claim)
        gone = await retire(claim, verdict.reason, kube=self._kube, metrics=self._metrics)

        # Tell.
        if gone:
            self._log.info(
                "terminating due to timeout", nodeclaim=claim.name, reason=verdict.reason
            )
        return None


def registration(
    *,
    mirror: Mirror,
    kube: Kube,
    loop: Loop,
    outcomes: LaunchOutcomes,
    log: Log,
    metrics: Metrics,
    timeouts: Timeouts = _USUAL,
) -> Registration:
    """Return the controller."""
    return Registration(
        name="nodeclaim.liveness",
        controller=Liveness(
            mirror=mirror,
            kube=kube,
            clock=loop,
            health=PoolHealth(mirror=mirror, kube=kube, clock=loop, outcomes=outcomes),
            log=log,
            metrics=metrics,
            timeouts=timeouts,
        ),
        watches=[(NODE_CLAIMS, lambda change: (change.either.name,))],
    )
