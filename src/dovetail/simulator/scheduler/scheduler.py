"""Kube-scheduler simulator: binds pending pods to the best node."""

from datetime import timedelta
from functools import partial
from typing import Final

from dovetail.codec.kube.pods import SYSTEM_PRIORITIES
from dovetail.ports.api_resources import (
    CSI_NODES,
    NAMESPACES,
    NODES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    PODS,
    PRIORITY_CLASSES,
    STORAGE_CLASSES,
    Resource,
)
from dovetail.ports.kube_errors import Conflict, NotFound
from dovetail.simulator.apiserver.interface import find_object
from dovetail.simulator.apiserver.options import PatchType
from dovetail.simulator.apiserver.server import ApiServer
from dovetail.simulator.apiserver.storage.frozen_object import Object
from dovetail.simulator.apiserver.storage.watch import EventType, WatchEvent
from dovetail.simulator.clock import VirtualClock
from dovetail.simulator.scheduler.bound_pods import BoundPod, BoundPods
from dovetail.simulator.scheduler.equivalence import PodClass, PodClassifier
from dovetail.simulator.scheduler.framework import SchedulingFramework, Unschedulable
from dovetail.simulator.scheduler.host_ports import HostPorts
from dovetail.simulator.scheduler.node_table import NodeTable
from dovetail.simulator.scheduler.pod_counts import PodCounts
from dovetail.simulator.scheduler.preemption import Preemption
from dovetail.simulator.scheduler.queue import QueuedPod, SchedulingQueue, nominated_node
from dovetail.simulator.scheduler.queueing_hints import QueueingHints
from dovetail.simulator.scheduler.status import StatusWriter
from dovetail.simulator.scheduler.volumes import VolumeConstraints, VolumeFilters
from dovetail.simulator.workqueue import WorkQueue, start_watch

SCHEDULER: Final = "default-scheduler"
SELECTED_NODE: Final = "volume.kubernetes.io/selected-node"
_TERMINAL: Final = ("Succeeded", "Failed")
_ERROR_BACKOFF: Final = timedelta(seconds=1)
"""Until a pod whose scheduling failed with an error, not for want of a node, is tried again."""
_STORAGE: Final = (STORAGE_CLASSES, PERSISTENT_VOLUMES, PERSISTENT_VOLUME_CLAIMS, CSI_NODES)


class NominatedPods:
    """Requests and host ports of nominated pods, counted on their nodes.

    Simpler than kube-scheduler: pods of higher priority may not use the reservation, and
    inter-pod rules do not count nominated pods.
    """

    def __init__(self, table: NodeTable, ports: HostPorts) -> None:
        self._table = table
        self._ports = ports
        self._reserved: dict[str, tuple[PodClass, int]] = {}
        self._pods_by_node: dict[str, dict[str, None]] = {}
        """Node → UIDs of the pods nominated for it."""

    def add(self, uid: str, pod_class: PodClass, node: str) -> None:
        """Reserve resources for a pod, if its node exists."""
        slot = self._table.slots.get(node)
        if slot is not None:
            self._reserved[uid] = (pod_class, slot)
            self._pods_by_node.setdefault(node, {})[uid] = None
            self._count(pod_class, slot, 1)

    def remove(self, uid: str) -> int | None:
        """Release a pod's reservation; return its slot."""
        pod_class, slot = self._reserved.pop(uid, (None, None))
        if pod_class is None or slot is None:
            return None
        facts = self._table.at(slot)
        del self._pods_by_node[facts.name][uid]
        self._count(pod_class, slot, -1)
        return slot

    def pods_on_node(self, node: str) -> tuple[str, ...]:
        """Return the UIDs of the pods nominated for a node."""
        return tuple(self._pods_by_node.get(node, ()))

    def remove_node(self, name: str) -> None:
        """Release all reservations on a deleted node."""
        for uid in self._pods_by_node.pop(name, ()):
            pod_class, slot = self._reserved.pop(uid)
            self._count(pod_class, slot, -1)

    def _count(self, pod_class: PodClass, slot: int, sign: int) -> None:
        self._table.add_requests(pod_class.requests, slot, sign)
        if pod_class.spec.host_ports and sign > 0:
            self._ports.add(pod_class.spec.host_ports, slot)
        elif pod_class.spec.host_ports:
            self._ports.remove(pod_class.spec.host_ports, slot)


