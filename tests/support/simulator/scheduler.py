"""A cluster with the scheduler."""

from typing import Any

from dovetail.ports.api_resources import EVENTS, NODES, PODS
from dovetail.simulator.apiserver.options import DeleteOptions
from dovetail.simulator.apiserver.storage.frozen_object import Object
from dovetail.simulator.scheduler.scheduler import KubeScheduler
from tests.support.simulator.api_server import Cluster


class SchedulerCluster(Cluster):
    """A cluster with the scheduler, and nodes without kubelets."""

    def __init__(self) -> None:
        super().__init__()
        self.scheduler = KubeScheduler(self, self.clock)

    def add(self, *pods: dict[str, Any]) -> None:
        for pod in pods:
            self.create(PODS, pod)

    def settle(self) -> None:
        """Run everything that is due now."""
        self.wait(0)

    def node_of(self, name: str, namespace: str = "default") -> str | None:
        node: str | None = self.get(PODS, name, namespace)["spec"].get("nodeName")
        return node

    def placements(self) -> dict[str, str | None]:
        return {pod["metadata"]["name"]: pod["spec"].get("nodeName") for pod in self.list(PODS).items}

    def unschedulable_message(self, name: str, namespace: str = "default") -> str:
        """The message of the pod's PodScheduled condition; empty if it is not False."""
        pod = self.get(PODS, name, namespace)
        for condition in pod["status"].get("conditions") or ():
            if condition["type"] == "PodScheduled" and condition["status"] == "False":
                assert condition["reason"] == "Unschedulable"
                return str(condition["message"])
        return ""

    def events(self, name: str) -> list[str]:
        return [
            f"{event['type']} {event['reason']}: {event['message']}"
            for event in self.list(EVENTS).items
            if event["involvedObject"]["name"] == name
        ]

    def remove(self, name: str) -> None:
        """Delete a pod without a grace period."""
        self.delete(PODS, name, "default", options=DeleteOptions(grace_period_seconds=0))

    def change_node(self, name: str, **spec: Any) -> Object:
        node = self.get(NODES, name)
        return self.update(NODES, {**node, "spec": {**node["spec"], **spec}})

    def label_node(self, name: str, **labels: str) -> Object:
        node = self.get(NODES, name)
        meta = {**node["metadata"], "labels": {**node["metadata"]["labels"], **labels}}
        return self.update(NODES, {**node, "metadata": meta})


def a_node(
    name: str,
    *,
    zone: str = "a",
    taints: list[str] | None = None,
    labels: dict[str, str] | None = None,
    unschedulable: bool = False,
    **amounts: str,
) -> dict[str, Any]:
    """A node of 4 CPUs; taints are written ``key=value:Effect``."""
    spec: dict[str, Any] = {"taints": [_taint(taint) for taint in taints or ()]}
    if unschedulable:
        spec["unschedulable"] = True
    resources = {"cpu": "4", "memory": "16Gi", "pods": "110", **amounts}
    default_labels = {"kubernetes.io/hostname": name, "topology.kubernetes.io/zone": zone}
    return {
        "metadata": {"name": name, "labels": {**default_labels, **(labels or {})}},
        "spec": spec,
        "status": {"capacity": resources, "allocatable": resources},
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
