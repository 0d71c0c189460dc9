"""Readiness: sets NodeClassReady of NodePools, and with it Ready."""

from collections.abc import Iterable

from dovetail.controllers.context import ControllerBase, ControllerContext
from dovetail.controllers.patches import write_pool_status
from dovetail.controllers.runtime.manager import Controller, EventHandler, enqueue_object
from dovetail.core.nodepool.status import get_nodeclass_problem, set_nodepool_condition
from dovetail.model.karpenter.condition_types import NODE_CLASS_READY
from dovetail.model.kube.conditions import FALSE, TRUE
from dovetail.ports.api_resources import EC2_NODE_CLASSES, NODE_POOLS
from dovetail.state.cluster.cache import ClusterCache, ObjectChange


class ReadinessController(ControllerBase):
    """Copies the readiness of its node class to a NodePool."""

    async def reconcile(self, name: str) -> None:
        pool = self._cache.pool(name)
        if pool is None or not pool.template.node_class.is_supported:
            return
        problem = get_nodeclass_problem(self._cache.node_class(pool.template.node_class.name))
        status = (TRUE,) if problem is None else (FALSE, *problem)
        after = set_nodepool_condition(pool, self._loop.now(), NODE_CLASS_READY, *status)
        await write_pool_status(self._kube, pool, after)


def enqueue_pools_of_class(cache: ClusterCache) -> EventHandler:
    """Return the handler that reconciles the NodePools of a node class."""

    def handle_nodeclass(change: ObjectChange) -> Iterable[str]:
        name = change.latest.name
        return [pool.name for pool in cache.pools() if pool.template.node_class.name == name]

    return handle_nodeclass


def controller(context: ControllerContext) -> Controller:
    """Return the registration of this controller."""
    return Controller(
        name="nodepool.readiness",
        reconciler=ReadinessController(context),
        watches=[(NODE_POOLS, enqueue_object), (EC2_NODE_CLASSES, enqueue_pools_of_class(context.cache))],
    )
