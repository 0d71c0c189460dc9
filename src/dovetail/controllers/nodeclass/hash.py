"""Hash: writes the hash of a node class to its annotations.

A new hash version is migrated to NodeClaims, which would otherwise never drift.
"""

from dovetail.controllers.context import ControllerBase, ControllerContext
from dovetail.controllers.patches import annotations_patch, patch_if_exists
from dovetail.controllers.runtime.manager import Controller, enqueue_object
from dovetail.core.nodeclaim.hash_annotations import NODECLASS_KEYS, migrate_hash
from dovetail.core.nodeclass.hash import compute_nodeclass_hash_annotations
from dovetail.ports.api_resources import EC2_NODE_CLASSES, NODE_CLAIMS


class NodeClassHashController(ControllerBase):
    """Keeps the hash annotations of a node class up to date."""

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._ca_bundle = context.cluster_ca_bundle

    async def reconcile(self, name: str) -> None:
        # Observe.
        node_class = self._cache.node_class(name)
        if node_class is None or node_class.deleting:
            return
        claims = [
            claim
            for claim in self._cache.claims()
            if claim.node_class.name == name and claim.node_class.is_supported
        ]

        # Decide.
        current = compute_nodeclass_hash_annotations(node_class, self._ca_bundle)
        migrations = {
            claim.name: migrate_hash(claim, NODECLASS_KEYS, previous=node_class.annotations, current=current)
            for claim in claims
        }

        # Act. The node class first, as in ``NodePoolHashController``.
        if any(node_class.annotations.get(key) != value for key, value in current.items()):
            await patch_if_exists(self._kube, EC2_NODE_CLASSES, name, annotations_patch(current))
        for claim_name, annotations in migrations.items():
            await patch_if_exists(self._kube, NODE_CLAIMS, claim_name, annotations_patch(annotations))


def controller(context: ControllerContext) -> Controller:
    """Return the registration of this controller."""
    reconciler = NodeClassHashController(context)
    return Controller(
        name="nodeclass.hash", reconciler=reconciler, watches=[(EC2_NODE_CLASSES, enqueue_object)]
    )
