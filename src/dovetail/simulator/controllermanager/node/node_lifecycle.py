"""Node lifecycle controllers: unreachable nodes, and nodes without an instance."""

from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any, Final

from dovetail.ports.api_resources import LEASES, NODES, PODS
from dovetail.simulator.apiserver.conditions import get_condition, get_conditions, set_condition
from dovetail.simulator.apiserver.options import PatchType
from dovetail.simulator.apiserver.storage.frozen_object import Object, get_field
from dovetail.simulator.apiserver.storage.store import object_key
from dovetail.simulator.apiserver.storage.watch import EventType, WatchEvent
from dovetail.simulator.controllermanager.context import ManagerContext
from dovetail.simulator.controllermanager.owner_references import is_deleting
from dovetail.simulator.controllermanager.pods.pod_index import ready_condition
from dovetail.simulator.workqueue import WorkQueue, start_watch

_INSTANCE_CHECK_INTERVAL: Final = timedelta(seconds=5)
GRACE_PERIOD: Final = timedelta(seconds=40)
STARTUP_GRACE_PERIOD: Final = timedelta(seconds=60)
NOT_READY: Final = "node.kubernetes.io/not-ready"
UNREACHABLE: Final = "node.kubernetes.io/unreachable"
_KUBELET_CONDITIONS: Final = ("Ready", "MemoryPressure", "DiskPressure", "PIDPressure")
"""Conditions that the kubelet reports; Unknown when its Lease expires."""
_PRESSURES: Final = {
    "MemoryPressure": "node.kubernetes.io/memory-pressure",
    "DiskPressure": "node.kubernetes.io/disk-pressure",
    "PIDPressure": "node.kubernetes.io/pid-pressure",
    "NetworkUnavailable": "node.kubernetes.io/network-unavailable",
}
_UNSCHEDULABLE: Final = "node.kubernetes.io/unschedulable"
_MANAGED_TAINTS: Final = frozenset({NOT_READY, UNREACHABLE, _UNSCHEDULABLE, *_PRESSURES.values()})

TaintKey = tuple[str, str]
"""Key and effect of a taint."""


