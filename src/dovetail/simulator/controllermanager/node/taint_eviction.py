"""Taint eviction controller: deletes pods that do not tolerate NoExecute taints."""

from datetime import UTC, datetime, timedelta
from typing import Final

from dovetail.model.kube.taints import Taint, TaintEffect
from dovetail.ports.api_resources import NODES, PODS
from dovetail.simulator.apiserver.storage.frozen_object import Object, get_field
from dovetail.simulator.apiserver.storage.store import ObjectKey, object_key
from dovetail.simulator.apiserver.storage.watch import EventType, WatchEvent
from dovetail.simulator.controllermanager.context import ManagerContext
from dovetail.simulator.controllermanager.daemonset.node_selection import decode_toleration
from dovetail.simulator.controllermanager.owner_references import is_deleting
from dovetail.simulator.controllermanager.pods.pod_index import node_of
from dovetail.simulator.workqueue import WorkQueue, start_watch

_NEVER: Final = datetime.max.replace(tzinfo=UTC)


class TaintEvictionController:
    """Deletes pods when their toleration ends; PodDisruptionBudgets do not apply."""

    def __init__(self, context: ManagerContext) -> None:
        self._context = context
        self._queue: WorkQueue[ObjectKey] = WorkQueue(context.clock, self._sync)
        self._tainted: dict[str, dict[Taint, datetime]] = {}
        """Node → NoExecute taint → when it was added.

        Taints set by users have no ``timeAdded``; for them it is when the controller first saw
        them, as in Kubernetes.
        """
        context.pods.add_handler(self._pod_changed)
        start_watch(context.api, context.clock, NODES, self._node_changed)

    def _node_changed(self, event: WatchEvent) -> None:
        name = event.object["metadata"]["name"]
        before = self._tainted.pop(name, {})
        if event.type is EventType.DELETED:
            return
        now = self._context.now()
        taints: dict[Taint, datetime] = {}
        for encoded in get_field(event.object, "spec", "taints") or ():
            if encoded["effect"] == TaintEffect.NO_EXECUTE:
                taint = Taint(encoded["key"], TaintEffect.NO_EXECUTE, encoded.get("value") or "")
                added = encoded.get("timeAdded")
                taints[taint] = datetime.fromisoformat(added) if added else before.get(taint, now)
        if taints:
            self._tainted[name] = taints
        if taints != before:
            for key in self._context.pods.on_node.get(name, ()):
                self._queue.add(key)

    def _pod_changed(self, old: Object | None, new: Object | None) -> None:
        if new is None or node_of(new) not in self._tainted:
            return
        if old is None or old["spec"] is not new["spec"]:
            self._queue.add(object_key(new))

    def _sync(self, key: ObjectKey) -> None:
        pod = self._context.find(PODS, key)
        if pod is None or is_deleting(pod):
            return
        taints = self._tainted.get(node_of(pod), {})
        until = min((_tolerated_until(pod, *taint) for taint in taints.items()), default=_NEVER)
        if until is _NEVER:
            return
        remaining = until - self._context.now()
        if remaining > timedelta():
            self._queue.add(key, after=remaining)
        else:
            message = f"node {node_of(pod)} has a taint that the pod does not tolerate"
            self._context.mark_disruption_target(pod, "DeletionByTaintManager", message)
            self._context.delete(PODS, pod)


def _tolerated_until(pod: Object, taint: Taint, since: datetime) -> datetime:
    """Return until when a pod tolerates a taint."""
    tolerations = pod["spec"].get("tolerations") or ()
    matching = [encoded for encoded in tolerations if decode_toleration(encoded).tolerates(taint)]
    if not matching:
        return since
    limits = [encoded["tolerationSeconds"] for encoded in matching if "tolerationSeconds" in encoded]
    return since + timedelta(seconds=max(0, min(limits))) if limits else _NEVER
