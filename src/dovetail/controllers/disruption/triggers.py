"""Triggers of disruption scans: which watch events make a scan worthwhile."""

from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from typing import Final

from dovetail.controllers.context import ControllerBase, ControllerContext
from dovetail.controllers.disruption.recent_moves import RecentMoves
from dovetail.controllers.disruption.scan_interval import ScanInterval
from dovetail.controllers.disruption.state_nodes import StateNodes
from dovetail.controllers.runtime.manager import SINGLETON
from dovetail.controllers.runtime.workqueue import Backoff
from dovetail.core.disruption.candidates import is_empty
from dovetail.core.disruption.host_groups import HOST_GROUPS
from dovetail.core.disruption.method import Method
from dovetail.core.disruption.policy import Search
from dovetail.core.disruption.registry import METHODS, get_methods
from dovetail.core.disruption.replacement import decode_replacement
from dovetail.core.pod.eligibility import is_reschedulable
from dovetail.core.provisioning import can_launch
from dovetail.model import labels as label_keys
from dovetail.model.karpenter.condition_types import CONSOLIDATABLE, DISRUPTION_REASON, DRIFTED, INITIALIZED
from dovetail.model.karpenter.nodeclaim import NodeClaim
from dovetail.model.karpenter.nodepool import DisruptionReason
from dovetail.model.kube.conditions import is_true
from dovetail.model.node import NodeObject
from dovetail.state.cluster.cache import ObjectChange

_SCAN: Final = (SINGLETON,)
"""Keys that start a scan."""
REPLACEMENT_BACKOFF: Final = Backoff(first=timedelta(minutes=1), limit=timedelta(hours=1))


class ReplacementBackoff:
    """Exponential backoff for failed node replacements, per key."""

    def __init__(self) -> None:
        self._failures: dict[str, tuple[int, datetime]] = {}
        """Key → failures in a row, and the time until which no replacement is attempted."""

    def record_failure(self, key: str, now: datetime) -> None:
        """Record a failure; failures during the backoff count as one."""
        count, blocked_until = self._failures.get(key, (0, now))
        if now >= blocked_until:
            self._failures[key] = (count + 1, now + REPLACEMENT_BACKOFF.after(count + 1))

    def record_success(self, key: str) -> None:
        self._failures.pop(key, None)

    def blocked_until(self, key: str, now: datetime) -> datetime | None:
        """Return the end of the backoff, None if there is none now."""
        _, blocked_until = self._failures.get(key, (0, now))
        return blocked_until if now < blocked_until else None


