"""What is told about disruption, to those who watch nodes, pools and pods."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final

from dovetail.controllers.pod.disruption_events import tell_remark
from dovetail.core.disruption.budgets import Reason
from dovetail.core.disruption.candidates import Candidate, Machine
from dovetail.core.disruption.command import Move, Stay
from dovetail.model.karpenter.nodeclaim import NodeClaim
from dovetail.model.karpenter.nodepool import ConsolidationPolicy, NodePool
from dovetail.model.kube.pod import Pod
from dovetail.model.node import NodeObject
from dovetail.ports.api_resources import NODE_CLAIMS, NODE_POOLS, NODES
from dovetail.ports.telemetry import DEDUPE, Events

_POOL_DEDUPE: Final = timedelta(minutes=1)
_STAY_DEDUPE: Final = timedelta(minutes=45)
"""Kubernetes forgets Events after an hour: until then nobody need be told the same again."""


class Announcements:
    """Events about disruption; each in its own words, all with the reference's reasons."""

    def __init__(self, events: Events) -> None:
        self._events = events

    def blocked(self, machine: Machine, because: str) -> None:
        """Tell a machine that would go what keeps it."""
        if because:
            self._both(machine.node, machine.claim, "DisruptionBlocked", because, DEDUPE)

    def unconsolidatable(self, machine: Machine, because: str) -> None:
        """Tell a machine that consolidation is nothing for it."""
        self._both(machine.node, machine.claim, "Unconsolidatable", because, _STAY_DEDUPE)

    def stays(self, known: Mapping[str, Candidate], stays: Iterable[Stay]) -> None:
        """Tell nodes that were looked at why they stay; one answer of a kind is enough.

        ``known`` are candidates by the names of their nodes.
        """
        for stay in stays:
            one = known.get(stay.node)
            if one is not None and stay.code not in _EVERYDAY:
                same = (stay.node, stay.code)
                self._both(
                    one.node, one.claim, "Unconsolidatable", stay.because, _STAY_DEDUPE, same
                )

    def held(self, candidates: Iterable[Candidate], stays: Iterable[Stay]) -> None:
        """Tell nodes that have to go what keeps them."""
        known = {one.node.name: one for one in candidates}
        for stay in stays:
            one = known[stay.node]
            self._both(one.node, one.claim, "DisruptionBlocked", stay.because, DEDUPE)

    def proposed(self, move: Move) -> None:
        """Tell nodes that they are about to go, and pools what they agreed to."""
        buys = len(move.replacements)
        what = f"replaced by {buys} node(s)" if buys else "deleted"
        message = f"To be {what}, which saves ${move.saving:.4f} an hour"
        for one in move.removed:
            same = (one.node.name, what)
            self._both(one.node, one.claim, "ConsolidationCandidate", message, DEDUPE, same)
        self._approved(move, message)

    def _approved(self, move: Move, message: str) -> None:
        balanced = [
            one
            for one in move.removed
            if one.pool.disruption.policy is ConsolidationPolicy.BALANCED
        ]
        if not balanced:
            return
        if len(move.removed) == 1:
            (one,) = balanced
            self._both(one.node, one.claim, "ConsolidationApproved", message, DEDUPE)
            return
        for pool in {one.pool.name: one.pool for one in balanced}.values():
            self._of_pool(pool, "ConsolidationApproved", message, DEDUPE)

    def rejected(self, move: Move, code: str, because: str) -> None:
        """Tell nodes that what was found for them does not hold any more."""
        message = f"{code}: {because}"
        for one in move.removed:
            same = (one.node.name, code)
            self._both(one.node, one.claim, "ConsolidationRejected", message, DEDUPE, same)

    def no_budget(self, pool: NodePool, reason: Reason, mistakes: Sequence[str]) -> None:
        """Tell a pool that its budgets let no more nodes go, or that one cannot be read."""
        message = f"No allowed disruptions for disruption reason {reason} due to blocking budget"
        if mistakes:
            message += f" that cannot be read: {'; '.join(mistakes)}"
        self._of_pool(pool, "DisruptionBlocked", message, _POOL_DEDUPE)

    def of_pods(self, pods: Iterable[Pod], now: datetime) -> None:
        """Tell pods how their own wishes about disruption are understood."""
        for pod in pods:
            tell_remark(self._events, pod, now)

    def _of_pool(self, pool: NodePool, reason: str, message: str, dedupe: timedelta) -> None:
        self._events.publish(
            NODE_POOLS, pool.name, uid=pool.uid, reason=reason, message=message, dedupe=dedupe
        )

    def _both(
        self,
        node: NodeObject | None,
        claim: NodeClaim | None,
        reason: str,
        message: str,
        dedupe: timedelta,
        same: tuple[str, ...] = (),
    ) -> None:
        for resource, one in ((NODES, node), (NODE_CLAIMS, claim)):
            if one is not None:
                self._events.publish(
                    resource,
                    one.name,
                    uid=one.uid,
                    reason=reason,
                    message=message,
                    dedupe=dedupe,
                    same=(resource.plural, *same) if same else (),
                )


_EVERYDAY: Final = frozenset({"budget", "receives"})
"""Codes of nodes that are only not their turn yet."""
