"""Initialization: the node is complete and takes pods; there is no way back."""

from dovetail.core.nodeclaim.lifecycle import (
    INITIALIZED,
    REGISTERED,
    refreshed,
    stated,
    uninitialized,
    unmet,
)
from dovetail.model import labels as label_keys
from dovetail.model.karpenter.nodeclaim import NodeClaim
from dovetail.model.kube.conditions import TRUE, is_true
from dovetail.ports.api_resources import NODES
from dovetail.ports.event_loop import Clock
from dovetail.ports.kube_client import Kube
from dovetail.state.cluster.cache import Mirror


class Initializer:
    """Says of a registered node that it is complete."""

    def __init__(self, *, mirror: Mirror, kube: Kube, clock: Clock) -> None:
        self._mirror = mirror
        self._kube = kube
        self._clock = clock

    async def initialize(self, claim: NodeClaim) -> NodeClaim:
        """Return the claim after looking at its node; nothing is written to the claim."""
        now = self._clock.now()
        if is_true(claim.conditions, INITIALIZED):
            return refreshed(claim, now, INITIALIZED)
        if not is_true(claim.conditions, REGISTERED):
            return claim
        nodes = self._mirror.nodes_of(claim.provider_id)
        why = uninitialized(claim, nodes)
        if why is not None:
            return unmet(claim, now, INITIALIZED, why)
        node = nodes[0]
        if label_keys.INITIALIZED not in node.labels:
            label = {"metadata": {"labels": {label_keys.INITIALIZED: "true"}}}
            await self._kube.patch(NODES, node.name, label)
        return stated(claim, now, INITIALIZED, TRUE)