class DisruptionTriggers(ControllerBase):
    """Event handlers of the disruption controller, and the state that they maintain.

    A handler starts a scan at once if a node became empty or drifted, or if a
    budget has capacity again. Other changes only mark the scan intervals of the
    methods that evaluate the whole cluster.
    """

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._host_groups = context.host_groups
        self.state_nodes = StateNodes(context)
        self.exhausted_nodepools: frozenset[str] = frozenset()
        """NodePools whose budgets held candidates back in the latest scan."""
        # Karpenter scans every 10 s. Nodes with a trigger condition must be replaced.
        is_karpenter = context.consolidation_policy.search is Search.KARPENTER
        self.scan_intervals = {
            method: ScanInterval(is_frequent=is_karpenter or bool(method.trigger_condition))
            for method in METHODS
            if method.needs_context
        }
        self._backoff = ReplacementBackoff()
        self._recent_moves = RecentMoves(context)

    def get_node(self, claim: NodeClaim) -> NodeObject | None:
        nodes = self._cache.nodes_of(claim.provider_id)
        return nodes[0] if nodes else None

    def handle_claim(self, change: ObjectChange) -> Iterable[str]:
        """Scan when a NodeClaim becomes eligible, or frees budget because it is deleted."""
        old, new = change.old, change.new
        self._update_backoff(old, new)
        self._recent_moves.handle_claim(change)
        if new is None or new.deleting:
            keys = self._notify_change()
            return _SCAN if change.latest.pool in self.exhausted_nodepools else keys
        if old is not None and _get_claim_state(old) == _get_claim_state(new):
            return ()
        keys = self._notify_change()
        if self._is_triggered(old, new) or self._is_empty_candidate(new):
            return _SCAN
        return keys

    def _is_triggered(self, old: NodeClaim | None, new: NodeClaim) -> bool:
        """Return True if a method's trigger condition is True; skip its scan interval if new."""
        is_triggered = False
        for method in METHODS:
            condition = method.trigger_condition
            if not condition or not is_true(new.conditions, condition):
                continue
            is_triggered = True
            is_new = old is None or not is_true(old.conditions, condition)
            if method in self.scan_intervals and is_new:
                self.scan_intervals[method].reset()
        return is_triggered

    def handle_pod(self, change: ObjectChange) -> Iterable[str]:
        """Scan when the last reschedulable pod leaves a node."""
        old, new = change.old, change.new
        self._recent_moves.handle_pod(change)
        if new is not None and is_reschedulable(new):
            was_bound = old is None or old.node_name != new.node_name
            return self._notify_change() if was_bound and new.node_name else ()
        node = self._cache.node(change.latest.node_name)
        if node is None:
            return ()
        if old is not None and is_reschedulable(old):
            self.state_nodes.record_empty(node.name)
            pods = len(self._cache.pods_on(node.name)) + (new is None)
            return self._scan_if_empty(node) or self._notify_change(freed_nodes=1 / max(pods, 1))
        return self._scan_if_empty(node)

    def handle_node(self, change: ObjectChange) -> Iterable[str]:
        """Scan when a node becomes disruptable, or frees budget of its NodePool."""
        old, new = change.old, change.new
        if new is not None and old is not None and _get_node_state(old) == _get_node_state(new):
            return ()
        if change.latest.labels.get(label_keys.NODEPOOL) in self.exhausted_nodepools:
            return _SCAN
        keys = self._scan_if_empty(new) if new is not None else ()
        return keys or self._notify_change()

    def handle_nodepool(self, change: ObjectChange) -> Iterable[str]:
        """Scan at once when a NodePool changes, or can launch nodes again.

        It cannot for a moment after each change of its spec: until its readiness is known.
        """
        old, new = change.old, change.new
        if new is None:
            return ()
        if old is None or old.generation != new.generation or (can_launch(new) and not can_launch(old)):
            for interval in self.scan_intervals.values():
                interval.reset()
            return _SCAN
        return ()

    def watch_host_groups(self, enqueue: Callable[[str], None]) -> None:
        """Source of keys: scan when a group of pods is stuck."""

        def handle_found() -> None:
            self.scan_intervals[HOST_GROUPS].reset()
            enqueue(SINGLETON)

        self._host_groups.subscribe(handle_found)

    def get_backoff(self, claim: NodeClaim, method: Method) -> datetime | None:
        """Return until when a NodeClaim is not replaced, after failed replacements."""
        if not method.launches_replacements:
            return None
        return self._backoff.blocked_until(method.backoff_key(claim), self._loop.now())

    def get_rest_end(self, claim: NodeClaim, method: Method) -> datetime | None:
        """Return until when a node is kept because it was launched for moved pods; None: it is not."""
        if method.reason is not DisruptionReason.UNDERUTILIZED:
            return None
        end = self._recent_moves.rests_until(claim)
        return end if end is not None and self._loop.now() < end else None

    def _notify_change(self, freed_nodes: float = 0.0) -> Iterable[str]:
        """Mark all scan intervals; enqueue a scan only if one may run earlier than before."""
        is_earlier = [interval.notify_change(freed_nodes) for interval in self.scan_intervals.values()]
        return _SCAN if any(is_earlier) else ()

    def _update_backoff(self, old: NodeClaim | None, new: NodeClaim | None) -> None:
        """Record whether replacements succeed.

        A disrupted NodeClaim that is deleted is a success. A replacement that is
        deleted, or loses its replacement annotation, is a failure.
        """
        if old is None or old.deleting:
            return
        disruption = old.conditions.get(DISRUPTION_REASON)
        if disruption is not None and (new is None or new.deleting):
            for key in _get_backoff_keys(old, disruption.reason):
                self._backoff.record_success(key)
        replacement = decode_replacement(old)
        if replacement is None:
            return
        if new is None or new.deleting or decode_replacement(new) is None:
            for replaced in replacement.replaced:
                claim = self._cache.claim(replaced.name)
                condition = claim.conditions.get(DISRUPTION_REASON) if claim is not None else None
                if claim is not None and condition is not None and not claim.deleting:
                    for key in _get_backoff_keys(claim, condition.reason):
                        self._backoff.record_failure(key, self._loop.now())

    def _scan_if_empty(self, node: NodeObject) -> Iterable[str]:
        claims = self._cache.claims_of(node.provider_id)
        return _SCAN if any(self._is_empty_candidate(claim) for claim in claims) else ()

    def _is_empty_candidate(self, claim: NodeClaim) -> bool:
        if claim.deleting or not is_true(claim.conditions, CONSOLIDATABLE):
            return False
        node = self.get_node(claim)
        return node is None or is_empty(self._cache.pods_on(node.name))


def _get_backoff_keys(claim: NodeClaim, reason: str) -> set[str]:
    """Return the backoff keys of all methods with a reason."""
    return {method.backoff_key(claim) for method in get_methods(reason)}


def _get_claim_state(claim: NodeClaim) -> tuple[object, ...]:
    """Return the fields that eligibility depends on; other changes start no scan."""
    types = (CONSOLIDATABLE, DRIFTED, INITIALIZED, DISRUPTION_REASON)
    statuses = (is_true(claim.conditions, condition_type) for condition_type in types)
    return *statuses, claim.last_pod_event, claim.provider_id


def _get_node_state(node: NodeObject) -> tuple[object, ...]:
    """Return the fields that eligibility depends on; heartbeats start no scan."""
    annotation = node.annotations.get(label_keys.DO_NOT_DISRUPT)
    return node.ready, node.deleting, node.taints, annotation, node.labels
