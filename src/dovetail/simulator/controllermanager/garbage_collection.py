"""Garbage collection: orphaned pods, surplus terminated pods and expired Events."""

from datetime import datetime, timedelta
from itertools import islice, takewhile
from typing import Final

from dovetail.ports.api_resources import EVENTS, NODES, PODS
from dovetail.ports.kube_errors import NotFound
from dovetail.simulator.apiserver.storage.frozen_object import Object
from dovetail.simulator.apiserver.storage.store import ObjectKey, object_key
from dovetail.simulator.apiserver.storage.watch import EventType, WatchEvent
from dovetail.simulator.controllermanager.context import ManagerContext
from dovetail.simulator.controllermanager.pods.pod_index import PodState, node_of, pod_state
from dovetail.simulator.workqueue import WorkQueue, start_watch

EVENT_TTL: Final = timedelta(hours=1)
_MIN_SWEEP_INTERVAL: Final = timedelta(minutes=1)
"""At most one sweep per minute: Events written together expire together."""
_NODE_MISSING_GRACE: Final = timedelta(seconds=40)
"""A node may be missing this long before its pods go; it may register again."""
_INTERVAL: Final = timedelta(seconds=20)
_MAX_TERMINATED: Final = 12_500  # --terminated-pod-gc-threshold
_TERMINATED: Final = (PodState.SUCCEEDED, PodState.FAILED)


class PodGcController:
    """Deletes pods with a grace period of 0: no kubelet is left to stop them."""

    def __init__(self, context: ManagerContext) -> None:
        self._context = context
        self._nodes: set[str] = set()
        self._terminated: dict[ObjectKey, None] = {}
        """Terminated pods, in order of termination."""
        self._missing_queue: WorkQueue[str] = WorkQueue(context.clock, self._collect_orphaned)
        self._surplus_queue: WorkQueue[str] = WorkQueue(context.clock, self._remove_surplus)
        context.pods.add_handler(self._pod_changed)
        start_watch(context.api, context.clock, NODES, self._node_changed)

    def _node_changed(self, event: WatchEvent) -> None:
        name = event.object["metadata"]["name"]
        if event.type is EventType.DELETED:
            self._nodes.discard(name)
            self._missing_queue.add(name, after=_NODE_MISSING_GRACE)
        else:
            self._nodes.add(name)

    def _pod_changed(self, old: Object | None, new: Object | None) -> None:
        if new is None:
            if old is not None:
                self._terminated.pop(object_key(old), None)
            return
        node = node_of(new)
        if node and node not in self._nodes:
            self._missing_queue.add(node, after=_NODE_MISSING_GRACE)
        if pod_state(new) in _TERMINATED:
            self._terminated[object_key(new)] = None
            if len(self._terminated) > _MAX_TERMINATED:
                self._surplus_queue.add("", after=_INTERVAL)

    def _collect_orphaned(self, node: str) -> None:
        if self._context.find(NODES, ("", node)) is not None:
            return
        for key in tuple(self._context.pods.on_node.get(node, ())):
            pod = self._context.find(PODS, key)
            if pod is not None:
                self._mark_failed(pod)
                self._context.delete(PODS, pod, grace_seconds=0)

    def _mark_failed(self, pod: Object) -> None:
        """Set a pod to Failed, so that its controller replaces it."""
        if pod_state(pod) in _TERMINATED:
            return
        message = f"node {node_of(pod)} is gone"
        self._context.mark_disruption_target(pod, "DeletionByPodGC", message, phase="Failed")

    def _remove_surplus(self, _: str) -> None:
        surplus = len(self._terminated) - _MAX_TERMINATED
        for key in list(self._terminated)[: max(0, surplus)]:
            pod = self._context.find(PODS, key)
            if pod is not None:
                self._context.delete(PODS, pod, grace_seconds=0)


class EventTtlController:
    """Deletes Events an hour after the last write, as the API server does.

    They would fill the memory of a long simulation.
    """

    def __init__(self, context: ManagerContext) -> None:
        self._context = context
        self._written: dict[ObjectKey, datetime] = {}
        """Oldest first."""
        self._sweep_queue: WorkQueue[None] = WorkQueue(context.clock, lambda _: self._delete_expired())
        start_watch(context.api, context.clock, EVENTS, self._handle_event)

    def _handle_event(self, event: WatchEvent) -> None:
        key = object_key(event.object)
        self._written.pop(key, None)
        if event.type is not EventType.DELETED:
            self._written[key] = self._context.now()
            self._sweep_queue.add(None, after=EVENT_TTL)

    def _delete_expired(self) -> None:
        due = self._context.now() - EVENT_TTL
        old = list(takewhile(lambda key: self._written[key] <= due, self._written))
        for key in old:
            del self._written[key]
            try:
                self._context.api.delete(EVENTS, key[1], key[0])
            except NotFound:
                continue  # Its DELETED event has not arrived yet.
        for oldest in islice(self._written.values(), 1):
            self._sweep_queue.add(None, after=max(oldest - due, _MIN_SWEEP_INTERVAL))
