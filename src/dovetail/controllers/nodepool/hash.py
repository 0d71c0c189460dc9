"""Hash: writes the hash of a NodePool's template to its annotations.

A new hash version is migrated to NodeClaims, which would otherwise never drift.
"""

from dovetail.controllers.context import ControllerBase, ControllerContext
from dovetail.controllers.patches import annotations_patch, patch_if_exists
from dovetail.controllers.runtime.manager import Controller, enqueue_object
from dovetail.core.nodeclaim.hash_annotations import NODEPOOL_KEYS, migrate_hash
from dovetail.core.nodepool.hash import compute_nodepool_hash_annotations
from dovetail.ports.api_resources import NODE_CLAIMS, NODE_POOLS


class NodePoolHashController(ControllerBase):
    """Keeps the hash annotations of a NodePool up to date."""

    async def reconcile(self, name: str) -> None:
        # Observe.
        pool = self._cache.pool(name)
        if pool is None or not pool.template.node_class.is_supported:
            return
        claims = self._cache.claims_in(name)

        # Decide.
        current = compute_nodepool_hash_annotations(pool)
        migrations = {
            claim.name: annotations
            for claim in claims
            if (annotations := migrate_hash(claim, NODEPOOL_KEYS, previous=pool.annotations, current=current))
        }

        # Act. The NodePool first: after a crash in between, hashes of different versions are no
        # drift, and Karpenter replaces all hashes only if the NodePool has another version.
        if any(pool.annotations.get(key) != value for key, value in current.items()):
            await patch_if_exists(self._kube, NODE_POOLS, name, annotations_patch(current))
        for claim_name, annotations in migrations.items():
            await patch_if_exists(self._kube, NODE_CLAIMS, claim_name, annotations_patch(annotations))


def controller(context: ControllerContext) -> Controller:
    """Return the registration of this controller."""
    reconciler = NodePoolHashController(context)
    return Controller(name="nodepool.hash", reconciler=reconciler, watches=[(NODE_POOLS, enqueue_object)])
