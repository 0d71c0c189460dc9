"""Consistency: reports nodes with less capacity than their NodeClaim; nothing else."""

from datetime import datetime, timedelta
from typing import Final

from dovetail.controllers.context import ControllerBase, ControllerContext
from dovetail.controllers.event_reasons import FAILED_CONSISTENCY_CHECK
from dovetail.controllers.patches import write_claim_status
from dovetail.controllers.runtime.manager import Controller, RequeueAfter, enqueue_object
from dovetail.core.nodeclaim.consistency import find_missing_capacity
from dovetail.core.nodeclaim.lifecycle import set_claim_condition
from dovetail.model.karpenter.condition_types import CONSISTENT_STATE_FOUND
from dovetail.model.kube.conditions import FALSE, TRUE
from dovetail.ports.api_resources import NODE_CLAIMS, NODES
from dovetail.state.cluster.cache import ObjectChange

CHECK_INTERVAL: Final = timedelta(minutes=10)


class ConsistencyController(ControllerBase):
    """Compares a NodeClaim with its Node, at most once per ``CHECK_INTERVAL``."""

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._checked: dict[str, tuple[str, datetime]] = {}
        """NodeClaim name → its UID, and when it was checked."""

    async def reconcile(self, name: str) -> RequeueAfter | None:
        # Observe.
        claim = self._cache.claim(name)
        if claim is None:
            self._checked.pop(name, None)
            return None
        nodes = self._cache.nodes_of(claim.provider_id)
        if not claim.node_class.is_supported or claim.deleting or len(nodes) != 1:
            return None
        now = self._loop.now()
        uid, checked_at = self._checked.get(name, ("", now))
        if uid == claim.uid and now - checked_at < CHECK_INTERVAL:
            return RequeueAfter(checked_at + CHECK_INTERVAL - now)
        self._checked[name] = (claim.uid, now)

        # Decide.
        errors = find_missing_capacity(claim, nodes[0])
        status = (FALSE, "ConsistencyCheckFailed", "; ".join(errors)) if errors else (TRUE,)
        after = set_claim_condition(claim, now, CONSISTENT_STATE_FOUND, *status)

        # Act.
        if not await write_claim_status(self._kube, claim, after):
            return None

        # Report.
        for message in errors:
            self._log.error("consistency error", nodeclaim=name, error=message)
            self._events.publish(claim, FAILED_CONSISTENCY_CHECK, message)
        return RequeueAfter(CHECK_INTERVAL)


def controller(context: ControllerContext) -> Controller:
    """Return the registration of this controller."""

    def handle_node(change: ObjectChange) -> list[str]:
        if change.old is not None or change.new is None:
            return []
        return [claim.name for claim in context.cache.claims_of(change.new.provider_id)]

    return Controller(
        name="nodeclaim.consistency",
        reconciler=ConsistencyController(context),
        watches=[(NODE_CLAIMS, enqueue_object), (NODES, handle_node)],
        workers=10,
    )
