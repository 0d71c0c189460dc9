"""The binder: gives every pod that has no node the best one, or says why not."""

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
from dovetail.simulator.apiserver.options import PatchType
from dovetail.simulator.apiserver.server import ApiServer
from dovetail.simulator.apiserver.storage.frozen_object import Object
from dovetail.simulator.apiserver.storage.watch import EventType, WatchEvent
from dovetail.simulator.clock import Engine
from dovetail.simulator.scheduler.bound_pods import Placed, Places
from dovetail.simulator.scheduler.equivalence import PodClass, PodReader
from dovetail.simulator.scheduler.framework import Judge, Unschedulable
from dovetail.simulator.scheduler.node_table import NodeTable
from dovetail.simulator.scheduler.nominated_pods import Reserving
from dovetail.simulator.scheduler.pod_counts import Counting
from dovetail.simulator.scheduler.queue import Entry, Queue, nominated_node
from dovetail.simulator.scheduler.queueing_hints import Hints
from dovetail.simulator.scheduler.status import Telling
from dovetail.simulator.scheduler.volumes import Claims, Verdict
from dovetail.simulator.workqueue import follow

SCHEDULER: Final = "default-scheduler"
SELECTED_NODE: Final = "volume.kubernetes.io/selected-node"
_TERMINAL: Final = ("Succeeded", "Failed")
_STORAGE: Final = (STORAGE_CLASSES, PERSISTENT_VOLUMES, PERSISTENT_VOLUME_CLAIMS, CSI_NODES)


