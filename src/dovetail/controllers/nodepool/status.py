"""Writing what was decided on a pool's status."""

from dovetail.codec.patches.nodepools import pool_status_patch
from dovetail.model.karpenter.nodepool import NodePool
from dovetail.ports.api_resources import NODE_POOLS
from dovetail.ports.kube_client import Kube
from dovetail.ports.kube_errors import NotFound


async def write_status(kube: Kube, before: NodePool, after: NodePool) -> None:
    """Write what changed, if anything did; a pool that has gone needs no status."""
    patch = pool_status_patch(before, after)
    if not patch:
        return
    try:
        await kube.patch(NODE_POOLS, before.name, patch, subresource="status")
    except NotFound:
        return
