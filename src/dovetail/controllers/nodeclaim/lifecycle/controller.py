"""NodeClaim lifecycle: launch, registration, initialization and finalizer.

::

    created -> launch -> registration -> initialization
    deleted -> finalizer: delete Nodes -> terminate the instance -> remove the finalizer

``liveness.py`` deletes NodeClaims that do not advance in time.
"""

from collections.abc import Iterable
from datetime import timedelta
from typing import Final

from dovetail.codec.patches.nodeclaims import metadata_patch, status_patch
from dovetail.controllers.context import ControllerBase, ControllerContext
from dovetail.controllers.nodeclaim.lifecycle.finalizer import Finalizer
from dovetail.controllers.nodeclaim.lifecycle.initialization import Initializer
from dovetail.controllers.nodeclaim.lifecycle.launch import Launcher, LaunchFailure, NodeClaimDeleted
from dovetail.controllers.nodeclaim.lifecycle.registration import Registrar
from dovetail.controllers.nodepool.registration_health import RegistrationOutcomes
from dovetail.controllers.runtime.manager import Controller, RequeueAfter, is_unchanged
from dovetail.controllers.runtime.workqueue import Backoff
from dovetail.core.nodeclaim.lifecycle import (
    LaunchResult,
    refresh_condition,
    set_launched,
    set_unmet_condition,
)
from dovetail.errors import DovetailError
from dovetail.model import labels as label_keys
from dovetail.model.karpenter.condition_types import INITIALIZED, LAUNCHED, REGISTERED
from dovetail.model.karpenter.nodeclaim import NodeClaim
from dovetail.model.kube.conditions import is_true
from dovetail.ports.api_resources import NODE_CLAIMS, NODES
from dovetail.ports.kube_errors import Conflict, NotFound
from dovetail.ports.metrics import NODES_CREATED, NodeLabels
from dovetail.state.cluster.cache import ObjectChange

_CONFLICT_RETRY: Final = RequeueAfter(timedelta(milliseconds=100))
_BACKOFF: Final = Backoff(first=timedelta(seconds=1), limit=timedelta(seconds=60))


class LifecycleController(ControllerBase):
    """Advances one NodeClaim as far as instance and Node allow."""

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._launcher = Launcher(context)
        self._registrar = Registrar(context)
        self._initializer = Initializer(context)
        self._finalizer = Finalizer(context, self._launcher)
        self._outcomes = RegistrationOutcomes(context)

    async def reconcile(self, name: str) -> RequeueAfter | None:
        claim = self._cache.claim(name)
        if claim is None or not claim.node_class.is_supported:
            return None
        try:
            if claim.deleting:
                return await self._finalizer.finalize(claim)
            return await self._advance(claim)
        except Conflict:
            return _CONFLICT_RETRY  # Another client was first; the cache has its write.
        except NotFound:
            return None  # NodeClaim or Node was deleted; its watch event follows.

    async def _advance(self, claim: NodeClaim) -> RequeueAfter | None:
        # The finalizer first: without it, a deleted NodeClaim would leave its instance behind.
        await self._add_finalizer(claim)
        launch = await self._launcher.launch(claim)
        # A launch takes seconds: read the NodeClaim again.
        before = self._cache.claim(claim.name)
        if before is None or before.uid != claim.uid or isinstance(launch, NodeClaimDeleted):
            return None

        # Each step continues with the result of the previous one; one write at the end.
        error: DovetailError | None = None
        now = self._loop.now()
        if isinstance(launch, LaunchResult):
            after = set_launched(before, launch, now)
        elif isinstance(launch, LaunchFailure):
            after, error = set_unmet_condition(before, now, LAUNCHED, launch.condition), launch.error
        else:
            after = refresh_condition(before, now, LAUNCHED)
        registration = await self._registrar.register(after)
        after = await self._initializer.initialize(registration.claim)
        if _became_true(REGISTERED, before, after):
            await self._outcomes.record_success(after)
        await self._write(before, after)

        self._report(before, after)
        error = error or registration.error
        if error is not None:
            raise error
        delay = registration.requeue_after
        return None if delay is None else RequeueAfter(delay)

    async def _add_finalizer(self, claim: NodeClaim) -> None:
        if label_keys.TERMINATION_FINALIZER in claim.finalizers:
            return
        metadata = {
            "resourceVersion": claim.resource_version,
            "finalizers": [*claim.finalizers, label_keys.TERMINATION_FINALIZER],
        }
        await self._kube.patch(NODE_CLAIMS, claim.name, {"metadata": metadata})

    async def _write(self, before: NodeClaim, after: NodeClaim) -> None:
        version = before.resource_version
        patch = metadata_patch(before, after)
        if patch:
            written = await self._kube.patch(NODE_CLAIMS, before.name, patch)
            version = written["metadata"]["resourceVersion"]
        patch = status_patch(before, after, version)
        if patch:
            await self._kube.patch(NODE_CLAIMS, before.name, patch, subresource="status")

    def _report(self, before: NodeClaim, after: NodeClaim) -> None:
        zone = after.labels.get(label_keys.ZONE, "")
        common = {"nodeclaim": after.name, "provider_id": after.provider_id}
        if _became_true(LAUNCHED, before, after):
            self._log.info(
                "launched nodeclaim",
                **common,
                instance_type=after.labels.get(label_keys.INSTANCE_TYPE, ""),
                zone=zone,
                capacity_type=after.labels.get(label_keys.CAPACITY_TYPE, ""),
                allocatable=after.allocatable.to_quantities(),
            )
        if _became_true(REGISTERED, before, after):
            self._log.info("registered nodeclaim", **common, node=after.node_name)
            self._metrics.inc(NODES_CREATED, NodeLabels(nodepool=after.pool, zone=zone))
        if _became_true(INITIALIZED, before, after):
            allocatable = after.allocatable.to_quantities()
            self._log.info("initialized nodeclaim", **common, node=after.node_name, allocatable=allocatable)

    def handle_claim(self, change: ObjectChange) -> Iterable[str]:
        """Reconcile a NodeClaim unless only its metadata or status changed.

        This controller writes those itself; a second reconcile would repeat its
        API calls.
        """
        return () if is_unchanged(change, _get_state) else (change.latest.name,)

    def handle_node(self, change: ObjectChange) -> Iterable[str]:
        """Reconcile the NodeClaim of a Node."""
        ids = {node.provider_id for node in (change.old, change.new) if node is not None}
        return [claim.name for provider_id in sorted(ids) for claim in self._cache.claims_of(provider_id)]


def controller(context: ControllerContext) -> Controller:
    """Return the registration of this controller."""
    reconciler = LifecycleController(context)
    return Controller(
        name="nodeclaim.lifecycle",
        reconciler=reconciler,
        watches=[(NODE_CLAIMS, reconciler.handle_claim), (NODES, reconciler.handle_node)],
        backoff=_BACKOFF,
        workers=1000,
    )


def _became_true(condition_type: str, before: NodeClaim, after: NodeClaim) -> bool:
    return is_true(after.conditions, condition_type) and not is_true(before.conditions, condition_type)


def _get_state(claim: NodeClaim) -> tuple[object, ...]:
    return claim.uid, claim.generation, claim.deleting
