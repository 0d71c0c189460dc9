"""Counter: keeps ``status.resources`` and ``status.nodes`` of NodePools."""

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Final

import msgspec

from dovetail.controllers.context import ControllerBase, ControllerContext
from dovetail.controllers.patches import write_pool_status
from dovetail.controllers.runtime.manager import SYNC_POLL, Controller, RequeueAfter, is_unchanged
from dovetail.core.nodepool.status import compute_usage
from dovetail.model.karpenter.condition_types import INSTANCE_TERMINATING
from dovetail.model.karpenter.nodeclaim import NodeClaim
from dovetail.model.kube.conditions import is_true
from dovetail.model.kube.resources import CPU
from dovetail.model.node import Node, NodeObject
from dovetail.ports.api_resources import NODE_CLAIMS, NODE_POOLS, NODES
from dovetail.ports.metrics import NODEPOOLS_USAGE, ResourceLabels
from dovetail.state.cluster.cache import ObjectChange

MIN_INTERVAL: Final = timedelta(seconds=1)
"""Minimum time between two counts of a NodePool: a thousand new nodes need few counts."""


class CounterController(ControllerBase):
    """Counts the nodes of one NodePool and their capacity."""

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._counted_at: dict[str, datetime] = {}

    async def reconcile(self, name: str) -> RequeueAfter | None:
        # Observe.
        pool = self._cache.pool(name)
        if pool is None or not pool.template.node_class.is_supported:
            self._counted_at.pop(name, None)
            return None
        if not self._cache.has_synced():
            return SYNC_POLL
        now = self._loop.now()
        counted_at = self._counted_at.get(name)
        if counted_at is not None and now < counted_at + MIN_INTERVAL:
            return RequeueAfter(counted_at + MIN_INTERVAL - now)
        self._counted_at[name] = now

        # Decide.
        usage, count = compute_usage(self._get_nodes(name))

        # Act.
        after = msgspec.structs.replace(pool, resources=usage, node_count=count)
        await write_pool_status(self._kube, pool, after)

        # Report. Resources that no node has any more, e.g. GPUs, become 0.
        for resource in {*usage, *(pool.resources or ())}:
            amount = usage.get(resource, 0)
            # The model has milli-CPU, the metric cores.
            value = amount / 1000 if resource == CPU else amount
            self._metrics.set(NODEPOOLS_USAGE, value, ResourceLabels(nodepool=name, resource_type=resource))
        return None

    def _get_nodes(self, pool: str) -> Iterable[Node]:
        for claim in self._cache.claims_in(pool):
            node = self._cache.joined_node(claim.provider_id) if claim.provider_id else None
            if node is not None:
                yield node

    def handle_claim(self, change: ObjectChange) -> Iterable[str]:
        """Count when a NodeClaim is launched or deleted."""
        if is_unchanged(change, _get_claim_state):
            return ()
        return sorted({claim.pool for claim in (change.old, change.new) if claim is not None} - {""})

    def handle_node(self, change: ObjectChange) -> Iterable[str]:
        """Count when a Node is created, deleted or resized, not after heartbeats."""
        if is_unchanged(change, _get_node_state):
            return ()
        ids = {node.provider_id for node in (change.old, change.new) if node is not None}
        claims = [claim for provider_id in ids for claim in self._cache.claims_of(provider_id)]
        return sorted({claim.pool for claim in claims} - {""})


def controller(context: ControllerContext) -> Controller:
    """Return the registration of this controller."""
    reconciler = CounterController(context)
    return Controller(
        name="nodepool.counter",
        reconciler=reconciler,
        watches=[
            (NODE_POOLS, _handle_nodepool),
            (NODE_CLAIMS, reconciler.handle_claim),
            (NODES, reconciler.handle_node),
        ],
    )


def _handle_nodepool(change: ObjectChange) -> Iterable[str]:
    return (change.latest.name,) if change.old is None or change.new is None else ()


def _get_claim_state(claim: NodeClaim) -> tuple[object, ...]:
    """Return the fields that counts depend on."""
    terminating = is_true(claim.conditions, INSTANCE_TERMINATING)
    return claim.pool, claim.provider_id, claim.capacity, claim.deleting, terminating


def _get_node_state(node: NodeObject) -> tuple[object, ...]:
    """Return the fields that counts depend on."""
    return node.provider_id, node.capacity, node.deleting, node.labels
