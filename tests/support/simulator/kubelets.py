"""Booted instances, and a cluster with their kubelets."""

from typing import Any

from dovetail.model.frozen import FrozenDict
from dovetail.model.kube.resources import Resources
from dovetail.model.kube.taints import Taint
from dovetail.model.labels import ZONE
from dovetail.ports.api_resources import PODS
from dovetail.simulator.apiserver.options import DeleteOptions
from dovetail.simulator.apiserver.storage.frozen_object import Object
from dovetail.simulator.instance import BootedInstance
from dovetail.simulator.kubelet.kubelets import Kubelets
from dovetail.simulator.latencies import KubeletLatencies
from tests.support.simulator.api_server import Cluster


def booted_instance(
    number: int = 1,
    *,
    zone: str = "us-east-1a",
    taints: tuple[Taint, ...] = (),
    labels: dict[str, str] | None = None,
    **amounts: str,
) -> BootedInstance:
    """An instance of 4 CPUs and 16 GiB by default."""
    resources = Resources.parse({"cpu": "4", "memory": "16Gi", "pods": "110", **amounts})
    return BootedInstance(
        name=f"ip-10-0-{number >> 8}-{number & 255}.ec2.internal",
        provider_id=f"aws:///{zone}/i-{number:017x}",
        labels=FrozenDict({ZONE: zone, **(labels or {})}),
        taints=taints,
        capacity=resources,
        allocatable=resources,
    )


class KubeletCluster(Cluster):
    """A cluster with kubelets."""

    def __init__(self, latencies: KubeletLatencies | None = None) -> None:
        super().__init__()
        self.kubelets = Kubelets(self, self.clock, latencies=latencies or KubeletLatencies())

    def boot(self, *instances: BootedInstance) -> None:
        for instance in instances:
            self.kubelets.start(instance)

    def run(self, pod: dict[str, Any], instance: BootedInstance) -> Object:
        """Create a pod and bind it to an instance's node."""
        created = self.create(PODS, pod)
        binding = {"target": {"kind": "Node", "name": instance.name}}
        return self.bind(created["metadata"]["name"], created["metadata"]["namespace"], binding)

    def delete_pod(self, name: str, *, grace: int | None = None) -> None:
        self.delete(PODS, name, "default", options=DeleteOptions(grace_period_seconds=grace))

    def pod(self, name: str) -> Object:
        return self.get(PODS, name, "default")


def condition(obj: Object, kind: str) -> str:
    """The status of a condition, with its reason if it has one."""
    for entry in obj["status"].get("conditions") or ():
        if entry["type"] == kind:
            return f"{entry['status']} {entry.get('reason', '')}".strip()
    return "absent"
