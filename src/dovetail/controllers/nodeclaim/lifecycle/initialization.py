"""Initialization: the node is ready, complete and accepts pods; it is never undone."""

from dovetail.controllers.context import ControllerBase
from dovetail.core.nodeclaim.lifecycle import (
    get_uninitialized_reason,
    refresh_condition,
    set_claim_condition,
    set_unmet_condition,
)
from dovetail.model import labels as label_keys
from dovetail.model.karpenter.condition_types import INITIALIZED, REGISTERED
from dovetail.model.karpenter.nodeclaim import NodeClaim
from dovetail.model.kube.conditions import TRUE, is_true
from dovetail.ports.api_resources import NODES


class Initializer(ControllerBase):
    """Labels initialized Nodes."""

    async def initialize(self, claim: NodeClaim) -> NodeClaim:
        """Return the NodeClaim with the condition; the caller writes it."""
        now = self._loop.now()
        if is_true(claim.conditions, INITIALIZED):
            return refresh_condition(claim, now, INITIALIZED)
        if not is_true(claim.conditions, REGISTERED):
            return claim
        nodes = self._cache.nodes_of(claim.provider_id)
        unmet = get_uninitialized_reason(claim, nodes)
        if unmet is not None:
            return set_unmet_condition(claim, now, INITIALIZED, unmet)
        node = nodes[0]
        if label_keys.INITIALIZED not in node.labels:
            label = {"metadata": {"labels": {label_keys.INITIALIZED: "true"}}}
            await self._kube.patch(NODES, node.name, label)
        return set_claim_condition(claim, now, INITIALIZED, TRUE)
