"""Writing what was decided on a pool's status."""

from dovetail.codec.poolpatches import pool_status_patch
from dovetail.model.nodepool import NodePool
from dovetail.ports.kube import Kube
from dovetail.ports.kubeerrors import NotFound
from dovetail.ports.resources import NODE_POOLS


async def write_status(kube: Kube, before: NodePool, after: NodePool) -> None:
    """Write what changed, if anything did; a pool that has gone needs no status."""
    patch = pool_status_patch(before, after)
    if not patch:
        return
    try:
        await kube.patch(NODE_POOLS, before.name, patch, subresource="status")
    except NotFound:
        return
