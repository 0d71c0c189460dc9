"""Recent moves: nodes launched for pods that consolidation has just moved.

A command plans where the pods of a node go, but kube-scheduler binds their successors
as it likes: it prefers the emptiest node. In a well filled cluster the last pods then
find no room, and a node is launched for them. That node is nearly empty, so that it
would be consolidated after ``consolidateAfter``, with the same result: the same pods
would move every minute, and nodes would live for hardly more.

Such a node is kept for ``REST``, unless it becomes empty, drifts or expires. All other
nodes are consolidated after ``consolidateAfter``, as ever.

The same can happen to the pods of that node, and so on: without a change of load, a move
that failed fails again. Each failure in a row doubles the rest, up to ``MAX_REST``.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from dovetail.controllers.context import ControllerBase, ControllerContext
from dovetail.model.karpenter.condition_types import DISRUPTION_REASON, INITIALIZED
from dovetail.model.karpenter.nodeclaim import NodeClaim
from dovetail.model.karpenter.nodepool import DisruptionReason
from dovetail.model.kube.conditions import is_true
from dovetail.model.kube.pod import OwnerReference, Pod
from dovetail.model.labels import ASSIGNED_PODS_ANNOTATION, REPLACES_ANNOTATION
from dovetail.state.cluster.cache import ObjectChange

REST: Final = timedelta(minutes=5)
"""Time after initialization in which such a node is not consolidated."""
MAX_REST: Final = timedelta(hours=1)
"""The same after several moves in a row that failed."""
_MAX_FAILURES: Final = 5
"""Failures that count: the rest after that many exceeds ``MAX_REST``, and a timedelta is limited."""
SUCCESSION: Final = timedelta(minutes=1)
"""Time after an eviction in which a pending pod of the same owner counts as moved."""

_Owner = tuple[str, OwnerReference]
"""Namespace and owner."""


class _Move(NamedTuple):
    until: datetime
    """Until when pending pods of the owner count as moved."""
    failures: int
    """Moves in a row that had failed before."""


class RecentMoves(ControllerBase):
    """Observes evictions by consolidation, and the NodeClaims created for moved pods.

    In memory: after a restart, ``consolidateAfter`` alone counts.
    """

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._moves: dict[_Owner, _Move] = {}
        """Owner → its last move, oldest first."""
        self._failures: dict[str, int] = {}
        """NodeClaim that was created for moved pods → moves in a row that failed."""

    def handle_pod(self, change: ObjectChange) -> None:
        """Note the owner of a pod that is evicted from a consolidated node."""
        old, new = change.old, change.new
        if old is None or old.deleting or (new is not None and not new.deleting):
            return
        claims = self._get_claims(old.node_name)
        if not _are_consolidated(claims):
            # The load has changed: the next move may succeed.
            self._failures.update((claim.name, 0) for claim in claims if claim.name in self._failures)
        elif old.owner is not None:
            now = self._loop.now()
            for owner in [owner for owner, move in self._moves.items() if move.until <= now]:
                del self._moves[owner]
            key = (old.namespace, old.owner)
            earlier = self._moves.pop(key).failures if key in self._moves else 0
            failures = max(earlier, self._count_failures(claims))
            self._moves[key] = _Move(now + SUCCESSION, failures)

    def handle_claim(self, change: ObjectChange) -> None:
        """Note a NodeClaim that is created for moved pods."""
        claim: NodeClaim | None = change.new
        if claim is None:
            self._failures.pop(change.latest.name, None)
        elif change.old is None:
            counts = [self._get_failures(pod) for pod in self._get_assigned_pods(claim)]
            failures = max((count for count in counts if count is not None), default=None)
            if failures is not None:
                is_planned = REPLACES_ANNOTATION in claim.annotations
                self._failures[claim.name] = failures if is_planned else min(failures + 1, _MAX_FAILURES)

    def rests_until(self, claim: NodeClaim) -> datetime | None:
        """Return until when consolidation keeps a node; None if it was launched for other pods."""
        failures = self._failures.get(claim.name)
        if failures is None or not is_true(claim.conditions, INITIALIZED):
            return None
        since = claim.conditions[INITIALIZED].last_transition_time
        return None if since is None else since + min(MAX_REST, REST * 2 ** max(0, failures - 1))

    def _get_assigned_pods(self, claim: NodeClaim) -> list[Pod]:
        entries = claim.annotations.get(ASSIGNED_PODS_ANNOTATION, "").split(",")
        pods = (self._cache.pod(*entry.split("/")[:2]) for entry in entries if "/" in entry)
        return [pod for pod in pods if pod is not None]

    def _get_failures(self, pod: Pod) -> int | None:
        """Return how many moves of a pod have failed in a row; None if it was not moved."""
        if pod.node_name:
            claims = self._get_claims(pod.node_name)
            return self._count_failures(claims) if _are_consolidated(claims) else None
        move = self._moves.get((pod.namespace, pod.owner)) if pod.owner is not None else None
        return move.failures if move is not None and self._loop.now() < move.until else None

    def _count_failures(self, claims: Iterable[NodeClaim]) -> int:
        return max((self._failures.get(claim.name, 0) for claim in claims), default=0)

    def _get_claims(self, node_name: str) -> Sequence[NodeClaim]:
        node = self._cache.node(node_name)
        return self._cache.claims_of(node.provider_id) if node is not None else ()


def _are_consolidated(claims: Iterable[NodeClaim]) -> bool:
    """Return True if a node is deleted or replaced because it is underutilized."""
    return any(
        (condition := claim.conditions.get(DISRUPTION_REASON)) is not None
        and condition.reason == DisruptionReason.UNDERUTILIZED
        for claim in claims
    )