class KubeScheduler:
    """A kube-scheduler that takes no virtual time.

    Its state derives from the API server's objects alone; a new scheduler computes the same
    state.
    """

    def __init__(self, api: ApiServer, clock: VirtualClock, *, keep_events: bool = True) -> None:
        self._api = api
        self._table = NodeTable()
        self._classifier = PodClassifier()
        self._volume_filters = VolumeFilters(self._table)
        self._pod_counts = PodCounts(self._table, lambda: self._classifier.classes)
        self._framework = SchedulingFramework(self._table, self._pod_counts, self._volume_filters)
        self._bound_pods = BoundPods(self._table, self._pod_counts, self._volume_filters, self._framework)
        self._nominated_pods = NominatedPods(self._table, self._framework.ports)
        self._queue = SchedulingQueue(clock, self._cycle)
        self._failed_queue: WorkQueue[QueuedPod] = WorkQueue(clock, self._retry)
        self._hints = QueueingHints(clock, self._queue, self._framework, self._pod_counts)
        self._status_writer = StatusWriter(api, clock, keep_events=keep_events)
        self._preemption = Preemption(api, self._bound_pods, self._framework, self._status_writer)
        self._priorities: dict[str, int] = dict(SYSTEM_PRIORITIES)
        self._default_priority = 0
        self._number = 0
        self._binding: dict[str, tuple[QueuedPod, VolumeConstraints]] = {}
        """UID → pod with a chosen node whose volumes are being provisioned."""
        # Pods last: decoding them needs all the other kinds.
        start_watch(api, clock, PRIORITY_CLASSES, self._priority_changed)
        start_watch(api, clock, NAMESPACES, self._namespace_changed)
        for resource in _STORAGE:
            start_watch(api, clock, resource, partial(self._storage_changed, resource))
        start_watch(api, clock, NODES, self._node_changed)
        start_watch(api, clock, PODS, self._pod_changed)

    # --- Watch events ---------------------------------------------------------------------

    def _priority_changed(self, event: WatchEvent) -> None:
        obj = event.object
        if event.type is EventType.DELETED:
            self._priorities.pop(obj["metadata"]["name"], None)
        else:
            self._priorities[obj["metadata"]["name"]] = int(obj.get("value") or 0)
            if obj.get("globalDefault"):
                self._default_priority = int(obj.get("value") or 0)

    def _namespace_changed(self, event: WatchEvent) -> None:
        meta = event.object["metadata"]
        deleted = event.type is EventType.DELETED
        labels = None if deleted else meta.get("labels") or {}
        if self._pod_counts.set_namespace(meta["name"], labels):
            self._hints.domains_changed()

    def _storage_changed(self, resource: Resource, event: WatchEvent) -> None:
        self._volume_filters.update(resource, event.object, deleted=event.type is EventType.DELETED)
        self._hints.storage_changed()
        if resource is PERSISTENT_VOLUME_CLAIMS and self._binding:
            for uid, (queued_pod, volumes) in tuple(self._binding.items()):
                if all(self._volume_filters.is_bound(claim) for claim in volumes.unbound_claims):
                    del self._binding[uid]
                    self._bind(queued_pod, self._bound_pods.pods[uid].node)

    def _node_changed(self, event: WatchEvent) -> None:
        name = event.object["metadata"]["name"]
        if event.type is EventType.DELETED:
            self._node_removed(name)
            return
        changed = self._table.update(event.object)
        if changed is None:
            return
        slot, before = changed
        if before is None:
            self._bound_pods.add_node(name, slot)
        after = self._table.at(slot)
        new_labels = before is None or before.labels != after.labels
        self._hints.node_changed(slot, new_labels=new_labels)
        self._activate_nominated(name, slot)

    def _activate_nominated(self, node: str, slot: int) -> None:
        """Retry nominated pods whose node now tolerates them.

        For the queueing hints the node looks full because of their own reservation.
        """
        for uid in self._nominated_pods.pods_on_node(node):
            queued_pod = self._queue.pending.get(uid)
            if queued_pod is not None and queued_pod.group in self._queue.unschedulable:
                if self._framework.tolerates(queued_pod.classified, slot):
                    self._queue.activate(queued_pod.group)

    def _node_removed(self, name: str) -> None:
        for bound_pod in self._bound_pods.remove_node(name):
            pending = self._binding.pop(bound_pod.uid, None)
            if pending is not None:
                self._bound_pods.remove(bound_pod.uid)
                self._queue.add(pending[0])
        self._nominated_pods.remove_node(name)
        self._table.remove(name)
        self._hints.domains_changed()

    def _pod_changed(self, event: WatchEvent) -> None:
        pod = event.object
        uid = pod["metadata"]["uid"]
        if event.type is EventType.DELETED or pod["status"].get("phase") in _TERMINAL:
            self._pod_gone(uid)
        elif "nodeName" in pod["spec"]:
            self._handle_bound(pod, uid)
        elif _is_schedulable(pod):
            self._handle_pending(pod, uid)
        else:
            self._pod_gone(uid)

    def _handle_bound(self, pod: Object, uid: str) -> None:
        bound_pod, node = self._bound_pods.pods.get(uid), pod["spec"]["nodeName"]
        if bound_pod is not None and bound_pod.node != node:
            self._pod_gone(uid)  # Bound to another node while its volumes were being provisioned.
            bound_pod = None
        if bound_pod is None:
            pod_class = self._classifier.classify(pod).pod_class
            pod_class.refs += 1
            self._remove_queued(uid)
            volumes = self._volume_filters.constraints_for(pod_class)
            meta = pod["metadata"]
            bound_pod = BoundPod(
                uid,
                (meta["name"], meta["namespace"]),
                pod_class,
                node,
                priority=self._priority(pod),
                attachments=volumes.attachments,
            )
            self._bound_pods.add(bound_pod)
            self._hints.pod_assigned(pod_class)
        if bound_pod.live and "deletionTimestamp" in pod["metadata"]:
            self._bound_pods.mark_terminating(bound_pod)
            self._hints.pod_removed(bound_pod.pod_class, None)

    def _handle_pending(self, pod: Object, uid: str) -> None:
        queued = self._queue.pending.get(uid)
        if queued is None and uid in self._bound_pods.pods:
            return  # Assumed already; the event of the binding has not arrived yet.
        if queued is not None:
            if queued.spec is pod["spec"] and queued.labels is pod["metadata"].get("labels"):
                self._nominate(queued, nominated_node(pod))
                return
        classified = self._classifier.classify(pod)
        classified.pod_class.refs += 1
        self._remove_queued(uid)
        self._number += 1
        queued_pod = QueuedPod(pod, classified, priority=self._priority(pod), number=self._number)
        self._nominated_pods.add(uid, classified.pod_class, queued_pod.nominated)
        self._queue.add(queued_pod)

    def _nominate(self, queued_pod: QueuedPod, node: str) -> None:
        """Move a pod's reservation to its new nominated node."""
        if queued_pod.nominated == node:
            return
        queued_pod.nominated = node
        self._release_reservation(queued_pod)
        self._nominated_pods.add(queued_pod.uid, queued_pod.classified.pod_class, node)

    def _release_reservation(self, queued_pod: QueuedPod) -> None:
        slot = self._nominated_pods.remove(queued_pod.uid)
        if slot is not None:
            self._hints.resources_released(slot)

    def _pod_gone(self, uid: str) -> None:
        self._remove_queued(uid)
        self._binding.pop(uid, None)
        bound_pod = self._bound_pods.pods.get(uid)
        if bound_pod is not None:
            slot = bound_pod.slot
            self._bound_pods.remove(uid)
            self._hints.pod_removed(bound_pod.pod_class, slot)
            self._release_class(bound_pod.pod_class)
            if slot is not None:
                self._activate_nominated(bound_pod.node, slot)

    def _remove_queued(self, uid: str) -> None:
        queued_pod = self._queue.remove(uid)
        if queued_pod is not None:
            self._release_reservation(queued_pod)
            self._release_class(queued_pod.classified.pod_class)

    def _release_class(self, pod_class: PodClass) -> None:
        pod_class.refs -= 1
        if not pod_class.refs:
            self._classifier.forget(pod_class)
            self._pod_counts.forget(pod_class)
            self._framework.forget(pod_class)

    def _priority(self, pod: Object) -> int:
        own = pod["spec"].get("priority")
        if own is not None:
            return int(own)
        name = pod["spec"].get("priorityClassName", "")
        return self._priorities.get(name, self._default_priority)

    # --- Scheduling cycle -----------------------------------------------------------------

    def _cycle(self) -> None:
        errors: list[Exception] = []
        for queued_pod in self._queue.pop_batch():
            try:
                self._schedule(queued_pod)
            except Exception as error:  # noqa: BLE001 - raised below; the other pods come first
                errors.append(error)
                self._forget_assumed(queued_pod, error)
                self._failed_queue.add(queued_pod, after=_ERROR_BACKOFF)
        if errors:
            raise errors[0]

    def _retry(self, queued_pod: QueuedPod) -> None:
        """Schedule a pod whose scheduling failed; the queue backs off if it fails again."""
        if self._queue.pending.get(queued_pod.uid) is not queued_pod:
            return
        try:
            self._schedule(queued_pod)
        except Exception as error:
            self._forget_assumed(queued_pod, error)
            raise

    def _forget_assumed(self, queued_pod: QueuedPod, error: Exception) -> None:
        """Keep a pod pending that was not bound to its chosen node; name it in the error."""
        error.add_note("/".join(reversed(queued_pod.key)))
        if queued_pod.uid in self._bound_pods.pods:
            self._bound_pods.remove(queued_pod.uid)
        self._binding.pop(queued_pod.uid, None)
        self._queue.pending[queued_pod.uid] = queued_pod

    def _schedule(self, queued_pod: QueuedPod) -> None:
        pod_class = queued_pod.classified.pod_class
        version = self._hints.version(pod_class)
        group = self._queue.unschedulable.get(queued_pod.group)
        if group is not None and group.version == version and not queued_pod.nominated:
            self._reject(queued_pod, group.message, group.reasons, version)
            return
        volumes = self._volume_filters.constraints_for(pod_class)
        self._release_reservation(queued_pod)  # The pod may use its own reservation.
        try:
            slot = self._framework.check_node(queued_pod.classified, volumes, queued_pod.nominated)
            if slot is None:
                slot = self._framework.select_node(queued_pod.classified, volumes)
        except Unschedulable as error:
            self._reject(queued_pod, error.message, error.reasons, version)
        else:
            self._assume(queued_pod, slot, volumes)

    def _reject(self, queued_pod: QueuedPod, message: str, reasons: frozenset[str], version: int) -> None:
        self._queue.add_unschedulable(queued_pod, message=message, reasons=reasons, version=version)
        if not self._preempt(queued_pod):
            self._clear_nomination(queued_pod)
        # Only counts in the message changed: not worth a write per pod.
        if queued_pod.reported_reasons == reasons:
            return
        queued_pod.reported_reasons = reasons
        pod = find_object(self._api, PODS, *queued_pod.key)
        if pod is not None and pod["metadata"]["uid"] == queued_pod.uid and "nodeName" not in pod["spec"]:
            self._status_writer.record_unschedulable(pod, message)

    def _preempt(self, queued_pod: QueuedPod) -> bool:
        """Make room for a pod; return False if no node would have it then."""
        volumes = self._volume_filters.constraints_for(queued_pod.classified.pod_class)
        candidate = self._preemption.find(queued_pod, volumes)
        if candidate is not None:
            queued_pod.nominated = candidate.node
        elif not self._preemption.awaits_victims(queued_pod):
            return False
        # The room is reserved at once: pods that are tried next must not take it.
        self._nominated_pods.add(queued_pod.uid, queued_pod.classified.pod_class, queued_pod.nominated)
        if candidate is None:
            return True
        self._preemption.delete_victims(queued_pod, candidate)
        self._patch_nomination(queued_pod, candidate.node)
        return True

    def _clear_nomination(self, queued_pod: QueuedPod) -> None:
        """Clear the nominated node of an unschedulable pod."""
        if not queued_pod.nominated:
            return
        queued_pod.nominated = ""
        self._patch_nomination(queued_pod, None)

    def _patch_nomination(self, queued_pod: QueuedPod, node: str | None) -> None:
        patch = {"metadata": {"uid": queued_pod.uid}, "status": {"nominatedNodeName": node}}
        try:
            name, namespace = queued_pod.key
            self._api.patch(PODS, name, patch, PatchType.MERGE, namespace, subresource="status")
        except (Conflict, NotFound):
            return

    def _assume(self, queued_pod: QueuedPod, slot: int, volumes: VolumeConstraints) -> None:
        node = self._table.at(slot).name
        self._queue.remove(queued_pod.uid)
        bound_pod = BoundPod(
            queued_pod.uid,
            queued_pod.key,
            queued_pod.classified.pod_class,
            node,
            priority=queued_pod.priority,
            attachments=volumes.attachments,
        )
        self._bound_pods.add(bound_pod)
        self._hints.pod_assigned(queued_pod.classified.pod_class)
        if volumes.unbound_claims:
            self._binding[queued_pod.uid] = (queued_pod, volumes)
            for key in volumes.unbound_claims:
                self._select_node(key, node)
        else:
            self._bind(queued_pod, node)

    def _select_node(self, claim: str, node: str) -> None:
        """Request a volume in the zone of a node."""
        namespace, _, name = claim.partition("/")
        patch = {"metadata": {"annotations": {SELECTED_NODE: node}}}
        try:
            self._api.patch(PERSISTENT_VOLUME_CLAIMS, name, patch, PatchType.MERGE, namespace)
        except NotFound:
            return  # The pod is rejected when it is tried again.

    def _bind(self, queued_pod: QueuedPod, node: str) -> None:
        target = {"apiVersion": "v1", "kind": "Node", "name": node}
        binding = {"metadata": {"uid": queued_pod.uid}, "target": target}
        try:
            pod = self._api.bind(*queued_pod.key, binding)
        except (Conflict, NotFound):
            # The pod was deleted or bound elsewhere; its event follows.
            self._pod_gone(queued_pod.uid)
        else:
            self._status_writer.record_scheduled(pod, node)


def _is_schedulable(pod: Object) -> bool:
    spec = pod["spec"]
    return (
        spec.get("schedulerName", SCHEDULER) == SCHEDULER
        and not spec.get("schedulingGates")
        and "deletionTimestamp" not in pod["metadata"]
    )
