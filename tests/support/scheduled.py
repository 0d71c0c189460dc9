"""A cluster in which pods find their nodes."""

from typing import Any

from dovetail.ports.api_resources import EVENTS, NODES, PODS
from dovetail.simulator.apiserver.delete import DeleteOptions
from dovetail.simulator.apiserver.storage.frozen_object import Object
from dovetail.simulator.scheduler.scheduler import Binder
from tests.support.cluster import Cluster


class Scheduled(Cluster):
    """A cluster with a binder, and nodes that are just there."""

    def __init__(self) -> None:
        super().__init__()
        self.binder = Binder(self, self.engine)

    def add(self, *pods: dict[str, Any]) -> None:
        for pod in pods:
            self.create(PODS, pod)

    def settle(self) -> None:
        """Let everything happen that is due now."""
        self.wait(0)

    def node_of(self, name: str, namespace: str = "default") -> str | None:
        found: str | None = self.get(PODS, name, namespace)["spec"].get("nodeName")
        return found

    def placements(self) -> dict[str, str | None]:
        return {
            one["metadata"]["name"]: one["spec"].get("nodeName") for one in self.list(PODS).items
        }

    def refusal(self, name: str, namespace: str = "default") -> str:
        """What the pod's condition says; empty when it was not refused."""
        pod = self.get(PODS, name, namespace)
        for one in pod["status"].get("conditions") or ():
            if one["type"] == "PodScheduled" and one["status"] == "False":
                assert one["reason"] == "Unschedulable"
                return str(one["message"])
        return ""

    def events(self, name: str) -> list[str]:
        return [
            f"{one['type']} {one['reason']}: {one['message']}"
            for one in self.list(EVENTS).items
            if one["involvedObject"]["name"] == name
        ]

    def kill(self, name: str) -> None:
        """Take a pod away at once, as its kubelet does in the end."""
        self.delete(PODS, name, "default", options=DeleteOptions(grace_seconds=0))

    def change_node(self, name: str, **spec: Any) -> Object:
        node = self.get(NODES, name)
        return self.update(NODES, {**node, "spec": {**node["spec"], **spec}})

    def label_node(self, name: str, **labels: str) -> Object:
        node = self.get(NODES, name)
        meta = {**node["metadata"], "labels": {**node["metadata"]["labels"], **labels}}
        return self.update(NODES, {**node, "metadata": meta})


def host(
    name: str,
    *,
    zone: str = "a",
    taints: list[str] | None = None,
    labels: dict[str, str] | None = None,
    unschedulable: bool = False,
    **amounts: str,
) -> dict[str, Any]:
    """A node of 4 CPUs; taints are written ``key=value:Effect``."""
    spec: dict[str, Any] = {"taints": [_taint(one) for one in taints or ()]}
    if unschedulable:
        spec["unschedulable"] = True
    held = {"cpu": "4", "memory": "16Gi", "pods": "110", **amounts}
    known = {"kubernetes.io/hostname": name, "topology.kubernetes.io/zone": zone}
    return {
        "metadata": {"name": name, "labels": {**known, **(labels or {})}},
        "spec": spec,
        "status": {"capacity": held, "allocatable": held},
    }


def _taint(text: str) -> dict[str, str]:
    pair, _, effect = text.partition(":")
    key, _, value = pair.partition("=")
    return {"key": key, "value": value, "effect": effect}


def pod(
    name: str,
    *,
    namespace: str = "default",
    labels: dict[str, str] | None = None,
    requests: dict[str, str] | None = None,
    **spec: Any,
) -> dict[str, Any]:
    containers = [{"name": "main", "image": "app:1", "resources": {"requests": requests or {}}}]
    return {
        "metadata": {"name": name, "namespace": namespace, "labels": labels or {}},
        "spec": {"containers": containers, **spec},
    }
