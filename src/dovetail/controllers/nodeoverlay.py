"""NodeOverlay controller: validates overlays and applies the valid ones."""

from collections.abc import Iterable
from datetime import timedelta
from typing import Final

from msgspec.structs import replace

from dovetail.codec.karpenter.nodeoverlays import nodeoverlay_status_patch
from dovetail.controllers.context import ControllerBase, ControllerContext
from dovetail.controllers.patches import patch_if_exists
from dovetail.controllers.runtime.manager import (
    SINGLETON,
    SYNC_POLL,
    Controller,
    RequeueAfter,
    is_unchanged,
    raise_first,
)
from dovetail.core.conditions import NODEOVERLAY_CONDITIONS, ConditionOwner, set_condition
from dovetail.core.nodeoverlay import OverlayRejection, validate_overlays
from dovetail.model.karpenter.condition_types import VALIDATION_SUCCEEDED
from dovetail.model.karpenter.nodeoverlay import NodeOverlay
from dovetail.model.kube.conditions import FALSE, TRUE
from dovetail.ports.api_resources import EC2_NODE_CLASSES, NODE_OVERLAYS, NODE_POOLS
from dovetail.state.cluster.cache import ObjectChange

_REVALIDATION: Final = RequeueAfter(timedelta(hours=6))
_TYPES_MISSING: Final = RequeueAfter(timedelta(seconds=10))
"""A NodePool has no instance types until its node class is resolved."""


class NodeOverlayController(ControllerBase):
    """Validates all overlays together: an overlay may conflict with another."""

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._nodeoverlays = context.nodeoverlays
        self._executor = context.executor

    async def reconcile(self, _: str) -> RequeueAfter:
        # Observe.
        if not self._cache.has_synced():
            return SYNC_POLL
        pools = [pool for pool in self._cache.pools() if pool.template.node_class.is_supported]
        for pool in pools:
            self._cloud_provider.instance_types(pool)
        types_by_pool = [(pool, self._nodeoverlays.get_base_types(pool.name)) for pool in pools]
        overlays = self._cache.overlays()

        # Decide.
        # Outside the event loop: every overlay is compared with every instance type.
        result = await self._executor.run(lambda: validate_overlays(overlays, types_by_pool))

        # Act.
        resolved_pools = [pool.name for pool, types in types_by_pool if types]
        if self._nodeoverlays.update(result.valid, resolved_pools):
            names = ", ".join(overlay.name for overlay in result.valid)
            self._log.info("nodeoverlays evaluated", nodeoverlays=names, nodepools=len(resolved_pools))
        raise_first(
            await self._loop.gather(
                [self._write_status(overlay, result.rejected.get(overlay.name)) for overlay in overlays]
            )
        )
        return _REVALIDATION if len(resolved_pools) == len(types_by_pool) else _TYPES_MISSING

    async def _write_status(self, overlay: NodeOverlay, rejection: OverlayRejection | None) -> None:
        owner = ConditionOwner(
            condition_set=NODEOVERLAY_CONDITIONS, now=self._loop.now(), generation=overlay.generation
        )
        conditions = set_condition(
            overlay.conditions,
            owner,
            VALIDATION_SUCCEEDED,
            TRUE if rejection is None else FALSE,
            reason="" if rejection is None else rejection.reason,
            message="" if rejection is None else rejection.message,
        )
        patch = nodeoverlay_status_patch(overlay, replace(overlay, conditions=conditions))
        await patch_if_exists(self._kube, NODE_OVERLAYS, overlay.name, patch, subresource="status")


def controller(context: ControllerContext) -> Controller | None:
    """Return the registration of this controller."""
    if not context.feature_gates.NodeOverlay:
        return None
    return Controller(
        name="nodeoverlay",
        reconciler=NodeOverlayController(context),
        watches=[
            (resource, _handle_spec_change) for resource in (NODE_OVERLAYS, NODE_POOLS, EC2_NODE_CLASSES)
        ],
        initial_keys=(SINGLETON,),
        workers=1,
    )


def _handle_spec_change(change: ObjectChange) -> Iterable[str]:
    return () if is_unchanged(change, lambda obj: obj.generation) else (SINGLETON,)
