"""A cluster with the controller manager and a minimal kubelet."""

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any

from dovetail.ports.api_resources import LEASES, NODES, PODS, Resource
from dovetail.simulator.apiserver.interface import find_object
from dovetail.simulator.apiserver.options import DeleteOptions, ListOptions, PatchType
from dovetail.simulator.apiserver.storage.frozen_object import Object, get_field
from dovetail.simulator.apiserver.storage.store import object_key
from dovetail.simulator.apiserver.storage.watch import WatchEvent
from dovetail.simulator.apiserver.timestamps import format_timestamp
from dovetail.simulator.controllermanager.manager import start_controller_manager
from dovetail.simulator.workqueue import WorkQueue, start_watch
from tests.support.simulator.api_server import Cluster

GONE = DeleteOptions(grace_period_seconds=0)


class Kubelet:
    """Binds pods, makes them ready and removes deleted ones."""

    def __init__(self, cluster: Cluster, *, boot: float, stop: float) -> None:
        self._cluster = cluster
        self._boot, self._stop = timedelta(seconds=boot), timedelta(seconds=stop)
        self._starting: WorkQueue[tuple[str, str]] = WorkQueue(cluster.clock, self._begin)
        self._stopping: WorkQueue[tuple[str, str]] = WorkQueue(cluster.clock, self._end)
        self._turn = 0
        self.broken = ""
        """Pods of this image never become ready."""
        start_watch(cluster, cluster.clock, PODS, self._handle_event)

    def _handle_event(self, event: WatchEvent) -> None:
        if event.object["metadata"].get("deletionTimestamp"):
            self._stopping.add(object_key(event.object), after=self._stop)
        else:
            self._starting.add(object_key(event.object), after=self._boot)

    def _end(self, key: tuple[str, str]) -> None:
        if find_object(self._cluster, PODS, key[1], key[0]) is not None:
            self._cluster.delete(PODS, key[1], key[0], options=GONE)

    def _begin(self, key: tuple[str, str]) -> None:
        pod = find_object(self._cluster, PODS, key[1], key[0])
        if pod is None or pod["metadata"].get("deletionTimestamp"):
            return
        if get_field(pod, "status", "phase") == "Pending":
            self._start(pod)

    def _start(self, pod: Object) -> None:
        namespace, name = object_key(pod)
        node = get_field(pod, "spec", "nodeName") or self._node_for(pod)
        if node is None:
            return
        if not get_field(pod, "spec", "nodeName"):
            self._cluster.bind(name, namespace, {"target": {"name": node}})
        image = get_field(pod, "spec", "containers")[0]["image"]
        set_pod(self._cluster, object_key(pod), ready=image != self.broken)

    def _node_for(self, pod: Object) -> str | None:
        nodes = [node["metadata"]["name"] for node in self._cluster.list(NODES).items]
        terms = get_field(
            pod,
            "spec",
            "affinity",
            "nodeAffinity",
            "requiredDuringSchedulingIgnoredDuringExecution",
            "nodeSelectorTerms",
        )
        if terms:
            nodes = [node for node in nodes if node in terms[0]["matchFields"][0]["values"]]
        if not nodes:
            return None
        self._turn += 1
        return nodes[self._turn % len(nodes)]


class WorkloadCluster(Cluster):
    """A cluster with the controller manager."""

    def __init__(
        self,
        *nodes: str,
        boot: float = 1,
        stop: float = 1,
        instance_exists: Callable[[str], bool | None] | None = None,
    ) -> None:
        super().__init__()
        start_controller_manager(self, self.clock, instance_exists=instance_exists)
        self.kubelet = Kubelet(self, boot=boot, stop=stop)
        for name in nodes or ("n1", "n2"):
            self.join(name)

    def join(self, name: str, *, ready: str = "True", beats_for: float = 86400, **labels: str) -> None:
        """Register a node that renews its Lease for a while."""
        spec = {"providerID": f"aws:///us-east-1a/i-{name}"}
        condition = {"type": "Ready", "status": ready, "lastTransitionTime": self.text()}
        status = {"conditions": [condition]}
        meta = {"name": name, "labels": labels}
        self.create(NODES, {"metadata": meta, "spec": spec, "status": status})
        last_beat = format_timestamp(self.clock.now() + timedelta(seconds=beats_for))
        lease = {"renewTime": last_beat, "holderIdentity": name, "leaseDurationSeconds": 40}
        self.create(LEASES, {"metadata": {"name": name}, "spec": lease}, "kube-node-lease")

    def text(self) -> str:
        return format_timestamp(self.clock.now())

    def pods(self, **labels: str) -> list[Object]:
        selector = ",".join(f"{key}={value}" for key, value in labels.items())
        return list(self.list(PODS, ListOptions(namespace="default", label_selector=selector)).items)

    def change(self, resource: Resource, name: str, patch: Mapping[str, Any]) -> Object:
        return self.patch(resource, name, dict(patch), PatchType.MERGE, "default")

    def scale(self, resource: Resource, name: str, replicas: int) -> None:
        self.change(resource, name, {"spec": {"replicas": replicas}})


def set_pod(cluster: Cluster, key: tuple[str, str], *, phase: str = "Running", ready: bool = True) -> None:
    """Write a pod's status as its kubelet would."""
    is_ready = {
        "type": "Ready",
        "status": "True" if ready else "False",
        "lastTransitionTime": format_timestamp(cluster.clock.now()),
    }
    others = [
        condition
        for condition in get_field(cluster.get(PODS, key[1], key[0]), "status", "conditions") or ()
        if condition["type"] != "Ready"
    ]
    status = {"phase": phase, "conditions": [*others, is_ready]}
    cluster.patch(PODS, key[1], {"status": status}, PatchType.MERGE, key[0], subresource="status")


def a_template(app: str = "web", *, image: str = "app:1", **spec: Any) -> dict[str, Any]:
    return {
        "metadata": {"labels": {"app": app}},
        "spec": {"containers": [{"name": "main", "image": image}], **spec},
    }


def a_workload(name: str = "web", *, replicas: int | None = None, **spec: Any) -> dict[str, Any]:
    """A Deployment, ReplicaSet, StatefulSet or DaemonSet, by where it is created."""
    sized = {} if replicas is None else {"replicas": replicas}
    return {
        "metadata": {"name": name, "namespace": "default"},
        "spec": {**sized, "selector": {"matchLabels": {"app": name}}, "template": a_template(name), **spec},
    }


def new_image(image: str) -> dict[str, Any]:
    """A patch as ``kubectl set image`` sends it."""
    return {"spec": {"template": {"spec": {"containers": [{"name": "main", "image": image}]}}}}


def images(pods: list[Object]) -> list[str]:
    return sorted(get_field(pod, "spec", "containers")[0]["image"] for pod in pods)


def condition_of(obj: Object, kind: str) -> tuple[str, str]:
    """Status and reason of a condition."""
    for condition in get_field(obj, "status", "conditions") or ():
        if condition["type"] == kind:
            return condition["status"], condition.get("reason", "")
    return "", ""
