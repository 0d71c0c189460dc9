"""Recent moves: nodes launched for pods that consolidation has just moved.

A command plans where the pods of a node go, but kube-scheduler binds their successors
as it likes: it prefers the emptiest node. In a well filled cluster the last pods then
find no room, and a node is launched for them. That node is nearly empty, so that it
would be consolidated after ``consolidateAfter``, with the same result: the same pods
would move every minute, and nodes would live for hardly more.

Such a node is kept for ``REST``, unless it becomes empty, drifts or expires. All other
nodes are consolidated after ``consolidateAfter``, as ever.
"""

from datetime import datetime, timedelta
from typing import Final

from dovetail.controllers.context import ControllerBase, ControllerContext
from dovetail.model.karpenter.condition_types import DISRUPTION_REASON, INITIALIZED
from dovetail.model.karpenter.nodeclaim import NodeClaim
from dovetail.model.karpenter.nodepool import DisruptionReason
from dovetail.model.kube.conditions import is_true
from dovetail.model.kube.pod import OwnerReference, Pod
from dovetail.model.labels import ASSIGNED_PODS_ANNOTATION
from dovetail.state.cluster.cache import ObjectChange

REST: Final = timedelta(minutes=5)
"""Time after initialization in which such a node is not consolidated."""
SUCCESSION: Final = timedelta(minutes=1)
"""Time after an eviction in which a pending pod of the same owner counts as moved."""

_Owner = tuple[str, OwnerReference]
"""Namespace and owner."""


class RecentMoves(ControllerBase):
    """Observes evictions by consolidation, and the NodeClaims created for moved pods.

    In memory: after a restart, ``consolidateAfter`` alone counts.
    """

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._moved_until: dict[_Owner, datetime] = {}
        """Owner → until when its pending pods count as moved, oldest first."""
        self._resting: set[str] = set()
        """NodeClaims that were created for moved pods."""

    def handle_pod(self, change: ObjectChange) -> None:
        """Note the owner of a pod that is evicted from a consolidated node."""
        old, new = change.old, change.new
        has_left = old is not None and not old.deleting and (new is None or new.deleting)
        if has_left and old.owner is not None and self._is_consolidated(old.node_name):
            now = self._loop.now()
            for owner in [owner for owner, until in self._moved_until.items() if until <= now]:
                del self._moved_until[owner]
            self._moved_until[old.namespace, old.owner] = now + SUCCESSION

    def handle_claim(self, change: ObjectChange) -> None:
        """Note a NodeClaim that is created for moved pods."""
        if change.new is None:
            self._resting.discard(change.latest.name)
        elif change.old is None and any(map(self._is_moved, self._get_assigned_pods(change.new))):
            self._resting.add(change.new.name)

    def rests_until(self, claim: NodeClaim) -> datetime | None:
        """Return until when consolidation keeps a node; None if it was launched for other pods."""
        if claim.name not in self._resting or not is_true(claim.conditions, INITIALIZED):
            return None
        since = claim.conditions[INITIALIZED].last_transition_time
        return None if since is None else since + REST

    def _get_assigned_pods(self, claim: NodeClaim) -> list[Pod]:
        entries = claim.annotations.get(ASSIGNED_PODS_ANNOTATION, "").split(",")
        pods = (self._cache.pod(*entry.split("/")[:2]) for entry in entries if "/" in entry)
        return [pod for pod in pods if pod is not None]

    def _is_moved(self, pod: Pod) -> bool:
        if pod.node_name:
            return self._is_consolidated(pod.node_name)
        until = self._moved_until.get((pod.namespace, pod.owner)) if pod.owner is not None else None
        return until is not None and self._loop.now() < until

    def _is_consolidated(self, node_name: str) -> bool:
        """Return True if a node is deleted or replaced because it is underutilized."""
        node = self._cache.node(node_name)
        claims = self._cache.claims_of(node.provider_id) if node is not None else ()
        return any(
            (condition := claim.conditions.get(DISRUPTION_REASON)) is not None
            and condition.reason == DisruptionReason.UNDERUTILIZED
            for claim in claims
        )
