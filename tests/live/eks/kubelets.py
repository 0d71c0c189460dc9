"""Nodes that join, and pods that run on them as soon as they are bound."""

from collections.abc import Mapping
from typing import Any

from dovetail.host.clock import RealClock
from tests.live.eks.api import Api
from tests.live.eks.programs import Programs, Raw

_OFTEN = 30.0
"""Seconds between two signs of life; the node controller waits some minutes."""


class Kubelets:
    """All kubelets of a cluster, in one."""

    def __init__(self, api: Api, programs: Programs) -> None:
        self._api = api
        self._programs = programs
        self._clock = RealClock()
        self._told: dict[str, float] = {}

    def join(self, node: Raw, amounts: Mapping[str, str]) -> None:
        """Register a node if it is not there, and say that it is alive."""
        name = node["metadata"]["name"]
        if self._clock.seconds() < self._told.get(name, 0.0):
            return
        if name not in self._told:
            self._api.ask("APPLY", f"/api/v1/nodes/{name}", node)
        self._told[name] = self._clock.seconds() + _OFTEN
        now = self._clock.now().isoformat()
        ready = {"type": "Ready", "status": "True", "reason": "KubeletReady"}
        status = {
            "capacity": dict(amounts),
            "allocatable": dict(amounts),
            "conditions": [{**ready, "lastHeartbeatTime": now}],
        }
        self._api.ask("PATCH", f"/api/v1/nodes/{name}/status", {"status": status})

    def leave(self, name: str) -> None:
        """Be no more: the cloud's controller takes the node away."""
        self._told.pop(name, None)
        self._api.delete(f"/api/v1/nodes/{name}")

    @property
    def names(self) -> list[str]:
        return sorted(self._told)

    def look(self) -> list[Raw]:
        """Start and end pods; return all there are."""
        pods = self._api.list("/api/v1/pods")
        for pod in pods:
            if not pod["spec"].get("nodeName"):
                continue
            if pod["metadata"].get("deletionTimestamp"):
                self._programs.end(pod)
                self._api.delete(path_of(pod))
            elif pod["status"].get("phase") == "Pending" and self._is_ready(pod):
                self._api.ask("PATCH", f"{path_of(pod)}/status", {"status": _running(pod)})
        return pods

    def _is_ready(self, pod: Raw) -> bool:
        return not self._programs.is_ours(pod) or self._programs.is_ready(pod)


def path_of(pod: Raw) -> str:
    meta = pod["metadata"]
    return f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}"


def node_of(name: str, *, zone: str, **more: Any) -> Raw:
    """Return a node; ``labels`` and ``spec`` may be added."""
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
        "conditions": [{"type": one, "status": "True"} for one in conditions],
        "containerStatuses": [
            {
                "name": one["name"],
                "image": one["image"],
                "imageID": one["image"],
                "ready": True,
                "restartCount": 0,
                "state": started,
            }
            for one in pod["spec"]["containers"]
        ],
    }
