"""Hash: writes the hash of a node class to its annotations.

A new hash version is migrated to NodeClaims, which would otherwise never drift.
"""

from collections.abc import Iterable

from dovetail.controllers.context import ControllerBase, ControllerContext
from dovetail.controllers.patches import annotations_patch, patch_if_exists
from dovetail.controllers.runtime.manager import Controller, enqueue_object
from dovetail.core.nodeclaim.hash_annotations import NODECLASS_KEYS, migrate_hash
from dovetail.core.nodeclass.hash import NODECLASS_HASH_VERSION, compute_nodeclass_hash_annotations
from dovetail.ports.api_resources import EC2_NODE_CLASSES, NODE_CLAIMS
from dovetail.state.cluster.cache import ObjectChange


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
        previous = node_class.annotations
        migrations = {
            claim.name: annotations
            for claim in claims
            if (annotations := migrate_hash(claim, NODECLASS_KEYS, previous=previous, current=current))
        }

        # Act. The node class first, as in ``NodePoolHashController``.
        if any(previous.get(key) != value for key, value in current.items()):
            await patch_if_exists(self._kube, EC2_NODE_CLASSES, name, annotations_patch(current))
        for claim_name, annotations in migrations.items():
            await patch_if_exists(self._kube, NODE_CLAIMS, claim_name, annotations_patch(annotations))

    def handle_claim(self, change: ObjectChange) -> Iterable[str]:
        """Reconcile the node class of a NodeClaim with a hash of another version.

        A launch during a takeover records the hash that Karpenter left on the node class.
        """
        claim = change.new
        if claim is None or claim.annotations.get(NODECLASS_KEYS.version) in (None, NODECLASS_HASH_VERSION):
            return ()
        return (claim.node_class.name,)


def controller(context: ControllerContext) -> Controller:
    """Return the registration of this controller."""
    reconciler = NodeClassHashController(context)
    return Controller(
        name="nodeclass.hash",
        reconciler=reconciler,
        watches=[(EC2_NODE_CLASSES, enqueue_object), (NODE_CLAIMS, reconciler.handle_claim)],
    )