class NodeLifecycleController:
    """Syncs a node after each write to it, and when its Lease is due to expire.

    Lease renewals are not watched: the Lease is read when the last known renewal would have
    expired. The Lease of a kubelet in this process is read once the kubelet stops.
    """

    def __init__(self, context: ManagerContext) -> None:
        self._context = context
        self._queue: WorkQueue[str] = WorkQueue(context.clock, self._sync)
        self._lease_queue: WorkQueue[str] = WorkQueue(context.clock, self._check_lease)
        if context.heartbeats is not None:
            context.heartbeats.on_stop = self._lease_queue.add
        start_watch(context.api, context.clock, NODES, self._handle_event)

    def _handle_event(self, event: WatchEvent) -> None:
        name = event.object["metadata"]["name"]
        if event.type is EventType.DELETED:
            self._queue.discard(name)
            self._lease_queue.discard(name)
        else:
            self._queue.add(name)

    def _check_lease(self, name: str) -> None:
        """Check whether the Lease was renewed; for most nodes that is all."""
        renewed, now = self._lease_renewed_at(name), self._context.now()
        if renewed is not None and renewed + GRACE_PERIOD > now:
            self._lease_queue.add(name, after=renewed + GRACE_PERIOD - now)
        else:
            self._queue.add(name)

    def _sync(self, name: str) -> None:
        node = self._context.find(NODES, ("", name))
        if node is None:
            return
        ready = get_condition(node, "Ready")
        if (ready is None or ready["status"] != "Unknown") and not self._is_renewing(name):
            remaining = self._unreachable_at(node) - self._context.now()
            if remaining > timedelta():
                self._lease_queue.add(name, after=remaining)
            else:
                node = self._mark_unreachable(node)
        taints = self._taints(node)
        if taints != (get_field(node, "spec", "taints") or []):
            patch = {"spec": {"taints": taints or None}}
            self._context.api.patch(NODES, name, patch, PatchType.MERGE)

    def _is_renewing(self, name: str) -> bool:
        heartbeats = self._context.heartbeats
        return heartbeats is not None and heartbeats.is_renewing(name)

    def _unreachable_at(self, node: Object) -> datetime:
        """Return when a node counts as unreachable, unless it reports before."""
        reported = (get_condition(node, "Ready") or {}).get("lastHeartbeatTime")
        times = [self._lease_renewed_at(node["metadata"]["name"]), _parse_time(reported)]
        reported_times = [time for time in times if time is not None]
        if reported_times:
            return max(reported_times) + GRACE_PERIOD
        created = datetime.fromisoformat(node["metadata"]["creationTimestamp"])
        return created + STARTUP_GRACE_PERIOD

    def _lease_renewed_at(self, name: str) -> datetime | None:
        lease = self._context.find(LEASES, ("kube-node-lease", name))
        return _parse_time(get_field(lease, "spec", "renewTime"))

    def _mark_unreachable(self, node: Object) -> Object:
        """Set the kubelet's conditions to Unknown and the node's pods to not ready."""
        now = self._context.timestamp()
        never_reported = get_condition(node, "Ready") is None
        conditions = list(get_conditions(node))
        for kind in _KUBELET_CONDITIONS:
            condition = {
                **(get_condition(node, kind) or {}),
                "type": kind,
                "status": "Unknown",
                "reason": "NodeStatusNeverUpdated" if never_reported else "NodeStatusUnknown",
                "message": "Kubelet stopped posting node status.",
            }
            conditions = set_condition(conditions, {**condition, "lastTransitionTime": now}, now=now)
        status = {**(node.get("status") or {}), "conditions": conditions}
        for pod in tuple(self._context.pods.on_node.get(node["metadata"]["name"], {}).values()):
            self._mark_pod_not_ready(pod, now)
        return self._context.api.update(NODES, {**node, "status": status}, subresource="status")

    def _mark_pod_not_ready(self, listed: Object, now: str) -> None:
        pod = self._context.find(PODS, object_key(listed))
        ready = None if pod is None else ready_condition(pod)
        if pod is None or ready is None:
            return
        condition = {**ready, "status": "False", "lastTransitionTime": now}
        status = {**pod["status"], "conditions": set_condition(get_conditions(pod), condition, now=now)}
        self._context.update_status(PODS, pod, status)

    def _taints(self, node: Object) -> list[Mapping[str, Any]]:
        """Return the desired taints, in order; taints of others stay."""
        desired = dict.fromkeys(_desired_taints(node))
        kept: list[Mapping[str, Any]] = []
        knows_ready = get_condition(node, "Ready") is not None
        for taint in get_field(node, "spec", "taints") or ():
            taint_key = (taint["key"], taint["effect"])
            # Until the node reports, the kubelet's taints from registration stay.
            reported = knows_ready or taint["key"] not in (NOT_READY, UNREACHABLE)
            if taint["key"] not in _MANAGED_TAINTS or taint_key in desired or not reported:
                kept.append(taint)
                desired.pop(taint_key, None)
        now = self._context.timestamp()
        return [*kept, *({"key": key, "effect": effect, "timeAdded": now}
                         for key, effect in desired)]  # fmt: skip


def _parse_time(text: str | None) -> datetime | None:
    return datetime.fromisoformat(text) if text else None


def _desired_taints(node: Object) -> Iterator[TaintKey]:
    ready = (get_condition(node, "Ready") or {}).get("status", "True")
    if ready != "True":
        key = UNREACHABLE if ready == "Unknown" else NOT_READY
        yield key, "NoSchedule"
        yield key, "NoExecute"
    for kind, key in _PRESSURES.items():
        if (get_condition(node, kind) or {}).get("status") == "True":
            yield key, "NoSchedule"
    if get_field(node, "spec", "unschedulable"):
        yield _UNSCHEDULABLE, "NoSchedule"


class CloudNodeLifecycleController:
    """Deletes nodes whose instance is gone; checks nodes that are not Ready."""

    def __init__(self, context: ManagerContext) -> None:
        self._context = context
        self._queue: WorkQueue[str] = WorkQueue(context.clock, self._sync)
        start_watch(context.api, context.clock, NODES, self._handle_event)

    def _handle_event(self, event: WatchEvent) -> None:
        name = event.object["metadata"]["name"]
        if event.type is EventType.DELETED or not _is_not_ready(event.object):
            self._queue.discard(name)
        else:
            self._queue.add(name, after=_INSTANCE_CHECK_INTERVAL)

    def _sync(self, name: str) -> None:
        node = self._context.find(NODES, ("", name))
        exists = self._context.instance_exists
        if node is None or exists is None or not _is_not_ready(node):
            return
        if exists(node["spec"]["providerID"]) is not False:
            self._queue.add(name, after=_INSTANCE_CHECK_INTERVAL)
            return
        self._context.delete(NODES, node)


def _is_not_ready(node: Object) -> bool:
    ready = get_condition(node, "Ready") or {}
    has_instance = bool(get_field(node, "spec", "providerID"))
    return has_instance and ready.get("status") != "True" and not is_deleting(node)
