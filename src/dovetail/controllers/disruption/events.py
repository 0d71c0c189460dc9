"""Events about disruption: why nodes are kept, and what commands do."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Final

from dovetail.controllers.event_reasons import (
    CONSOLIDATION_APPROVED,
    CONSOLIDATION_CANDIDATE,
    CONSOLIDATION_REJECTED,
    DISRUPTION_BLOCKED,
    NODEPOOL_DISRUPTION_BLOCKED,
    UNCONSOLIDATABLE,
)
from dovetail.controllers.pod.disruption_events import publish_disruption_event
from dovetail.core.disruption.candidates import Candidate, StateNode
from dovetail.core.disruption.command import Command, KeepReason
from dovetail.model.karpenter.nodeclaim import NodeClaim
from dovetail.model.karpenter.nodepool import ConsolidationPolicy, DisruptionReason, NodePool
from dovetail.model.kube.pod import Pod
from dovetail.model.node import NodeObject
from dovetail.ports.api_resources import NODE_CLAIMS, NODES
from dovetail.ports.telemetry import EventReason, EventRecorder

_TEMPORARY_CODES: Final = frozenset({"budget", "receives"})
"""Keep reasons of nodes that a later scan may disrupt; they get no Event."""


class DisruptionEvents:
    """Publishes Events on the Node and the NodeClaim, or on the NodePool."""

    def __init__(self, events: EventRecorder) -> None:
        self._events = events

    def publish_blocked(self, state_node: StateNode, message: str) -> None:
        if message:
            self._publish(state_node.node, state_node.claim, DISRUPTION_BLOCKED, message)

    def publish_unconsolidatable(self, state_node: StateNode, message: str) -> None:
        self._publish(state_node.node, state_node.claim, UNCONSOLIDATABLE, message)

    def publish_keep_reasons(
        self, candidates: Mapping[str, Candidate], keep_reasons: Iterable[KeepReason]
    ) -> None:
        """Publish why candidates are kept, once per code; candidates are by node name."""
        for reason in keep_reasons:
            candidate = candidates.get(reason.node)
            if candidate is not None and reason.code not in _TEMPORARY_CODES:
                # Not by message, because prices in messages change.
                key = (reason.node, reason.code)
                self._publish(candidate.node, candidate.claim, UNCONSOLIDATABLE, reason.message, key)

    def publish_blocked_candidates(
        self, candidates: Iterable[Candidate], keep_reasons: Iterable[KeepReason]
    ) -> None:
        """Publish why nodes that must be replaced are kept."""
        by_node = {candidate.node.name: candidate for candidate in candidates}
        for reason in keep_reasons:
            candidate = by_node[reason.node]
            self._publish(candidate.node, candidate.claim, DISRUPTION_BLOCKED, reason.message)

    def publish_proposed(self, command: Command) -> None:
        """Publish a command that waits for its validation."""
        count = len(command.replacements)
        action = f"replaced by {count} node(s)" if count else "deleted"
        message = f"To be {action}, which saves ${command.saving:.4f} an hour"
        for candidate in command.candidates:
            key = (candidate.node.name, action)
            self._publish(candidate.node, candidate.claim, CONSOLIDATION_CANDIDATE, message, key)
        self._publish_approved(command, message)

    def _publish_approved(self, command: Command, message: str) -> None:
        balanced = [
            candidate
            for candidate in command.candidates
            if candidate.pool.disruption.policy is ConsolidationPolicy.BALANCED
        ]
        if not balanced:
            return
        if len(command.candidates) == 1:
            (candidate,) = balanced
            self._publish(candidate.node, candidate.claim, CONSOLIDATION_APPROVED, message)
            return
        for pool in {candidate.pool.name: candidate.pool for candidate in balanced}.values():
            self._events.publish(pool, CONSOLIDATION_APPROVED, message)

    def publish_rejected(self, command: Command, code: str, message: str) -> None:
        """Publish that a command failed its validation."""
        for candidate in command.candidates:
            self._publish(
                candidate.node,
                candidate.claim,
                CONSOLIDATION_REJECTED,
                f"{code}: {message}",
                (candidate.node.name, code),
            )

    def publish_budget_exhausted(
        self, pool: NodePool, reason: DisruptionReason, errors: Sequence[str]
    ) -> None:
        message = f"No allowed disruptions for disruption reason {reason} due to blocking budget"
        if errors:
            message += f" that is invalid: {'; '.join(errors)}"
        self._events.publish(pool, NODEPOOL_DISRUPTION_BLOCKED, message)

    def publish_pod_events(self, pods: Iterable[Pod], now: datetime) -> None:
        """Publish how do-not-disrupt annotations of pods are interpreted."""
        for pod in pods:
            publish_disruption_event(self._events, pod, now)

    def _publish(
        self,
        node: NodeObject | None,
        claim: NodeClaim | None,
        event: EventReason,
        message: str,
        dedupe_key: tuple[str, ...] = (),
    ) -> None:
        if node is not None:
            key = (NODES.plural, *dedupe_key) if dedupe_key else ()
            self._events.publish(node, event, message, dedupe_key=key)
        if claim is not None:
            key = (NODE_CLAIMS.plural, *dedupe_key) if dedupe_key else ()
            self._events.publish(claim, event, message, dedupe_key=key)
