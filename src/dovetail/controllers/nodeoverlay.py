"""Finds out which NodeOverlays hold, and says so on each of them."""

from collections.abc import Iterable
from datetime import timedelta
from typing import Final

from msgspec.structs import replace

from dovetail.codec.karpenter.nodeoverlays import overlay_status_patch
from dovetail.controllers.runtime.manager import SINGLETON, Registration, Requeue, raise_first
from dovetail.core.conditions import OVERLAY, Subject, changed
from dovetail.core.nodeoverlay import Verdict, settle
from dovetail.model.karpenter.nodeoverlay import NodeOverlay
from dovetail.model.kube.conditions import FALSE, TRUE
from dovetail.model.settings import Gates
from dovetail.ports.api_resources import EC2_NODE_CLASSES, NODE_OVERLAYS, NODE_POOLS
from dovetail.ports.cloudprovider import Cloud
from dovetail.ports.event_loop import Loop
from dovetail.ports.kube_client import Kube
from dovetail.ports.kube_errors import NotFound
from dovetail.ports.telemetry import Log
from dovetail.state.cluster.cache import Change, Mirror
from dovetail.state.instancetypes.nodeoverlays import Overlays

VALIDATION: Final = "ValidationSucceeded"
_AGAIN: Final = Requeue(after=timedelta(hours=6))
_UNSYNCED: Final = Requeue(after=timedelta(seconds=1))
_POOL_MISSING: Final = Requeue(after=timedelta(seconds=10))
"""Until the node class of a pool has been looked up, nothing is sold to it."""


class Overlaying:
    """Looks at all overlays together: whether one holds depends on the others."""

    def __init__(
        self,
        *,
        mirror: Mirror,
        overlays: Overlays,
        kube: Kube,
        cloud: Cloud,
        loop: Loop,
        log: Log,
        gates: Gates,
    ) -> None:
        self._mirror = mirror
        self._overlays = overlays
        self._kube = kube
        self._cloud = cloud
        self._loop = loop
        self._log = log
        self._gates = gates

    def registration(self) -> Registration | None:
        """Have it told of all by which an overlay may come to mean something else."""
        if not self._gates.NodeOverlay:
            return None
        return Registration(
            name="nodeoverlay",
            controller=self,
            watches=[
                (one, _whose_wish_changed) for one in (NODE_OVERLAYS, NODE_POOLS, EC2_NODE_CLASSES)
            ],
            at_start=(SINGLETON,),
            workers=1,
        )

    async def reconcile(self, _: str) -> Requeue:
        # Observe.
        if not self._mirror.synced():
            return _UNSYNCED
        pools = [one for one in self._mirror.pools() if one.template.node_class.supported]
        for pool in pools:
            self._cloud.instance_types(pool)
        shops = [(pool, self._overlays.sold(pool.name)) for pool in pools]
        known = self._mirror.overlays()

        # Decide.
        settled = settle(known, shops)

        # Act.
        open_shops = [pool.name for pool, types in shops if types]
        if self._overlays.settle(settled.valid, open_shops):
            names = ", ".join(one.name for one in settled.valid)
            self._log.info("nodeoverlays evaluated", nodeoverlays=names, nodepools=len(open_shops))
        raise_first(
            await self._loop.together(
                [self._write(one, settled.rejected.get(one.name)) for one in known]
            )
        )
        return _AGAIN if len(open_shops) == len(shops) else _POOL_MISSING

    async def _write(self, overlay: NodeOverlay, verdict: Verdict | None) -> None:
        who = Subject(family=OVERLAY, now=self._loop.now(), generation=overlay.generation)
        if verdict is None:
            conditions = changed(overlay.conditions, who, VALIDATION, TRUE)
        else:
            conditions = changed(
                overlay.conditions,
                who,
                VALIDATION,
                FALSE,
                reason=verdict.reason,
                message=verdict.message,
            )
        patch = overlay_status_patch(overlay, replace(overlay, conditions=conditions))
        if patch:
            try:
                await self._kube.patch(NODE_OVERLAYS, overlay.name, patch, subresource="status")
            except NotFound:
                return  # It went meanwhile.


def _whose_wish_changed(change: Change) -> Iterable[str]:
    old, new = change.old, change.new
    if old is not None and new is not None and old.generation == new.generation:
        return ()
    return (SINGLETON,)
