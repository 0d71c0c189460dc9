"""Gives claims and nodes from before our time the label of their node class."""

from dovetail.controllers.runtime.manager import Registration
from dovetail.model.karpenter.nodeclaim import NodeClaim
from dovetail.ports.api_resources import NODE_CLAIMS, NODES
from dovetail.ports.kube_client import Kube
from dovetail.ports.kube_errors import NotFound
from dovetail.state.cluster.cache import Change, Mirror


class Hydration:
    """Labels a claim, and the nodes of its machine."""

    def __init__(self, *, mirror: Mirror, kube: Kube) -> None:
        self._mirror = mirror
        self._kube = kube

    async def reconcile(self, name: str) -> None:
        claim = self._mirror.claim(name)
        if claim is None or not claim.node_class.supported:
            return
        key, value = claim.node_class.label
        patch = {"metadata": {"labels": {key: value}}}
        try:
            if key not in claim.labels:
                await self._kube.patch(NODE_CLAIMS, name, patch)
            for node in self._mirror.nodes_of(claim.provider_id):
                if key not in node.labels:
                    await self._kube.patch(NODES, node.name, patch)
        except NotFound:
            return  # It went meanwhile.


def registration(*, mirror: Mirror, kube: Kube) -> Registration:
    """Return the controller."""

    def unlabelled_claim(change: Change) -> list[str]:
        claim: NodeClaim | None = change.new
        if claim is None or claim.node_class.label[0] in claim.labels:
            return []
        return [claim.name]

    def claims_of_unlabelled_node(change: Change) -> list[str]:
        if change.new is None:
            return []
        return [
            claim.name
            for claim in mirror.claims_of(change.new.provider_id)
            if claim.node_class.label[0] not in change.new.labels
        ]

    return Registration(
        name="nodeclaim.hydration",
        controller=Hydration(mirror=mirror, kube=kube),
        watches=[(NODE_CLAIMS, unlabelled_claim), (NODES, claims_of_unlabelled_node)],
    )
