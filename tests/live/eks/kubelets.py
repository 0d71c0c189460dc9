"""Kubelets: they register nodes, and start and stop the pods bound to them."""

from collections.abc import Mapping
from typing import Any

from dovetail.host.clock import SystemClock
from tests.live.eks.api import ApiClient
from tests.live.eks.containers import Containers, Raw

_HEARTBEAT_INTERVAL = 30.0
"""Seconds; the node controller tolerates some minutes."""


class Kubelets:
    """All kubelets of a cluster."""

    def __init__(self, api: ApiClient, containers: Containers) -> None:
        self._api = api
        self._containers = containers
        self._clock = SystemClock()
        self._next_heartbeat: dict[str, float] = {}

    def join(self, node: Raw, resources: Mapping[str, str]) -> None:
        """Register a node if it is new, and update its status when a heartbeat is due."""
        name = node["metadata"]["name"]
        if self._clock.seconds() < self._next_heartbeat.get(name, 0.0):
            return
        if name not in self._next_heartbeat:
            self._api.request("APPLY", f"/api/v1/nodes/{name}", node)
        self._next_heartbeat[name] = self._clock.seconds() + _HEARTBEAT_INTERVAL
        now = self._clock.now().isoformat()
        ready = {"type": "Ready", "status": "True", "reason": "KubeletReady"}
        status = {
            "capacity": dict(resources),
            "allocatable": dict(resources),
            "conditions": [{**ready, "lastHeartbeatTime": now}],
        }
        self._api.request("PATCH", f"/api/v1/nodes/{name}/status", {"status": status})

    def leave(self, name: str) -> None:
        """Delete a node, as the cloud controller does."""
        self._next_heartbeat.pop(name, None)
        self._api.delete(f"/api/v1/nodes/{name}")

    @property
    def names(self) -> list[str]:
        return sorted(self._next_heartbeat)

    def reconcile(self) -> list[Raw]:
        """Start and stop pods; return all pods."""
        pods = self._api.list("/api/v1/pods")
        for pod in pods:
            if not pod["spec"].get("nodeName"):
                continue
            if pod["metadata"].get("deletionTimestamp"):
                self._containers.stop(pod)
                self._api.delete(path_of(pod))
            elif pod["status"].get("phase") == "Pending" and self._is_ready(pod):
                self._api.request("PATCH", f"{path_of(pod)}/status", {"status": _running(pod)})
        return pods

    def _is_ready(self, pod: Raw) -> bool:
        return not self._containers.is_selected(pod) or self._containers.is_ready(pod)


def path_of(pod: Raw) -> str:
    meta = pod["metadata"]
    return f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}"


def node_of(name: str, *, zone: str, **more: Any) -> Raw:
    """Return a Node with optional additional ``labels`` and ``spec``."""
    labels = {
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
        "topology.kubernetes.io/zone": zone,
        **more.get("labels", {}),
    }
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "spec": more.get("spec", {}),
    }


def _running(pod: Raw) -> Raw:
    conditions = ("PodScheduled", "Initialized", "ContainersReady", "Ready")
    started = {"running": {"startedAt": pod["metadata"]["creationTimestamp"]}}
    return {
        "phase": "Running",
        "podIP": "127.0.0.1",
        "conditions": [{"type": condition, "status": "True"} for condition in conditions],
        "containerStatuses": [
            {
                "name": container["name"],
                "image": container["image"],
                "imageID": container["image"],
                "ready": True,
                "restartCount": 0,
                "state": started,
            }
            for container in pod["spec"]["containers"]
        ],
    }
