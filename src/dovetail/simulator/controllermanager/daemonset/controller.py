"""DaemonSet controller: one pod on every node that fits."""

from datetime import timedelta
from typing import Any, Final, NamedTuple

from dovetail.ports.api_resources import DAEMON_SETS, NODES, PODS
from dovetail.ports.kube_errors import ApiError
from dovetail.simulator.apiserver.storage.frozen_object import Object, get_field
from dovetail.simulator.apiserver.storage.store import ObjectKey, object_key
from dovetail.simulator.apiserver.storage.watch import EventType, WatchEvent
from dovetail.simulator.controllermanager.context import ManagerContext
from dovetail.simulator.controllermanager.controller import Controller, FailureDelay
from dovetail.simulator.controllermanager.daemonset.node_selection import (
    NO_FIT,
    DaemonFit,
    build_pod,
    node_fit,
    target_node,
)
from dovetail.simulator.controllermanager.deployment.rollout import scaled_value
from dovetail.simulator.controllermanager.owner_references import controller_of, is_deleting
from dovetail.simulator.controllermanager.ownership.adoption import ControllerRefManager
from dovetail.simulator.controllermanager.ownership.controller_revisions import RevisionHistory
from dovetail.simulator.controllermanager.pods.pod_index import ACTIVE, PodState, pod_state, ready_since
from dovetail.simulator.controllermanager.pods.pod_template import REVISION_HASH, template_hash
from dovetail.simulator.workqueue import WorkQueue, start_watch

_RETRY_DELAY: Final = timedelta(seconds=1)


class NodeEntry(NamedTuple):
    """State of one node for a DaemonSet."""

    desired: bool = False
    has_pod: bool = False
    ready: bool = False
    available: bool = False
    updated: bool = False


NO_ENTRY: Final = NodeEntry()


class DaemonSetCounts:
    """Nodes and pods of one DaemonSet, with running totals for its status."""

    def __init__(self) -> None:
        self.pods: dict[str, dict[str, Object]] = {}
        """Node → pod name → pod; the node a pod is bound to, or was created for."""
        self.generation = 0
        self._revision = (0, "")
        self.recorded = ""
        """Revision hash that was recorded last in the history."""
        self._entries: dict[str, NodeEntry] = {}
        self.desired = self.current = self.misscheduled = 0
        self.ready = self.available = self.updated = 0
        self.outdated_available: dict[str, None] = {}
        """Nodes with an available pod of an older template."""
        self.outdated_unavailable: dict[str, None] = {}
        """Nodes with an unavailable pod of an older template."""

    def revision(self, daemon_set: Object) -> str:
        """Return the hash of the template, computed once per generation."""
        generation = daemon_set["metadata"]["generation"]
        if self._revision[0] != generation:
            self._revision = generation, template_hash(daemon_set["spec"]["template"])
        return self._revision[1]

    def update(self, node: str, entry: NodeEntry) -> bool:
        """Update the state of a node; return True if it changed."""
        before = self._entries.get(node, NO_ENTRY)
        if before == entry:
            return False
        self._add(before, -1)
        self._add(entry, +1)
        if entry == NO_ENTRY:
            del self._entries[node]
        else:
            self._entries[node] = entry
        outdated = entry.desired and entry.has_pod and not entry.updated
        _set_member(self.outdated_available, node, desired=outdated and entry.available)
        _set_member(self.outdated_unavailable, node, desired=outdated and not entry.available)
        return True

    def _add(self, entry: NodeEntry, times: int) -> None:
        scheduled = times if entry.desired and entry.has_pod else 0
        self.desired += times * entry.desired
        self.current += scheduled
        self.misscheduled += times * (entry.has_pod and not entry.desired)
        self.ready += scheduled * entry.ready
        self.available += scheduled * entry.available
        self.updated += scheduled * entry.updated


