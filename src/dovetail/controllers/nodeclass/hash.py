"""Hash: writes the hash of a node class to its annotations.

A new hash version is migrated to NodeClaims, which would otherwise drift.
"""

from dovetail.controllers.context import ControllerBase, ControllerContext
from dovetail.controllers.patches import annotations_patch, patch_if_exists
from dovetail.controllers.runtime.manager import Controller, enqueue_object
from dovetail.core.nodeclass.hash import (
    NODECLASS_HASH_VERSION,
    compute_hash_annotations,
    migrate_nodeclass_hash,
)
from dovetail.model import labels as label_keys
from dovetail.ports.api_resources import EC2_NODE_CLASSES, NODE_CLAIMS


class NodeClassHashController(ControllerBase):
    """Keeps the hash annotations of a node class up to date."""

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._ca_bundle = context.cluster_ca_bundle

    async def reconcile(self, name: str) -> None:
        node_class = self._cache.node_class(name)
        if node_class is None or node_class.deleting:
            return
        annotations = compute_hash_annotations(node_class, self._ca_bundle)
        if node_class.annotations.get(label_keys.EC2_NODE_CLASS_HASH_VERSION) != NODECLASS_HASH_VERSION:
            # NodeClaims first: after a crash, the node class still has the old version.
            for claim in self._cache.claims():
                if claim.node_class.is_supported and claim.node_class.name == name:
                    patch = annotations_patch(migrate_nodeclass_hash(claim, annotations))
                    await patch_if_exists(self._kube, NODE_CLAIMS, claim.name, patch)
        if any(node_class.annotations.get(key) != value for key, value in annotations.items()):
            await patch_if_exists(self._kube, EC2_NODE_CLASSES, name, annotations_patch(annotations))


def controller(context: ControllerContext) -> Controller:
    """Return the registration of this controller."""
    reconciler = NodeClassHashController(context)
    return Controller(
        name="nodeclass.hash", reconciler=reconciler, watches=[(EC2_NODE_CLASSES, enqueue_object)]
    )
