"""Says of pools whether what they ask for makes sense."""

from dovetail.controllers.nodepool.status import write_status
from dovetail.controllers.runtime.manager import Registration
from dovetail.core.nodepool.status import VALIDATION_SUCCEEDED, mistakes, pool_stated
from dovetail.model.kube.conditions import FALSE, TRUE
from dovetail.ports.api_resources import NODE_POOLS
from dovetail.ports.event_loop import Clock, Loop
from dovetail.ports.kube_client import Kube
from dovetail.state.cluster.cache import Mirror


class Validation:
    """Keeps the ValidationSucceeded condition, and with it Ready."""

    def __init__(self, *, mirror: Mirror, kube: Kube, clock: Clock) -> None:
        self._mirror = mirror
        self._kube = kube
        self._clock = clock

    async def reconcile(self, name: str) -> None:
        pool = self._mirror.pool(name)
        if pool is None or not pool.template.node_class.supported:
            return
        now, wrong = self._clock.now(), mistakes(pool)
        if wrong:
            why = ("NodePoolValidationFailed", "; ".join(wrong))
            after = pool_stated(pool, now, VALIDATION_SUCCEEDED, FALSE, *why)
        else:
            after = pool_stated(pool, now, VALIDATION_SUCCEEDED, TRUE)
        await write_status(self._kube, pool, after)


def registration(*, mirror: Mirror, kube: Kube, loop: Loop) -> Registration:
    """Return the controller."""
    return Registration(
        name="nodepool.validation",
        controller=Validation(mirror=mirror, kube=kube, clock=loop),
        watches=[(NODE_POOLS, lambda change: (change.either.name,))],
    )
