"""Says of pools whether their node class is ready to be bought from."""

from collections.abc import Iterable

from dovetail.controllers.nodepool.status import write_status
from dovetail.controllers.runtime.manager import Registration
from dovetail.core.nodepool.status import NODE_CLASS_READY, pool_stated, why_class_unusable
from dovetail.model.kube.conditions import FALSE, TRUE
from dovetail.ports.api_resources import EC2_NODE_CLASSES, NODE_POOLS
from dovetail.ports.event_loop import Clock, Loop
from dovetail.ports.kube_client import Kube
from dovetail.state.cluster.cache import Change, Mirror


class Readiness:
    """Keeps the NodeClassReady condition, and with it Ready."""

    def __init__(self, *, mirror: Mirror, kube: Kube, clock: Clock) -> None:
        self._mirror = mirror
        self._kube = kube
        self._clock = clock

    async def reconcile(self, name: str) -> None:
        pool = self._mirror.pool(name)
        if pool is None or not pool.template.node_class.supported:
            return
        now = self._clock.now()
        why = why_class_unusable(self._mirror.node_class(pool.template.node_class.name))
        if why is None:
            after = pool_stated(pool, now, NODE_CLASS_READY, TRUE)
        else:
            after = pool_stated(pool, now, NODE_CLASS_READY, FALSE, *why)
        await write_status(self._kube, pool, after)


def registration(*, mirror: Mirror, kube: Kube, loop: Loop) -> Registration:
    """Return the controller."""

    def pools_of_class(change: Change) -> Iterable[str]:
        name = change.either.name
        return [one.name for one in mirror.pools() if one.template.node_class.name == name]

    return Registration(
        name="nodepool.readiness",
        controller=Readiness(mirror=mirror, kube=kube, clock=loop),
        watches=[
            (NODE_POOLS, lambda change: (change.either.name,)),
            (EC2_NODE_CLASSES, pools_of_class),
        ],
    )
