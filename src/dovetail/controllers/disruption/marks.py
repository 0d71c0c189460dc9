"""Marks machines that are to go: the node's taint and the claim's DisruptionReason."""

from typing import Final

import msgspec

from dovetail.codec.patches.nodeclaims import status_patch
from dovetail.controllers.disrupted_taint import put_mark, take_mark
from dovetail.core.conditions import cleared
from dovetail.core.disruption.budgets import Reason
from dovetail.core.nodeclaim.lifecycle import stated
from dovetail.model.karpenter.nodeclaim import NodeClaim
from dovetail.model.kube.conditions import TRUE
from dovetail.model.kube.taints import DISRUPTED
from dovetail.model.node import NodeObject
from dovetail.ports.api_resources import NODE_CLAIMS
from dovetail.ports.event_loop import Clock
from dovetail.ports.kube_client import Kube
from dovetail.ports.telemetry import Log
from dovetail.state.cluster.cache import Mirror
from dovetail.state.pods.assignments import Promises

DISRUPTION_REASON: Final = "DisruptionReason"


class Marks:
    """Puts both marks on a machine, and takes both off."""

    def __init__(
        self, *, mirror: Mirror, promises: Promises, kube: Kube, clock: Clock, log: Log
    ) -> None:
        self._mirror = mirror
        self._promises = promises
        self._kube = kube
        self._clock = clock
        self._log = log

    def has(self, claim: NodeClaim) -> bool:
        """Tell whether a machine has any of its marks."""
        return DISRUPTION_REASON in claim.conditions or self.tainted(claim)

    def tainted(self, claim: NodeClaim) -> bool:
        """Tell whether new pods are kept away from a claim's node."""
        return any(DISRUPTED in one.taints for one in self._mirror.nodes_of(claim.provider_id))

    async def put(self, claim: NodeClaim, node: NodeObject, reason: Reason) -> None:
        """Keep new pods away from a node, and say why."""
        await put_mark(node, kube=self._kube, log=self._log)
        claim = self._mirror.claim(claim.name) or claim
        now = self._clock.now()
        await self._write(claim, stated(claim, now, DISRUPTION_REASON, TRUE, reason.value))

    async def take(self, claim: NodeClaim) -> None:
        """Let a node live on: pods may come, and those that are there stay."""
        for node in self._mirror.nodes_of(claim.provider_id):
            self._promises.release(self._mirror.pods_on(node.name))
            if DISRUPTED in node.taints and not node.deleting:
                await take_mark(node, kube=self._kube, log=self._log)
        claim = self._mirror.claim(claim.name) or claim
        after = msgspec.structs.replace(
            claim, conditions=cleared(claim.conditions, DISRUPTION_REASON)
        )
        await self._write(claim, after)

    async def _write(self, before: NodeClaim, after: NodeClaim) -> None:
        patch = status_patch(before, after)
        if patch:
            await self._kube.patch(NODE_CLAIMS, before.name, patch, subresource="status")
