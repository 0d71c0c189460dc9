"""Validation: sets ValidationSucceeded of NodePools, and with it Ready."""

from dovetail.controllers.context import ControllerBase, ControllerContext
from dovetail.controllers.patches import write_pool_status
from dovetail.controllers.runtime.manager import Controller, enqueue_object
from dovetail.core.nodepool.status import set_nodepool_condition, validate_nodepool
from dovetail.model.karpenter.condition_types import VALIDATION_SUCCEEDED
from dovetail.model.kube.conditions import FALSE, TRUE
from dovetail.ports.api_resources import NODE_POOLS


class ValidationController(ControllerBase):
    """Validates what the API server cannot validate."""

    async def reconcile(self, name: str) -> None:
        pool = self._cache.pool(name)
        if pool is None or not pool.template.node_class.is_supported:
            return
        errors = validate_nodepool(pool)
        status = (FALSE, "NodePoolValidationFailed", "; ".join(errors)) if errors else (TRUE,)
        after = set_nodepool_condition(pool, self._loop.now(), VALIDATION_SUCCEEDED, *status)
        await write_pool_status(self._kube, pool, after)


def controller(context: ControllerContext) -> Controller:
    """Return the registration of this controller."""
    reconciler = ValidationController(context)
    return Controller(
        name="nodepool.validation", reconciler=reconciler, watches=[(NODE_POOLS, enqueue_object)]
    )
