"""Pod assignments: pending pods and the NodeClaims that were launched for them."""

from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta

from dovetail.model.karpenter.condition_types import INITIALIZED
from dovetail.model.karpenter.nodeclaim import NodeClaim
from dovetail.model.kube.conditions import is_true
from dovetail.model.kube.pod import Pod
from dovetail.model.labels import ASSIGNED_PODS_ANNOTATION, REPLACES_ANNOTATION
from dovetail.ports import api_resources as kinds
from dovetail.state.cluster.cache import ClusterCache, ObjectChange
from dovetail.state.nodes.initialization_stall import is_initialization_stalled

BINDING_TIMEOUT = timedelta(seconds=30)
"""Time for a pod to be bound after initialization, before it is scheduled again.

kube-scheduler retries an unschedulable pod within ten seconds, but it binds the pods
of a large plan one after the other.
"""
NOMINATED_BINDING_TIMEOUT = timedelta(minutes=5)
"""The same while one of the pods is still nominated for the node.

kube-scheduler clears the nomination of a pod that it rejects, so these pods may not
have been tried yet. After five minutes it retries every pod.
"""
CHECK_AFTER = timedelta(seconds=10)
"""Time after initialization until a node that does not accept its pods is found.

Equal to the longest backoff of kube-scheduler. A pod that it rejects may keep its
nomination for minutes: changes of a node that do not help a pod cause no new attempt.
"""


