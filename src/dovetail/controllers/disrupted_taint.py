"""The disrupted taint of Nodes, and the DisruptionReason condition of NodeClaims.

``karpenter.sh/disrupted:NoSchedule`` keeps new pods off a node that a disruption
command has selected or that is being terminated.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from dovetail.codec.patches.nodeclaims import status_patch
from dovetail.codec.patches.nodes import with_taint, without_taint
from dovetail.controllers.context import ControllerBase, ControllerContext
from dovetail.core.conditions import clear_condition
from dovetail.core.nodeclaim.lifecycle import set_claim_condition
from dovetail.model.karpenter.condition_types import DISRUPTION_REASON
from dovetail.model.karpenter.nodeclaim import NodeClaim
from dovetail.model.karpenter.nodepool import DisruptionReason
from dovetail.model.kube.conditions import TRUE
from dovetail.model.kube.taints import DISRUPTED_TAINT
from dovetail.model.node import NodeObject
from dovetail.ports.api_resources import NODE_CLAIMS, NODES
from dovetail.state.cluster.cache import ObjectChange

_NO_LABELS: Mapping[str, str] = {}


async def add_disrupted_taint(
    context: ControllerContext, node: NodeObject, labels: Mapping[str, str] = _NO_LABELS
) -> None:
    """Taint a node so that no new pods are scheduled to it, and add labels."""
    is_tainted = DISRUPTED_TAINT in node.taints
    if is_tainted and all(node.labels.get(key) == value for key, value in labels.items()):
        return
    current = await context.kube.get(NODES, node.name)
    patch = _build_patch(current, with_taint(current, DISRUPTED_TAINT), labels)
    await context.kube.patch(NODES, node.name, patch)
    if not is_tainted:
        context.log.info("tainted node", node=node.name, taint=str(DISRUPTED_TAINT))


class DisruptedTaints(ControllerBase):
    """Adds and removes the taint of a Node together with its NodeClaim's condition."""

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._tainted_nodes: set[str] = set()
        self._disrupted_claims: set[str] = set()
        """Names of NodeClaims with the condition."""
        self._cache.subscribe(NODES, self._handle_node)
        self._cache.subscribe(NODE_CLAIMS, self._handle_claim)

    def find_disrupted(self) -> list[NodeClaim]:
        """Return the NodeClaims that have the condition, or whose Node has the taint, by name."""
        nodes = [node for name in self._tainted_nodes if (node := self._cache.node(name)) is not None]
        names = {claim.name for node in nodes for claim in self._cache.claims_of(node.provider_id)}
        claims = map(self._cache.claim, sorted(names | self._disrupted_claims))
        return [claim for claim in claims if claim is not None]

    def _handle_node(self, change: ObjectChange) -> None:
        is_tainted = change.new is not None and DISRUPTED_TAINT in change.new.taints
        (self._tainted_nodes.add if is_tainted else self._tainted_nodes.discard)(change.latest.name)

    def _handle_claim(self, change: ObjectChange) -> None:
        is_disrupted = change.new is not None and DISRUPTION_REASON in change.new.conditions
        (self._disrupted_claims.add if is_disrupted else self._disrupted_claims.discard)(change.latest.name)

    def is_tainted(self, claim: NodeClaim) -> bool:
        nodes = self._cache.nodes_of(claim.provider_id)
        return any(DISRUPTED_TAINT in node.taints for node in nodes)

    async def add(self, claim: NodeClaim, node: NodeObject, reason: DisruptionReason) -> None:
        """Taint the Node, then set the condition."""
        await add_disrupted_taint(self._context, node)
        claim = self._cache.claim(claim.name) or claim
        now = self._loop.now()
        await self._write(claim, set_claim_condition(claim, now, DISRUPTION_REASON, TRUE, reason.value))

    async def remove(self, claim: NodeClaim) -> None:
        """Remove taint and condition, and the assignments of the node's pods."""
        for node in self._cache.nodes_of(claim.provider_id):
            self._context.assignments.release(self._cache.pods_on(node.name))
            if DISRUPTED_TAINT in node.taints and not node.deleting:
                current = await self._kube.get(NODES, node.name)
                patch = _build_patch(current, without_taint(current, DISRUPTED_TAINT), _NO_LABELS)
                await self._kube.patch(NODES, node.name, patch)
                self._log.info("untainted node", node=node.name, taint=str(DISRUPTED_TAINT))
        claim = self._cache.claim(claim.name) or claim
        conditions = clear_condition(claim.conditions, DISRUPTION_REASON)
        await self._write(claim, msgspec.structs.replace(claim, conditions=conditions))

    async def _write(self, before: NodeClaim, after: NodeClaim) -> None:
        patch = status_patch(before, after)
        if patch:
            await self._kube.patch(NODE_CLAIMS, before.name, patch, subresource="status")


def _build_patch(
    node: Mapping[str, Any], taints: list[dict[str, Any]], labels: Mapping[str, str]
) -> dict[str, Any]:
    """Return a patch with optimistic lock: a merge patch replaces the whole taint list."""
    metadata: dict[str, Any] = {"resourceVersion": node["metadata"]["resourceVersion"]}
    if labels:
        metadata["labels"] = dict(labels)
    return {"metadata": metadata, "spec": {"taints": taints}}