class Binder:
    """A kube-scheduler that takes no time.

    What it keeps is a picture of the API server's objects, in numbers; a new
    binder comes to the same picture.
    """

    def __init__(self, api: ApiServer, engine: Engine) -> None:
        self._api = api
        self._table = NodeTable()
        self._reader = PodReader()
        self._claims = Claims(self._table)
        self._counting = Counting(self._table, lambda: self._reader.classes)
        self._judge = Judge(self._table, self._counting, self._claims)
        self._places = Places(self._table, self._counting, self._claims, self._judge)
        self._reserving = Reserving(self._table, self._judge.ports)
        self._queue = Queue(engine, self._cycle)
        self._hints = Hints(engine, self._queue, self._judge, self._counting)
        self._telling = Telling(api, engine)
        self._priorities: dict[str, int] = dict(SYSTEM_PRIORITIES)
        self._usual_priority = 0
        self._number = 0
        self._binding: dict[str, tuple[Entry, Verdict]] = {}
        """Pods whose node is chosen and whose volumes are being made there."""
        # In this order: pods are read in the light of everything else.
        follow(api, engine, PRIORITY_CLASSES, self._priority_changed)
        follow(api, engine, NAMESPACES, self._namespace_changed)
        for resource in _STORAGE:
            follow(api, engine, resource, partial(self._storage_changed, resource))
        follow(api, engine, NODES, self._node_changed)
        follow(api, engine, PODS, self._pod_changed)

    # --- Being told -----------------------------------------------------------------------

    def _priority_changed(self, event: WatchEvent) -> None:
        obj = event.object
        if event.type is EventType.DELETED:
            self._priorities.pop(obj["metadata"]["name"], None)
        else:
            self._priorities[obj["metadata"]["name"]] = int(obj.get("value") or 0)
            if obj.get("globalDefault"):
                self._usual_priority = int(obj.get("value") or 0)

    def _namespace_changed(self, event: WatchEvent) -> None:
        meta = event.object["metadata"]
        gone = event.type is EventType.DELETED
        labels = None if gone else meta.get("labels") or {}
        if self._counting.set_namespace(meta["name"], labels):
            self._hints.domains_changed()

    def _storage_changed(self, resource: Resource, event: WatchEvent) -> None:
        self._claims.take(resource, event.object, gone=event.type is EventType.DELETED)
        self._hints.storage_changed()
        if resource is PERSISTENT_VOLUME_CLAIMS and self._binding:
            for uid, (entry, needs) in tuple(self._binding.items()):
                if all(self._claims.is_bound(one) for one in needs.waiting):
                    del self._binding[uid]
                    self._bind(entry, self._places.pods[uid].node)

    def _node_changed(self, event: WatchEvent) -> None:
        name = event.object["metadata"]["name"]
        if event.type is EventType.DELETED:
            self._node_went(name)
            return
        changed = self._table.put(event.object)
        if changed is None:
            return
        slot, before = changed
        if before is None:
            self._places.node_came(name, slot)
        after = self._table.at(slot)
        new_labels = before is None or before.labels != after.labels
        self._hints.node_changed(slot, new_labels=new_labels)
        self._wake_nominated(name, slot)

    def _wake_nominated(self, node: str, slot: int) -> None:
        """Have those looked at whose node has opened; to others it looks full by their room."""
        for uid in self._reserving.kept_on(node):
            entry = self._queue.waiting.get(uid)
            if entry is not None and entry.group in self._queue.refused:
                if self._judge.tolerates(entry.read, slot):
                    self._queue.wake(entry.group)

    def _node_went(self, name: str) -> None:
        for placed in self._places.node_went(name):
            waiting = self._binding.pop(placed.uid, None)
            if waiting is not None:
                self._places.remove(placed.uid)
                self._queue.add(waiting[0])
        self._reserving.node_went(name)
        self._table.remove(name)
        self._hints.domains_changed()

    def _pod_changed(self, event: WatchEvent) -> None:
        pod = event.object
        uid = pod["metadata"]["uid"]
        if event.type is EventType.DELETED or pod["status"].get("phase") in _TERMINAL:
            self._gone(uid)
        elif "nodeName" in pod["spec"]:
            self._has_node(pod, uid)
        elif _is_ours(pod):
            self._wants_node(pod, uid)
        else:
            self._gone(uid)

    def _has_node(self, pod: Object, uid: str) -> None:
        placed, node = self._places.pods.get(uid), pod["spec"]["nodeName"]
        if placed is not None and placed.node != node:
            self._gone(uid)  # Somebody else decided while its volumes were being made.
            placed = None
        if placed is None:
            kind = self._reader.read(pod).kind
            kind.refs += 1
            self._drop_waiting(uid)
            needs = self._claims.verdict(kind)
            placed = Placed(uid, kind, node, attachments=needs.attachments)
            self._places.add(placed)
            self._hints.placed(kind)
        if placed.live and "deletionTimestamp" in pod["metadata"]:
            self._places.stops(placed)
            self._hints.pod_went(placed.kind, None)

    def _wants_node(self, pod: Object, uid: str) -> None:
        known = self._queue.waiting.get(uid)
        if known is None and uid in self._places.pods:
            return  # Chosen already; the event that says so is still to come.
        if known is not None:
            if known.spec is pod["spec"] and known.labels is pod["metadata"].get("labels"):
                self._nominate(known, nominated_node(pod))
                return
        read = self._reader.read(pod)
        read.kind.refs += 1
        self._drop_waiting(uid)
        self._number += 1
        entry = Entry(pod, read, priority=self._priority(pod), number=self._number)
        self._reserving.hold(uid, read.kind, entry.nominated)
        self._queue.add(entry)

    def _nominate(self, entry: Entry, node: str) -> None:
        """Keep room for a pod where it is to go, and no longer where it was to go."""
        if entry.nominated == node:
            return
        entry.nominated = node
        self._free(entry)
        self._reserving.hold(entry.uid, entry.read.kind, node)

    def _free(self, entry: Entry) -> None:
        slot = self._reserving.free(entry.uid)
        if slot is not None:
            self._hints.room_made(slot)

    def _gone(self, uid: str) -> None:
        self._drop_waiting(uid)
        self._binding.pop(uid, None)
        placed = self._places.pods.get(uid)
        if placed is not None:
            slot = placed.slot
            self._places.remove(uid)
            self._hints.pod_went(placed.kind, slot)
            self._release(placed.kind)

    def _drop_waiting(self, uid: str) -> None:
        entry = self._queue.remove(uid)
        if entry is not None:
            self._free(entry)
            self._release(entry.read.kind)

    def _release(self, kind: PodClass) -> None:
        kind.refs -= 1
        if not kind.refs:
            self._reader.forget(kind)
            self._counting.forget(kind)
            self._judge.forget(kind)

    def _priority(self, pod: Object) -> int:
        own = pod["spec"].get("priority")
        if own is not None:
            return int(own)
        name = pod["spec"].get("priorityClassName", "")
        return self._priorities.get(name, self._usual_priority)

    # --- Choosing -------------------------------------------------------------------------

    def _cycle(self) -> None:
        for entry in self._queue.take_turns():
            kind = entry.read.kind
            version = self._hints.version(kind)
            known = self._queue.refused.get(entry.group)
            if known is not None and known.version == version and not entry.nominated:
                self._refuse(entry, known.message, known.reasons, version)
                continue
            needs = self._claims.verdict(kind)
            self._free(entry)  # Its own room is there for itself.
            try:
                slot = self._judge.takes(entry.read, needs, entry.nominated)
                if slot is None:
                    slot = self._judge.best(entry.read, needs)
            except Unschedulable as refusal:
                self._refuse(entry, refusal.message, refusal.reasons, version)
            else:
                self._place(entry, slot, needs)

    def _refuse(self, entry: Entry, message: str, reasons: frozenset[str], version: int) -> None:
        self._queue.refuse(entry, message=message, reasons=reasons, version=version)
        self._forget_nomination(entry)
        # Only numbers have changed in the message: that is not worth a write per pod.
        if entry.told == reasons:
            return
        entry.told = reasons
        try:
            pod = self._api.get(PODS, *entry.key)
        except NotFound:
            return
        if pod["metadata"]["uid"] == entry.uid and "nodeName" not in pod["spec"]:
            self._telling.failed(pod, message)

    def _forget_nomination(self, entry: Entry) -> None:
        """Have a pod that was refused wait for any node."""
        if not entry.nominated:
            return
        entry.nominated = ""
        patch = {"metadata": {"uid": entry.uid}, "status": {"nominatedNodeName": None}}
        try:
            name, namespace = entry.key
            self._api.patch(PODS, name, patch, PatchType.MERGE, namespace, subresource="status")
        except (Conflict, NotFound):
            return

    def _place(self, entry: Entry, slot: int, needs: Verdict) -> None:
        node = self._table.at(slot).name
        self._queue.remove(entry.uid)
        placed = Placed(entry.uid, entry.read.kind, node, attachments=needs.attachments)
        self._places.add(placed)
        self._hints.placed(entry.read.kind)
        if needs.waiting:
            self._binding[entry.uid] = (entry, needs)
            for key in needs.waiting:
                self._select_node(key, node)
        else:
            self._bind(entry, node)

    def _select_node(self, claim: str, node: str) -> None:
        """Ask for a volume to be made where a node is."""
        namespace, _, name = claim.partition("/")
        patch = {"metadata": {"annotations": {SELECTED_NODE: node}}}
        try:
            self._api.patch(PERSISTENT_VOLUME_CLAIMS, name, patch, PatchType.MERGE, namespace)
        except NotFound:
            return  # Its pod is told when it comes to be looked at again.

    def _bind(self, entry: Entry, node: str) -> None:
        target = {"apiVersion": "v1", "kind": "Node", "name": node}
        binding = {"metadata": {"uid": entry.uid}, "target": target}
        try:
            pod = self._api.bind(*entry.key, binding)
        except (Conflict, NotFound):
            # Somebody was quicker: the pod is gone, going, or bound elsewhere. Its event follows.
            self._gone(entry.uid)
        else:
            self._telling.scheduled(pod, node)


def _is_ours(pod: Object) -> bool:
    spec = pod["spec"]
    return (
        spec.get("schedulerName", SCHEDULER) == SCHEDULER
        and not spec.get("schedulingGates")
        and "deletionTimestamp" not in pod["metadata"]
    )