class PodAssignments:
    """Assigns each pod to the NodeClaim that was launched for it.

    Without assignments every scheduling pass would pack the same pending pods again.
    A slightly worse packing would then launch a node for the rest. NodeClaims name
    their pods in an annotation, so that a restart restores the assignments.
    """

    def __init__(self, cache: ClusterCache) -> None:
        self._cache = cache
        self._claim_by_pod: dict[str, str] = {}
        self._pods_by_claim: dict[str, dict[str, tuple[str, str]]] = {}
        self._undecoded_claims: set[str] = set()
        """NodeClaims created by another process, usually before a restart."""
        cache.subscribe(kinds.PODS, self._on_pod)
        cache.subscribe(kinds.NODE_CLAIMS, self._on_claim)

    def assign(self, claim: str, pods: Iterable[Pod]) -> None:
        """Assign pods to a NodeClaim; replaces earlier assignments of these pods.

        Running pods can be assigned to an existing node: they move there when their
        node is deleted, and are not scheduled elsewhere until then.

        A decision takes time: pods that were bound or deleted since are not assigned.
        """
        for pod in pods:
            self._remove(pod.uid)
            if self._needs_node(pod):
                self._claim_by_pod[pod.uid] = claim
                self._pods_by_claim.setdefault(claim, {})[pod.uid] = (pod.namespace, pod.name)

    def is_assigned(self, pod: Pod) -> bool:
        """Return True if a pod has an assignment and needs no other node."""
        return pod.uid in self._claim_by_pod

    def release(self, pods: Iterable[Pod]) -> None:
        """Remove the assignments of pods."""
        for pod in pods:
            self._remove(pod.uid)

    def pods_of(self, claim: str) -> tuple[Pod, ...]:
        """Return the pods assigned to a NodeClaim."""
        assigned = self._pods_by_claim.get(claim)
        if not assigned:
            return ()
        pods = (self._cache.pod(*key) for key in assigned.values())
        return tuple(pod for pod in pods if pod is not None)

    def __len__(self) -> int:
        return len(self._claim_by_pod)

    def claims(self) -> tuple[str, ...]:
        """Return the names of all NodeClaims with assigned pods."""
        return tuple(self._pods_by_claim)

    def expire(self, now: datetime) -> None:
        """Remove the assignments that will not be fulfilled.

        Their node is initialized and pending pods are still not bound, or its
        initialization has stalled, or the NodeClaim was never created. Pods that are
        still on their old node keep theirs. Restores assignments from before a
        restart once the cache has synced.
        """
        if self._undecoded_claims and self._cache.has_synced():
            self._restore()
        for name in tuple(self._pods_by_claim):
            claim = self._cache.claim(name)
            if claim is None or claim.deleting or is_initialization_stalled(claim, self._cache, now):
                self._remove_all(name)
            elif has_been_initialized_for(claim, now):
                waiting = [pod for pod in self.pods_of(name) if not pod.node_name]
                untried = any(pod.nominated_node_name for pod in waiting)
                if not untried or has_been_initialized_for(claim, now, after=NOMINATED_BINDING_TIMEOUT):
                    self.release(waiting)

    def unbound_by_node(self, now: datetime) -> dict[str, tuple[Pod, ...]]:
        """Return provider ID → assigned pods that should have been bound by now."""
        unbound = {}
        for name in self._pods_by_claim:
            claim = self._cache.claim(name)
            if claim is not None and has_been_initialized_for(claim, now, after=CHECK_AFTER):
                waiting = tuple(pod for pod in self.pods_of(name) if not pod.node_name)
                if waiting:
                    unbound[claim.provider_id] = waiting
        return unbound

    def next_check_at(self, now: datetime) -> datetime | None:
        """Return when the pods of the next node are to be checked; None if there is none."""
        claims = (self._cache.claim(name) for name in self._pods_by_claim)
        initialized = (_initialized_at(claim) for claim in claims if claim is not None)
        due = (since + CHECK_AFTER for since in initialized if since is not None)
        return min((at for at in due if at > now), default=None)

    def release_displaced(self, node_name: str) -> list[Pod]:
        """Remove and return the assigned pods that no longer fit their node.

        kube-scheduler does not know assignments: it may fill a node with pods that
        were assigned elsewhere. Pods of DaemonSets, which are bound before the node
        is initialized, may be larger than planned.
        """
        node = self._cache.node(node_name)
        claims = self._cache.claims_of(node.provider_id) if node is not None else ()
        if len(claims) != 1 or not is_true(claims[0].conditions, INITIALIZED):
            return []
        waiting = self.pods_of(claims[0].name)
        joined = self._cache.joined_node(claims[0].provider_id) if waiting else None
        if joined is None:
            return []
        room = joined.available()
        displaced = [pod for pod in waiting if not pod.spec.requests.fits_in(room)]
        for pod in displaced:
            self._remove(pod.uid)
        return displaced

    def _restore(self) -> None:
        """Decode assignments from NodeClaims; the newest NodeClaim of a pod counts."""
        claims = [claim for name in self._undecoded_claims if (claim := self._cache.claim(name))]
        self._undecoded_claims.clear()
        for claim in sorted(claims, key=lambda claim: (str(claim.created or ""), claim.name)):
            self.assign(claim.name, self._decode_pods(claim))

    def _decode_pods(self, claim: NodeClaim) -> Iterator[Pod]:
        # A replacement is assigned pods that run on the old node until it is initialized.
        moving = REPLACES_ANNOTATION in claim.annotations
        for entry in claim.annotations.get(ASSIGNED_PODS_ANNOTATION, "").split(","):
            namespace, _, rest = entry.partition("/")
            name, _, uid = rest.partition("/")
            pod = self._cache.pod(namespace, name)
            if pod is not None and pod.uid == uid and (moving or not pod.node_name):
                yield pod

    def _needs_node(self, pod: Pod) -> bool:
        current = self._cache.pod(pod.namespace, pod.name)
        if current is None or current.uid != pod.uid or current.node_name != pod.node_name:
            return False
        return not _is_finished(current)

    def _on_pod(self, change: ObjectChange) -> None:
        old, new = change.old, change.new
        if old is not None and old.uid in self._claim_by_pod:
            if new is None or _is_finished(new) or new.node_name != old.node_name:
                self._remove(old.uid)

    def _on_claim(self, change: ObjectChange) -> None:
        new: NodeClaim | None = change.new
        if new is None or new.deleting:
            self._undecoded_claims.discard(change.latest.name)
            self._remove_all(change.latest.name)
        elif change.old is None and new.name not in self._pods_by_claim:
            waited_for = not is_true(new.conditions, INITIALIZED) or REPLACES_ANNOTATION in new.annotations
            if ASSIGNED_PODS_ANNOTATION in new.annotations and waited_for:
                self._undecoded_claims.add(new.name)

    def _remove(self, uid: str) -> None:
        claim = self._claim_by_pod.pop(uid, None)
        if claim is not None:
            remaining = self._pods_by_claim[claim]
            remaining.pop(uid, None)
            if not remaining:
                del self._pods_by_claim[claim]

    def _remove_all(self, claim: str) -> None:
        for uid in tuple(self._pods_by_claim.get(claim, ())):
            self._remove(uid)


def _is_finished(pod: Pod) -> bool:
    """Return True if a pod needs no node any more; a successor is scheduled itself.

    A StatefulSet creates the successor only after the pod is gone, so that its
    assignment is kept until then.
    """
    succeeded_late = pod.owner is not None and pod.owner.kind == "StatefulSet"
    return pod.is_terminal or (pod.deleting and not succeeded_late)


def has_been_initialized_for(claim: NodeClaim, now: datetime, after: timedelta = BINDING_TIMEOUT) -> bool:
    """Return True if a NodeClaim has been initialized for a time."""
    since = _initialized_at(claim)
    return since is not None and since + after <= now


def _initialized_at(claim: NodeClaim) -> datetime | None:
    if not is_true(claim.conditions, INITIALIZED):
        return None
    return claim.conditions[INITIALIZED].last_transition_time
