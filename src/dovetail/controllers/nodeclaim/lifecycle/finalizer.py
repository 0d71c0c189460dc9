"""The end of a claim: its nodes go first, then its machine, then the claim itself."""

from typing import Protocol

from dovetail.codec.patches.nodeclaims import status_patch
from dovetail.codec.quantities import show_instant
from dovetail.controllers.runtime.manager import Requeue
from dovetail.core.nodeclaim.lifecycle import (
    INSTANCE_TERMINATING,
    REGISTERED,
    drain_deadline,
    next_look,
    stated,
)
from dovetail.model import labels as label_keys
from dovetail.model.karpenter.nodeclaim import NodeClaim
from dovetail.model.kube.conditions import TRUE, is_true
from dovetail.ports.api_resources import NODE_CLAIMS, NODES
from dovetail.ports.cloudprovider import Cloud, InstanceNotFound
from dovetail.ports.event_loop import Clock
from dovetail.ports.kube_client import Kube
from dovetail.ports.kube_errors import NotFound
from dovetail.ports.telemetry import Events, Log, Metrics
from dovetail.state.cluster.cache import Mirror


class Purchases(Protocol):
    """Remembers machines that are bought and not yet written down."""

    def unwritten(self, claim: NodeClaim) -> str: ...

    def forget(self, claim: NodeClaim) -> None: ...


class Finalizer:
    """Lets a claim go once nothing is left that it stands for."""

    def __init__(
        self,
        *,
        mirror: Mirror,
        kube: Kube,
        cloud: Cloud,
        clock: Clock,
        purchases: Purchases,
        log: Log,
        events: Events,
        metrics: Metrics,
    ) -> None:
        self._mirror = mirror
        self._kube = kube
        self._cloud = cloud
        self._clock = clock
        self._purchases = purchases
        self._log = log
        self._events = events
        self._metrics = metrics

    async def finalize(self, claim: NodeClaim) -> Requeue | None:
        """Take the next step of a claim that is being deleted."""
        if label_keys.TERMINATION_FINALIZER not in claim.finalizers:
            return None
        claim = await self._with_deadline(claim)
        if is_true(claim.conditions, REGISTERED) and await self._has_nodes(claim):
            return None  # Their going is told.
        provider_id = claim.provider_id or self._purchases.unwritten(claim)
        if provider_id:
            gone = await self._terminate(provider_id)
            claim = await self._note_terminating(claim)
            if not gone:
                return Requeue(after=next_look(claim, self._clock.now()))
        await self._let_go(claim)
        return None

    async def _with_deadline(self, claim: NodeClaim) -> NodeClaim:
        deadline = drain_deadline(claim)
        if deadline is None:
            return claim
        text = show_instant(deadline) or ""
        await self._kube.patch(
            NODE_CLAIMS,
            claim.name,
            {
                "metadata": {
                    "resourceVersion": claim.resource_version,
                    "annotations": {label_keys.TERMINATION_TIMESTAMP: text},
                }
            },
        )
        self._log.info("annotated nodeclaim", nodeclaim=claim.name, deadline=text)
        self._events.publish(
            NODE_CLAIMS,
            claim.name,
            uid=claim.uid,
            reason="TerminationGracePeriodExpiring",
            message=f"All pods will be deleted by {text}",
            warning=True,
            same=(claim.name,),
        )
        return self._mirror.claim(claim.name) or claim

    async def _has_nodes(self, claim: NodeClaim) -> bool:
        for node in self._mirror.nodes_of(claim.provider_id):
            if node.deleting:
                continue
            try:
                await self._kube.delete(NODES, node.name, uid=node.uid)
            except NotFound:
                continue  # Somebody was quicker.
        return bool(self._mirror.nodes_of(claim.provider_id))

    async def _terminate(self, provider_id: str) -> bool:
        """Have the machine terminate; True once it has."""
        try:
            await self._cloud.delete(provider_id)
        except InstanceNotFound:
            return True
        return False

    async def _note_terminating(self, claim: NodeClaim) -> NodeClaim:
        after = stated(claim, self._clock.now(), INSTANCE_TERMINATING, TRUE)
        patch = status_patch(claim, after)
        if not patch:
            return claim
        await self._kube.patch(NODE_CLAIMS, claim.name, patch, subresource="status")
        return self._mirror.claim(claim.name) or claim

    async def _let_go(self, claim: NodeClaim) -> None:
        left = [one for one in claim.finalizers if one != label_keys.TERMINATION_FINALIZER]
        meta = {"resourceVersion": claim.resource_version, "finalizers": left or None}
        await self._kube.patch(NODE_CLAIMS, claim.name, {"metadata": meta})
        self._purchases.forget(claim)

        self._log.info("deleted nodeclaim", nodeclaim=claim.name, provider_id=claim.provider_id)
        now, pool = self._clock.now(), claim.pool
        self._metrics.count(
            "karpenter_nodeclaims_terminated_total",
            nodepool=pool,
            capacity_type=claim.labels.get(label_keys.CAPACITY_TYPE, ""),
            zone=claim.labels.get(label_keys.ZONE, ""),
        )
        terminating = claim.conditions.get(INSTANCE_TERMINATING)
        asked_at = None if terminating is None else terminating.since
        for name, since in (
            ("termination_duration_seconds", claim.deleted_at),
            ("instance_termination_duration_seconds", asked_at),
        ):
            if since is not None:
                seconds = (now - since).total_seconds()
                self._metrics.observe(f"karpenter_nodeclaims_{name}", seconds, nodepool=pool)
