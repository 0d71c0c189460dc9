"""Hash: writes the hash of a NodePool's template to its annotations.

A new hash version is migrated to NodeClaims, which would otherwise drift.
"""

from dovetail.controllers.context import ControllerBase, ControllerContext
from dovetail.controllers.patches import annotations_patch, patch_if_exists
from dovetail.controllers.runtime.manager import Controller, enqueue_object
from dovetail.core.nodepool.hash import (
    HASH_VERSION,
    HashAnnotations,
    compute_nodepool_hash,
    migrate_nodepool_hash,
)
from dovetail.model import labels as label_keys
from dovetail.ports.api_resources import NODE_CLAIMS, NODE_POOLS


class NodePoolHashController(ControllerBase):
    """Keeps the hash annotations of a NodePool up to date."""

    async def reconcile(self, name: str) -> None:
        pool = self._cache.pool(name)
        if pool is None or not pool.template.node_class.is_supported:
            return
        nodepool_hash = HashAnnotations(compute_nodepool_hash(pool))
        if pool.annotations.get(label_keys.NODEPOOL_HASH_VERSION) != HASH_VERSION:
            # NodeClaims first: after a crash, the NodePool still has the old version.
            for claim in self._cache.claims_in(name):
                patch = annotations_patch(migrate_nodepool_hash(claim, nodepool_hash))
                await patch_if_exists(self._kube, NODE_CLAIMS, claim.name, patch)
        annotations = nodepool_hash.encode()
        if any(pool.annotations.get(key) != value for key, value in annotations.items()):
            await patch_if_exists(self._kube, NODE_POOLS, name, annotations_patch(annotations))


def controller(context: ControllerContext) -> Controller:
    """Return the registration of this controller."""
    reconciler = NodePoolHashController(context)
    return Controller(name="nodepool.hash", reconciler=reconciler, watches=[(NODE_POOLS, enqueue_object)])