class DaemonSetController(Controller):
    """Syncs one node of one DaemonSet at a time.

    The whole DaemonSet is synced only for its status and for updates.
    """

    resource = DAEMON_SETS

    def __init__(self, context: ManagerContext) -> None:
        super().__init__(context)
        self._counts: dict[ObjectKey, DaemonSetCounts] = {}
        self._nodes: dict[str, Object] = {}
        self._node_queue: WorkQueue[tuple[ObjectKey, str]] = WorkQueue(context.clock, self._sync_node)
        self._failure_delay: FailureDelay[tuple[ObjectKey, str]] = FailureDelay(context.clock)
        self._ref_manager = ControllerRefManager(context, self._queue.add)
        self._history = RevisionHistory(context)
        context.pods.add_handler(self._pod_changed)
        start_watch(context.api, context.clock, NODES, self._node_changed)

    def _handle_event(self, event: WatchEvent) -> None:
        super()._handle_event(event)
        if event.type is EventType.DELETED:
            return
        key, generation = object_key(event.object), event.object["metadata"]["generation"]
        self._ref_manager.update_selector(event.object)
        counts = self._counts.setdefault(key, DaemonSetCounts())
        if counts.generation != generation:
            counts.generation = generation
            for node in sorted({*self._nodes, *counts.pods}):
                self._node_queue.add((key, node))

    def _forget(self, key: ObjectKey) -> None:
        super()._forget(key)
        self._ref_manager.forget(key)
        self._counts.pop(key, None)

    def _node_changed(self, event: WatchEvent) -> None:
        name = event.object["metadata"]["name"]
        before = self._nodes.get(name)
        if event.type is EventType.DELETED:
            self._nodes.pop(name, None)
        else:
            self._nodes[name] = event.object
            if before is not None and _is_same_for_daemons(before, event.object):
                return
        for key in self._counts:
            self._node_queue.add((key, name))

    def _pod_changed(self, old: Object | None, new: Object | None) -> None:
        for pod, exists in ((old, False), (new, True)):
            owner = None if pod is None else controller_of(pod)
            if pod is None or owner is None or owner["kind"] != "DaemonSet":
                continue
            namespace, name = object_key(pod)
            key, node = (namespace, owner["name"]), target_node(pod)
            on_node = self._counts.setdefault(key, DaemonSetCounts()).pods.setdefault(node, {})
            if exists:
                on_node[name] = pod
                self._failure_delay.record((key, node), old, new)
            else:
                on_node.pop(name, None)
            # Count at once: a running update must not count this pod as available.
            self._count(key, node)
            self._node_queue.add((key, node))

    def _sync_node(self, entry: tuple[ObjectKey, str]) -> None:
        """Create, keep or delete the pod of one node."""
        key, name = entry
        daemon_set, counts = self._context.find(DAEMON_SETS, key), self._counts.get(key)
        if daemon_set is None:
            self._counts.pop(key, None)
        if daemon_set is None or counts is None:
            return
        if not is_deleting(daemon_set):
            self._sync_node_pods(daemon_set, name, counts)
        self._count(key, name)

    def _count(self, key: ObjectKey, node: str) -> None:
        daemon_set, counts = self._context.find(DAEMON_SETS, key), self._counts[key]
        if daemon_set is None:
            return
        pods = counts.pods.get(node, {}).values()
        live = sorted((pod for pod in pods if pod_state(pod) in ACTIVE), key=_older_first)
        if not pods:
            counts.pods.pop(node, None)
        desired = self._node_fit(daemon_set, node).should_run
        entry = self._node_entry(daemon_set, live[0] if live else None, desired=desired, at=(key, node))
        if counts.update(node, entry):
            self._queue.add(key)

    def _node_fit(self, daemon_set: Object, node: str) -> DaemonFit:
        node_object = self._context.find(NODES, ("", node))
        return NO_FIT if node_object is None else node_fit(daemon_set, node_object)

    def _sync_node_pods(self, daemon_set: Object, node: str, counts: DaemonSetCounts) -> None:
        should_run, should_continue = self._node_fit(daemon_set, node)
        pods = sorted(counts.pods.get(node, {}).values(), key=_older_first)
        live = [pod for pod in pods if pod_state(pod) in ACTIVE]
        for pod in pods:
            if pod_state(pod) in (PodState.FAILED, PodState.SUCCEEDED) and not is_deleting(pod):
                self._context.delete(PODS, pod)
        for pod in live[1:] if should_continue else live:
            self._context.delete(PODS, pod)
        if should_run and not pods:
            wait = self._failure_delay.remaining((object_key(daemon_set), node))
            if wait > timedelta():
                self._node_queue.add((object_key(daemon_set), node), after=wait)
                return
            try:
                revision = counts.revision(daemon_set)
                self._context.api.create(PODS, build_pod(daemon_set, node, revision=revision))
            except ApiError:
                self._node_queue.add((object_key(daemon_set), node), after=_RETRY_DELAY)

    def _node_entry(
        self, daemon_set: Object, pod: Object | None, *, desired: bool, at: tuple[ObjectKey, str]
    ) -> NodeEntry:
        if pod is None:
            return NodeEntry(desired=desired)
        revision = self._counts[at[0]].revision(daemon_set)
        ready = pod_state(pod) is PodState.READY
        min_ready = timedelta(seconds=daemon_set["spec"].get("minReadySeconds") or 0)
        wait = ready_since(pod) + min_ready - self._context.now() if ready else timedelta()
        if wait > timedelta():
            self._node_queue.add(at, after=wait)
        return NodeEntry(
            desired=desired,
            has_pod=True,
            ready=ready,
            available=ready and wait <= timedelta(),
            updated=(pod["metadata"].get("labels") or {}).get(REVISION_HASH) == revision,
        )

    def _sync(self, key: ObjectKey) -> None:
        """Continue a rolling update and update the status."""
        daemon_set, counts = self._context.find(DAEMON_SETS, key), self._counts.get(key)
        if daemon_set is None or counts is None:
            return
        self._ref_manager.claim_pods(daemon_set)
        if not is_deleting(daemon_set):
            if counts.recorded != counts.revision(daemon_set):
                counts.recorded = counts.revision(daemon_set)
                newest = self._history.record(daemon_set)
                self._history.truncate(daemon_set, used={newest})
            self._update(daemon_set, counts)
        self._update_status(daemon_set, counts)

    def _update(self, daemon_set: Object, counts: DaemonSetCounts) -> None:
        strategy = daemon_set["spec"].get("updateStrategy") or {}
        if strategy.get("type") == "OnDelete":
            return
        limit = get_field(strategy, "rollingUpdate", "maxUnavailable")
        max_unavailable = max(1, scaled_value(limit, counts.desired, up=True, default=1))
        spare = max(0, max_unavailable - (counts.desired - counts.available))
        nodes = [*counts.outdated_unavailable, *list(counts.outdated_available)[:spare]]
        for node in nodes:
            for pod in counts.pods.get(node, {}).values():
                if pod_state(pod) in ACTIVE:
                    self._context.delete(PODS, pod)

    def _update_status(self, daemon_set: Object, counts: DaemonSetCounts) -> None:
        optional_counts = {
            "updatedNumberScheduled": counts.updated,
            "numberAvailable": counts.available,
            "numberUnavailable": counts.desired - counts.available,
        }
        status: dict[str, Any] = {
            "currentNumberScheduled": counts.current,
            "numberMisscheduled": counts.misscheduled,
            "desiredNumberScheduled": counts.desired,
            "numberReady": counts.ready,
            "observedGeneration": daemon_set["metadata"]["generation"],
            **{name: count for name, count in optional_counts.items() if count},
        }
        self._context.update_status(DAEMON_SETS, daemon_set, status)


def _is_same_for_daemons(before: Object, after: Object) -> bool:
    """Return True if labels and taints are equal; most changes are heartbeats."""
    if before["metadata"].get("labels") != after["metadata"].get("labels"):
        return False
    return bool(get_field(before, "spec", "taints") == get_field(after, "spec", "taints"))


def _older_first(pod: Object) -> tuple[bool, str, str]:
    meta = pod["metadata"]
    return not get_field(pod, "spec", "nodeName"), meta["creationTimestamp"], meta["uid"]


def _set_member(nodes: dict[str, None], node: str, *, desired: bool) -> None:
    if desired:
        nodes[node] = None
    else:
        nodes.pop(node, None)
