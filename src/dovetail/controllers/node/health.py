"""Node repair: deletes NodeClaims of nodes that stay unhealthy.

If more than 20% of a NodePool's nodes are unhealthy, the cause is probably not
the nodes, and none is repaired.
"""

from collections.abc import Iterable
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Final

from dovetail.controllers.context import ControllerBase, ControllerContext
from dovetail.controllers.event_reasons import NODE_REPAIR_BLOCKED
from dovetail.controllers.nodeclaim_deletion import delete_nodeclaim, set_termination_deadline, to_snake_case
from dovetail.controllers.runtime.manager import Controller, RequeueAfter, is_unchanged
from dovetail.core.node.drain import decode_termination_deadline
from dovetail.core.node.health import exceeds_unhealthy_share, find_unhealthy_condition
from dovetail.errors import DovetailError
from dovetail.model import labels as label_keys
from dovetail.model.karpenter.nodeclaim import NodeClaim
from dovetail.model.node import NodeObject
from dovetail.ports.api_resources import NODES
from dovetail.ports.metrics import NODECLAIMS_UNHEALTHY_DISRUPTED, UnhealthyLabels
from dovetail.state.cluster.cache import ObjectChange

REASON: Final = "unhealthy"
_BLOCKED_RETRY: Final = RequeueAfter(timedelta(minutes=5))


class NodeHealthController(ControllerBase):
    """Reconciles a node when its conditions change, and when a toleration ends.

    Ignores budgets, do-not-disrupt annotations and grace periods: pods do not run
    well on an unhealthy node.
    """

    async def reconcile(self, name: str) -> RequeueAfter | None:
        # Observe.
        node = self._cache.node(name)
        claims = self._cache.claims_of(node.provider_id) if node is not None else ()
        if node is None or len(claims) != 1:
            return None
        (claim,) = claims
        unhealthy = find_unhealthy_condition(node.conditions)
        if unhealthy is None or claim.deleting or not claim.node_class.is_supported:
            return None

        # Decide.
        now = self._loop.now()
        if now < unhealthy.repair_at:
            return RequeueAfter(unhealthy.repair_at - now)
        message = self._get_blocked_message(claim)
        if message:
            self._events.publish(node, NODE_REPAIR_BLOCKED, message)
            return _BLOCKED_RETRY

        # Act.
        if not await self._expire_deadline(claim, now):
            return None
        if not await delete_nodeclaim(self._context, claim, REASON):
            return None

        # Report.
        self._log.info(
            "deleting unhealthy node", node=node.name, nodeclaim=claim.name, cause=unhealthy.condition
        )
        self._record_metric(claim, unhealthy.condition)
        return None

    def _get_blocked_message(self, claim: NodeClaim) -> str:
        """Return why no node is repaired; empty if repair is not blocked."""
        pool = claim.pool
        nodes = list(self._get_nodes(pool) if pool else self._cache.nodes())
        unhealthy = sum(find_unhealthy_condition(node.conditions) is not None for node in nodes)
        if not exceeds_unhealthy_share(unhealthy, len(nodes)):
            return ""
        scope = f"NodePool {pool!r}" if pool else "the cluster"
        return f"{unhealthy} of {len(nodes)} nodes of {scope} are unhealthy, more than 20%"

    def _get_nodes(self, pool: str) -> Iterable[NodeObject]:
        for claim in self._cache.claims_in(pool):
            yield from self._cache.nodes_of(claim.provider_id)

    async def _expire_deadline(self, claim: NodeClaim, now: datetime) -> bool:
        """Set the termination deadline to now, unless it is in the past already."""
        with suppress(DovetailError):  # An invalid annotation is overwritten.
            deadline = decode_termination_deadline(claim)
            if deadline is not None and deadline <= now:
                return True
        return await set_termination_deadline(self._context, claim, now)

    def _record_metric(self, claim: NodeClaim, condition: str) -> None:
        self._metrics.inc(
            NODECLAIMS_UNHEALTHY_DISRUPTED,
            UnhealthyLabels(
                condition=to_snake_case(condition),
                nodepool=claim.pool,
                capacity_type=claim.labels.get(label_keys.CAPACITY_TYPE, ""),
                image_id=claim.image_id,
            ),
        )


def controller(context: ControllerContext) -> Controller | None:
    """Return the registration, None if its feature gate is off."""
    if not context.feature_gates.NodeRepair:
        return None
    return Controller(
        name="node.health", reconciler=NodeHealthController(context), watches=[(NODES, _handle_node)]
    )


def _handle_node(change: ObjectChange) -> Iterable[str]:
    if change.new is None or is_unchanged(change, lambda node: node.conditions):
        return ()
    return (change.new.name,)
