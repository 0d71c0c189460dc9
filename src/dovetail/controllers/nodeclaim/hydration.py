"""Hydration: adds the node class label to NodeClaims and Nodes that lack it.

Older versions of Karpenter did not set it.
"""

from dovetail.controllers.context import ControllerBase, ControllerContext
from dovetail.controllers.patches import patch_if_exists
from dovetail.controllers.runtime.manager import Controller
from dovetail.model.karpenter.nodeclaim import NodeClaim
from dovetail.ports.api_resources import NODE_CLAIMS, NODES
from dovetail.state.cluster.cache import ObjectChange


class HydrationController(ControllerBase):
    """Labels a NodeClaim and its Nodes."""

    async def reconcile(self, name: str) -> None:
        claim = self._cache.claim(name)
        if claim is None or not claim.node_class.is_supported:
            return
        key, value = claim.node_class.label
        patch = {"metadata": {"labels": {key: value}}}
        if key not in claim.labels:
            await patch_if_exists(self._kube, NODE_CLAIMS, name, patch)
        for node in self._cache.nodes_of(claim.provider_id):
            if key not in node.labels:
                await patch_if_exists(self._kube, NODES, node.name, patch)

    def handle_claim(self, change: ObjectChange) -> list[str]:
        """Reconcile a NodeClaim without the label."""
        claim: NodeClaim | None = change.new
        return [claim.name] if claim is not None and claim.node_class.label[0] not in claim.labels else []

    def handle_node(self, change: ObjectChange) -> list[str]:
        """Reconcile the NodeClaim of a Node without the label."""
        if change.new is None:
            return []
        return [
            claim.name
            for claim in self._cache.claims_of(change.new.provider_id)
            if claim.node_class.label[0] not in change.new.labels
        ]


def controller(context: ControllerContext) -> Controller:
    """Return the registration of this controller."""
    reconciler = HydrationController(context)
    return Controller(
        name="nodeclaim.hydration",
        reconciler=reconciler,
        watches=[(NODE_CLAIMS, reconciler.handle_claim), (NODES, reconciler.handle_node)],
    )
