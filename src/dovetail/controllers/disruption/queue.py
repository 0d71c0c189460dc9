"""Disruption queue: waits for replacements, then deletes the replaced NodeClaims.

    executor creates replacements -> queue waits until they are initialized
        -> DELETE the replaced NodeClaims, or ROLL_BACK: remove taints, keep the nodes

A replacement is recorded in annotations of the new NodeClaims, so that the
queue continues after a restart.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from dovetail.controllers.context import ControllerBase, ControllerContext
from dovetail.controllers.disrupted_taint import DisruptedTaints
from dovetail.controllers.disruption.executor import DisruptionCause, delete_nodeclaims
from dovetail.controllers.event_reasons import DISRUPTION_LAUNCHING, DISRUPTION_WAITING_READINESS
from dovetail.controllers.patches import annotations_patch, patch_if_exists
from dovetail.controllers.runtime.manager import SYNC_POLL, Controller, RequeueAfter, is_unchanged
from dovetail.core.disruption.registry import METHODS, get_methods
from dovetail.core.disruption.replacement import (
    Replacement,
    ReplacementAction,
    ReplacementContext,
    ReplacementStatus,
    decode_replacement,
    evaluate_replacement,
)
from dovetail.model import labels as label_keys
from dovetail.model.karpenter.condition_types import DISRUPTION_REASON, INITIALIZED, LAUNCHED
from dovetail.model.karpenter.nodeclaim import NodeClaim
from dovetail.model.karpenter.nodepool import DisruptionReason
from dovetail.model.kube.conditions import is_true
from dovetail.ports.api_resources import NODE_CLAIMS, NODES
from dovetail.ports.metrics import DISRUPTION_QUEUE_FAILURES
from dovetail.state.cluster.cache import ObjectChange
from dovetail.state.nodes.replacements import Replacements

NAME: Final = "disruption.queue"
_REPLACEMENT_ANNOTATIONS: Final = (label_keys.REPLACES_ANNOTATION, label_keys.REPLACEMENTS_ANNOTATION)


class DisruptionQueue(ControllerBase):
    """Reconciles one replacement per key."""

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._replacements = Replacements(context.cache)
        self._taints = DisruptedTaints(context)
        self._initialize_metrics()

    def _initialize_metrics(self) -> None:
        """Start all series at 0: Prometheus sees no increase in a series that begins at 1."""
        for method in METHODS:
            for nodes in (1, 2):
                cause = DisruptionCause(method.reason, method.consolidation_type(nodes), "replace")
                self._metrics.inc(DISRUPTION_QUEUE_FAILURES, cause.labels, by=0)

    def handle_claim(self, change: ObjectChange) -> Iterable[str]:
        """Reconcile the replacements that a NodeClaim is part of."""
        claims = [claim for claim in (change.old, change.new) if claim is not None]
        return sorted({key for claim in claims for key in self._replacements.get_keys(claim)})

    def handle_node(self, change: ObjectChange) -> Iterable[str]:
        """Reconcile a node's replacements when its taints change."""
        if is_unchanged(change, lambda node: node.taints):
            return ()
        claims = self._cache.claims_of(change.latest.provider_id)
        return [key for claim in claims for key in self._replacements.get_keys(claim)]

    async def reconcile(self, key: str) -> RequeueAfter | None:
        # Observe.
        if not self._cache.has_synced():
            return SYNC_POLL
        replacement = self._replacements.get(key)
        if replacement is None:
            return None
        now = self._loop.now()

        # Decide.
        status = evaluate_replacement(
            replacement,
            ReplacementContext(
                now=now,
                get_claim=self._cache.claim,
                is_tainted=self._accepts_no_pods,
                waiting_nodes=self._replacements.count_waiting_nodes(),
            ),
        )

        # Act and report.
        if status.action is ReplacementAction.DELETE:
            cause = _get_cause(replacement, status.remaining)
            await delete_nodeclaims(self._context, status.remaining, cause)
            self._log.debug("command succeeded", replacements=key)
        elif status.action is ReplacementAction.ROLL_BACK:
            await self._roll_back(replacement, status)
        elif status.action is ReplacementAction.WAIT:
            self._publish_waiting(status.uninitialized)
        return RequeueAfter(status.deadline - now) if status.deadline is not None else None

    def _accepts_no_pods(self, claim: NodeClaim) -> bool:
        # Without a node, no pod can be bound.
        return self._taints.is_tainted(claim) or not self._cache.nodes_of(claim.provider_id)

    async def _roll_back(self, replacement: Replacement, status: ReplacementStatus) -> None:
        """Keep the replaced nodes.

        First the new NodeClaims lose their replacement annotations. After a crash
        in between, taints without replacement are left, which the disruption
        controller removes.
        """
        cause = _get_cause(replacement, status.remaining)
        self._log.error(
            "disruption failed, its node(s) are kept",
            nodeclaims=", ".join(claim.name for claim in status.remaining),
            reason=cause.reason.lower(),
            error=status.message,
        )
        failed = [name for name in replacement.new_claims if not self._is_initialized(name)]
        self._metrics.inc(DISRUPTION_QUEUE_FAILURES, cause.labels, by=len(failed))
        for name in replacement.new_claims:
            claim = self._cache.claim(name)
            if claim is not None and decode_replacement(claim) == replacement:
                await self._remove_annotations(claim)
        for claim in status.remaining:
            await self._taints.remove(claim)

    def _is_initialized(self, name: str) -> bool:
        claim = self._cache.claim(name)
        return claim is not None and is_true(claim.conditions, INITIALIZED)

    async def _remove_annotations(self, claim: NodeClaim) -> None:
        patch = annotations_patch(dict.fromkeys(_REPLACEMENT_ANNOTATIONS))
        await patch_if_exists(self._kube, NODE_CLAIMS, claim.name, patch)

    def _publish_waiting(self, claims: Iterable[NodeClaim]) -> None:
        for claim in claims:
            if is_true(claim.conditions, LAUNCHED):
                event, message = DISRUPTION_WAITING_READINESS, "Waiting on readiness to continue"
            else:
                event, message = DISRUPTION_LAUNCHING, f"Launching NodeClaim: {claim.name}"
            self._events.publish(claim, event, message)


def controller(context: ControllerContext) -> Controller:
    """Return the registration of this controller."""
    reconciler = DisruptionQueue(context)
    return Controller(
        name=NAME,
        reconciler=reconciler,
        watches=((NODE_CLAIMS, reconciler.handle_claim), (NODES, reconciler.handle_node)),
    )


def _get_cause(replacement: Replacement, remaining: Sequence[NodeClaim]) -> DisruptionCause:
    """Return the cause of a replacement, from the conditions of the replaced NodeClaims."""
    reasons = [
        claim.conditions[DISRUPTION_REASON].reason
        for claim in remaining
        if DISRUPTION_REASON in claim.conditions
    ]
    methods = get_methods(reasons[0]) if reasons else ()
    # Methods that share a reason share its metric labels.
    (method, *_) = methods or get_methods(DisruptionReason.DRIFTED)
    consolidation_type = method.consolidation_type(len(replacement.replaced))
    return DisruptionCause(method.reason, consolidation_type, "replace")
