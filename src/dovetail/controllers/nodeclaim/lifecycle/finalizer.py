"""Finalizer of NodeClaims: Nodes are deleted first, then the instance terminates.

``controllers/node/termination.py`` says who terminates an instance when.
"""

from dovetail.codec.patches.nodeclaims import status_patch
from dovetail.codec.quantities import encode_time
from dovetail.controllers.context import ControllerBase, ControllerContext
from dovetail.controllers.event_reasons import TERMINATION_GRACE_PERIOD_EXPIRING
from dovetail.controllers.nodeclaim.lifecycle.launch import Launcher
from dovetail.controllers.runtime.manager import RequeueAfter
from dovetail.core.nodeclaim.lifecycle import (
    get_new_drain_deadline,
    get_termination_poll_interval,
    set_claim_condition,
)
from dovetail.model import labels as label_keys
from dovetail.model.karpenter.condition_types import INSTANCE_TERMINATING, REGISTERED
from dovetail.model.karpenter.nodeclaim import NodeClaim
from dovetail.model.kube.conditions import TRUE, is_true
from dovetail.ports.api_resources import NODE_CLAIMS, NODES
from dovetail.ports.cloudprovider import InstanceNotFoundError
from dovetail.ports.kube_errors import NotFound
from dovetail.ports.metrics import (
    NODECLAIMS_INSTANCE_TERMINATION_DURATION,
    NODECLAIMS_TERMINATED,
    NODECLAIMS_TERMINATION_DURATION,
    NodeClaimTerminatedLabels,
    NodePoolLabels,
)


class Finalizer(ControllerBase):
    """Removes the finalizer of a NodeClaim once its Nodes and its instance are gone."""

    def __init__(self, context: ControllerContext, launcher: Launcher) -> None:
        super().__init__(context)
        self._launcher = launcher

    async def finalize(self, claim: NodeClaim) -> RequeueAfter | None:
        """Advance the deletion of a NodeClaim."""
        if label_keys.TERMINATION_FINALIZER not in claim.finalizers:
            return None
        claim = await self._set_deadline(claim)
        if is_true(claim.conditions, REGISTERED) and await self._delete_nodes(claim):
            return None  # The watch event of the last Node triggers the next reconcile.
        provider_id = self._launcher.get_provider_id(claim)
        if provider_id:
            is_gone = await self._terminate(provider_id)
            claim = await self._set_terminating(claim)
            if not is_gone:
                return RequeueAfter(get_termination_poll_interval(claim, self._loop.now()))
        await self._remove_finalizer(claim)
        self._report(claim)
        return None

    async def _set_deadline(self, claim: NodeClaim) -> NodeClaim:
        """Annotate the NodeClaim with the end of its termination grace period."""
        deadline = get_new_drain_deadline(claim)
        if deadline is None:
            return claim
        text = encode_time(deadline) or ""
        metadata = {
            "resourceVersion": claim.resource_version,
            "annotations": {label_keys.TERMINATION_TIMESTAMP: text},
        }
        await self._kube.patch(NODE_CLAIMS, claim.name, {"metadata": metadata})
        self._log.info("annotated nodeclaim", nodeclaim=claim.name, deadline=text)
        message = f"All pods will be deleted by {text}"
        self._events.publish(claim, TERMINATION_GRACE_PERIOD_EXPIRING, message, dedupe_key=(claim.name,))
        return self._cache.claim(claim.name) or claim

    async def _delete_nodes(self, claim: NodeClaim) -> bool:
        """Delete all Nodes of a NodeClaim; return True while any is left."""
        for node in self._cache.nodes_of(claim.provider_id):
            if node.deleting:
                continue
            try:
                await self._kube.delete(NODES, node.name, uid=node.uid)
            except NotFound:
                continue  # Deleted by another client.
        return bool(self._cache.nodes_of(claim.provider_id))

    async def _terminate(self, provider_id: str) -> bool:
        """Request the termination of an instance; return True once it is gone."""
        try:
            await self._cloud_provider.delete(provider_id)
        except InstanceNotFoundError:
            return True
        return False

    async def _set_terminating(self, claim: NodeClaim) -> NodeClaim:
        after = set_claim_condition(claim, self._loop.now(), INSTANCE_TERMINATING, TRUE)
        patch = status_patch(claim, after)
        if not patch:
            return claim
        await self._kube.patch(NODE_CLAIMS, claim.name, patch, subresource="status")
        return self._cache.claim(claim.name) or claim

    async def _remove_finalizer(self, claim: NodeClaim) -> None:
        remaining = [name for name in claim.finalizers if name != label_keys.TERMINATION_FINALIZER]
        metadata = {"resourceVersion": claim.resource_version, "finalizers": remaining or None}
        await self._kube.patch(NODE_CLAIMS, claim.name, {"metadata": metadata})
        self._launcher.forget(claim)

    def _report(self, claim: NodeClaim) -> None:
        self._log.info("deleted nodeclaim", nodeclaim=claim.name, provider_id=claim.provider_id)
        now, pool = self._loop.now(), claim.pool
        self._metrics.inc(
            NODECLAIMS_TERMINATED,
            NodeClaimTerminatedLabels(
                nodepool=pool,
                capacity_type=claim.labels.get(label_keys.CAPACITY_TYPE, ""),
                zone=claim.labels.get(label_keys.ZONE, ""),
            ),
        )
        terminating = claim.conditions.get(INSTANCE_TERMINATING)
        terminating_since = None if terminating is None else terminating.last_transition_time
        for histogram, since in (
            (NODECLAIMS_TERMINATION_DURATION, claim.deleted_at),
            (NODECLAIMS_INSTANCE_TERMINATION_DURATION, terminating_since),
        ):
            if since is not None:
                seconds = (now - since).total_seconds()
                self._metrics.observe(histogram, seconds, NodePoolLabels(nodepool=pool))
