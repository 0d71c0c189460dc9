"""Nodes that fall silent or fall ill: what they are then said to be, and their taints."""

from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any, Final

from dovetail.ports.api_resources import LEASES, NODES, PODS
from dovetail.simulator.apiserver.options import PatchType
from dovetail.simulator.apiserver.storage.frozen_object import Object, look
from dovetail.simulator.apiserver.storage.store import key_of
from dovetail.simulator.apiserver.storage.watch import EventType, WatchEvent
from dovetail.simulator.controllermanager.conditions import condition, conditions_of, replaced
from dovetail.simulator.controllermanager.context import Site
from dovetail.simulator.controllermanager.owner_references import find
from dovetail.simulator.controllermanager.pods.pod_index import ready_condition
from dovetail.simulator.workqueue import Desk, follow

SILENT_AFTER: Final = timedelta(seconds=40)
_NEVER_HEARD_AFTER: Final = timedelta(seconds=60)
NOT_READY: Final = "node.kubernetes.io/not-ready"
UNREACHABLE: Final = "node.kubernetes.io/unreachable"
_REPORTED: Final = ("Ready", "MemoryPressure", "DiskPressure", "PIDPressure")
"""What only the kubelet can know, and nobody knows when it is silent."""
_PRESSURES: Final = {
    "MemoryPressure": "node.kubernetes.io/memory-pressure",
    "DiskPressure": "node.kubernetes.io/disk-pressure",
    "PIDPressure": "node.kubernetes.io/pid-pressure",
    "NetworkUnavailable": "node.kubernetes.io/network-unavailable",
}
_UNSCHEDULABLE: Final = "node.kubernetes.io/unschedulable"
_MANAGED: Final = frozenset({NOT_READY, UNREACHABLE, _UNSCHEDULABLE, *_PRESSURES.values()})

Mark = tuple[str, str]
"""Key and effect of a taint."""


class NodeHealth:
    """Looks at a node when something is written about it, and when its heartbeat is due.

    A heartbeat itself is not followed: the Lease is read when the last one
    known would be too old, so that beating costs nothing here.
    """

    def __init__(self, site: Site) -> None:
        self._site = site
        self._desk: Desk[str] = Desk(site.engine, self._look)
        self._listening: Desk[str] = Desk(site.engine, self._listen)
        follow(site.api, site.engine, NODES, self._heard)

    def _heard(self, event: WatchEvent) -> None:
        name = event.object["metadata"]["name"]
        if event.type is EventType.DELETED:
            self._desk.forget(name)
            self._listening.forget(name)
        else:
            self._desk.ask(name)

    def _listen(self, name: str) -> None:
        """See whether a node has been heard from lately: all there is to do for most."""
        beaten, now = self._beaten_at(name), self._site.now()
        if beaten is not None and beaten + SILENT_AFTER > now:
            self._listening.ask(name, after=beaten + SILENT_AFTER - now)
        else:
            self._desk.ask(name)

    def _look(self, name: str) -> None:
        node = find(self._site.api, NODES, ("", name))
        if node is None:
            return
        ready = condition(node, "Ready")
        if ready is None or ready["status"] != "Unknown":
            left = self._silent_at(node) - self._site.now()
            if left > timedelta():
                self._listening.ask(name, after=left)
            else:
                node = self._lose(node)
        taints = self._taints(node)
        if taints != (look(node, "spec", "taints") or []):
            patch = {"spec": {"taints": taints or None}}
            self._site.api.patch(NODES, name, patch, PatchType.MERGE)

    def _silent_at(self, node: Object) -> datetime:
        """Tell until when a node counts as heard from."""
        told = (condition(node, "Ready") or {}).get("lastHeartbeatTime")
        beats = [self._beaten_at(node["metadata"]["name"]), _instant(told)]
        heard = [one for one in beats if one is not None]
        if heard:
            return max(heard) + SILENT_AFTER
        born = datetime.fromisoformat(node["metadata"]["creationTimestamp"])
        return born + _NEVER_HEARD_AFTER

    def _beaten_at(self, name: str) -> datetime | None:
        lease = find(self._site.api, LEASES, ("kube-node-lease", name))
        return _instant(look(lease, "spec", "renewTime"))

    def _lose(self, node: Object) -> Object:
        """Write that nothing is known of a node, and that its pods serve nobody."""
        now = self._site.timestamp()
        never = condition(node, "Ready") is None
        conditions = list(conditions_of(node))
        for kind in _REPORTED:
            said = {
                **(condition(node, kind) or {}),
                "type": kind,
                "status": "Unknown",
                "reason": "NodeStatusNeverUpdated" if never else "NodeStatusUnknown",
                "message": "the kubelet has not been heard from",
            }
            conditions = replaced(conditions, {**said, "lastTransitionTime": now}, now=now)
        status = {**(node.get("status") or {}), "conditions": conditions}
        for pod in tuple(self._site.pods.on_node.get(node["metadata"]["name"], {}).values()):
            self._unready(pod, now)
        return self._site.api.update(NODES, {**node, "status": status}, subresource="status")

    def _unready(self, listed: Object, now: str) -> None:
        pod = find(self._site.api, PODS, key_of(listed))
        ready = None if pod is None else ready_condition(pod)
        if pod is None or ready is None:
            return
        said = {**ready, "status": "False", "lastTransitionTime": now}
        status = {**pod["status"], "conditions": replaced(conditions_of(pod), said, now=now)}
        self._site.write_status(PODS, pod, status)

    def _taints(self, node: Object) -> list[Mapping[str, Any]]:
        """Return the taints as they should be, in their order, those of others untouched."""
        wanted = dict.fromkeys(_marks(node))
        kept: list[Mapping[str, Any]] = []
        knows_ready = condition(node, "Ready") is not None
        for one in look(node, "spec", "taints") or ():
            mark = (one["key"], one["effect"])
            # Of a node that never reported the kubelet's own word at registration stands.
            reported = knows_ready or one["key"] not in (NOT_READY, UNREACHABLE)
            if one["key"] not in _MANAGED or mark in wanted or not reported:
                kept.append(one)
                wanted.pop(mark, None)
        now = self._site.timestamp()
        return [*kept, *({"key": key, "effect": effect, "timeAdded": now}
                         for key, effect in wanted)]  # fmt: skip


def _instant(text: str | None) -> datetime | None:
    return datetime.fromisoformat(text) if text else None


def _marks(node: Object) -> Iterator[Mark]:
    ready = (condition(node, "Ready") or {}).get("status", "True")
    if ready != "True":
        key = UNREACHABLE if ready == "Unknown" else NOT_READY
        yield key, "NoSchedule"
        yield key, "NoExecute"
    for kind, key in _PRESSURES.items():
        if (condition(node, kind) or {}).get("status") == "True":
            yield key, "NoSchedule"
    if look(node, "spec", "unschedulable"):
        yield _UNSCHEDULABLE, "NoSchedule"
