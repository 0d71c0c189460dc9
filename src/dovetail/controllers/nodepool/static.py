"""Static NodePools: launches missing nodes and deletes surplus ones.

A NodePool with ``replicas`` keeps that number of nodes, whatever pods need.
"""

from collections.abc import Iterable
from datetime import timedelta
from typing import Final

from dovetail.codec.karpenter.nodeclaims import encode_nodeclaim
from dovetail.controllers.context import ControllerBase, ControllerContext
from dovetail.controllers.nodeclaim_deletion import delete_nodeclaim
from dovetail.controllers.runtime.manager import SYNC_POLL, Controller, RequeueAfter, raise_first
from dovetail.core.nodepool.static import (
    ClaimPods,
    count_missing,
    group_claims,
    limit_to_headroom,
    select_surplus,
)
from dovetail.core.provisioning import build_template_claim, can_launch
from dovetail.model.karpenter.nodepool import NodePool
from dovetail.ports.api_resources import NODE_CLAIMS, NODE_POOLS
from dovetail.ports.metrics import NODECLAIMS_CREATED, NodeClaimCreatedLabels
from dovetail.state.cluster.cache import ObjectChange

_INTERVAL: Final = RequeueAfter(timedelta(minutes=1))
_LIMIT_RETRY: Final = RequeueAfter(timedelta(seconds=30))


class StaticProvisioner(ControllerBase):
    """Creates the NodeClaims that a static NodePool lacks, up to its limits."""

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._random = context.random

    async def reconcile(self, name: str) -> RequeueAfter | None:
        # Observe.
        pool = self._cache.pool(name)
        if pool is None or pool.replicas is None or not can_launch(pool):
            return None
        if not self._cache.has_synced():
            return SYNC_POLL
        claims = group_claims(self._cache.claims_in(name))

        # Decide.
        missing = count_missing(pool, claims)
        if missing <= 0:
            return _INTERVAL
        count = limit_to_headroom(pool, claims, missing)
        if count == 0:
            self._log.info("nodepool has reached its limit", nodepool=name, nodes_missing=missing)
            return _LIMIT_RETRY

        # Act and report.
        raise_first(await self._loop.gather([self._create(pool) for _ in range(count)]))
        return _INTERVAL

    async def _create(self, pool: NodePool) -> None:
        claim = build_template_claim(pool, name=f"{pool.name}-{self._random.alphanumeric(5)}")
        await self._kube.create(NODE_CLAIMS, encode_nodeclaim(claim))
        self._log.info("created nodeclaim", nodepool=pool.name, nodeclaim=claim.name)
        labels = NodeClaimCreatedLabels(reason="provisioned", nodepool=pool.name, min_values_relaxed="false")
        self._metrics.inc(NODECLAIMS_CREATED, labels)


class StaticDeprovisioner(ControllerBase):
    """Deletes the surplus NodeClaims of a static NodePool."""

    async def reconcile(self, name: str) -> RequeueAfter | None:
        # Observe.
        pool = self._cache.pool(name)
        if pool is None or pool.replicas is None or not pool.template.node_class.is_supported:
            return None
        claims = [
            ClaimPods(claim, self._cache.pods_on(claim.node_name))
            for claim in group_claims(self._cache.claims_in(name)).active
        ]

        # Decide.
        surplus = select_surplus(pool, claims, self._loop.now())

        # Act.
        deletions = [delete_nodeclaim(self._context, claim, "scaled_down") for claim in surplus]
        raise_first(await self._loop.gather(deletions))

        # Report.
        if surplus:
            names = ", ".join(claim.name for claim in surplus)
            self._log.info("deleting surplus nodeclaim(s)", nodepool=name, nodeclaims=names)
        return _INTERVAL


def provisioning_controller(context: ControllerContext) -> Controller | None:
    """Return the registration of static.provisioning, None if its feature gate is off."""
    if not context.feature_gates.StaticCapacity:
        return None
    return Controller(
        name="static.provisioning",
        reconciler=StaticProvisioner(context),
        watches=((NODE_POOLS, _handle_scale_up), (NODE_CLAIMS, _handle_deleted_claim)),
    )


def deprovisioning_controller(context: ControllerContext) -> Controller | None:
    """Return the registration of static.deprovisioning, None if its feature gate is off."""
    if not context.feature_gates.StaticCapacity:
        return None
    return Controller(
        name="static.deprovisioning",
        reconciler=StaticDeprovisioner(context),
        watches=((NODE_POOLS, _handle_scale_down), (NODE_CLAIMS, _handle_created_claim)),
    )


def _handle_scale_up(change: ObjectChange) -> Iterable[str]:
    """Reconcile a NodePool when ``replicas`` changes or it becomes ready."""
    old, new = change.old, change.new
    if new is None or new.replicas is None:
        return ()
    if old is None or old.replicas != new.replicas or (can_launch(new) and not can_launch(old)):
        return (new.name,)
    return ()


def _handle_scale_down(change: ObjectChange) -> Iterable[str]:
    old, new = change.old, change.new
    if new is None or new.replicas is None or (old is not None and old.replicas == new.replicas):
        return ()
    return (new.name,)


def _handle_deleted_claim(change: ObjectChange) -> Iterable[str]:
    old, new = change.old, change.new
    return (old.pool,) if old is not None and (new is None or (new.deleting and not old.deleting)) else ()


def _handle_created_claim(change: ObjectChange) -> Iterable[str]:
    return (change.new.pool,) if change.old is None else ()
