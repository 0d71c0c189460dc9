"""Consolidatable: sets the condition once no pod event happened for ``consolidateAfter``."""

from collections.abc import Iterable

import msgspec

from dovetail.controllers.context import ControllerBase, ControllerContext
from dovetail.controllers.patches import write_claim_status
from dovetail.controllers.runtime.manager import Controller, RequeueAfter, enqueue_object, is_unchanged
from dovetail.core.conditions import clear_condition
from dovetail.core.nodeclaim.lifecycle import set_claim_condition
from dovetail.core.nodeclaim.pod_events import get_consolidatable_time
from dovetail.model.karpenter.condition_types import CONSOLIDATABLE
from dovetail.model.kube.conditions import TRUE, is_true
from dovetail.ports.api_resources import NODE_CLAIMS, NODE_POOLS
from dovetail.state.cluster.cache import ObjectChange


class ConsolidatableController(ControllerBase):
    """Sets and clears the Consolidatable condition of a NodeClaim."""

    async def reconcile(self, name: str) -> RequeueAfter | None:
        # Observe.
        claim = self._cache.claim(name)
        if claim is None or claim.deleting or not claim.node_class.is_supported:
            return None
        pool = self._cache.pool(claim.pool)
        if pool is None or pool.replicas is not None:
            return None

        # Decide.
        now = self._loop.now()
        due = get_consolidatable_time(claim, pool.disruption.consolidate_after)
        is_due, was_set = due is not None and due <= now, is_true(claim.conditions, CONSOLIDATABLE)
        if is_due:
            after = set_claim_condition(claim, now, CONSOLIDATABLE, TRUE)
        else:
            conditions = clear_condition(claim.conditions, CONSOLIDATABLE)
            after = msgspec.structs.replace(claim, conditions=conditions)

        # Act.
        if not await write_claim_status(self._kube, claim, after):
            return None

        # Report.
        if is_due and not was_set:
            self._log.debug("marking consolidatable", nodeclaim=name)
        elif was_set and not is_due:
            self._log.debug("removing consolidatable status condition", nodeclaim=name)
        return RequeueAfter(due - now) if due is not None and due > now else None


def controller(context: ControllerContext) -> Controller:
    """Return the registration of this controller."""

    def handle_nodepool(change: ObjectChange) -> Iterable[str]:
        if change.new is None or is_unchanged(change, lambda pool: pool.disruption):
            return ()
        return [claim.name for claim in context.cache.claims_in(change.new.name)]

    return Controller(
        name="nodeclaim.disruption",
        reconciler=ConsolidatableController(context),
        watches=[(NODE_CLAIMS, enqueue_object), (NODE_POOLS, handle_nodepool)],
    )
