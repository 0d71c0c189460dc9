"""Machines to boot kubelets on, and a cluster in which they run."""

from typing import Any

from dovetail.model.frozen import FrozenDict
from dovetail.model.kube.resources import Resources
from dovetail.model.kube.taints import Taint
from dovetail.model.labels import ZONE
from dovetail.ports.api_resources import PODS
from dovetail.simulator.apiserver.delete import DeleteOptions
from dovetail.simulator.apiserver.storage.frozen_object import Object
from dovetail.simulator.instance import Machine
from dovetail.simulator.kubelet.kubelets import Kubelets
from dovetail.simulator.kubelet.latencies import Latencies
from tests.support.cluster import Cluster


def a_machine(
    number: int = 1,
    *,
    zone: str = "us-east-1a",
    taints: tuple[Taint, ...] = (),
    labels: dict[str, str] | None = None,
    **amounts: str,
) -> Machine:
    """A machine of 4 CPUs and 16 GiB, unless told otherwise."""
    held = Resources.parse({"cpu": "4", "memory": "16Gi", "pods": "110", **amounts})
    return Machine(
        name=f"ip-10-0-{number >> 8}-{number & 255}.ec2.internal",
        provider_id=f"aws:///{zone}/i-{number:017x}",
        labels=FrozenDict({ZONE: zone, **(labels or {})}),
        taints=taints,
        capacity=held,
        allocatable=held,
    )


class Hosted(Cluster):
    """A cluster with kubelets."""

    def __init__(self, latencies: Latencies | None = None) -> None:
        super().__init__()
        self.kubelets = Kubelets(self, self.engine, latencies=latencies or Latencies())

    def boot(self, *machines: Machine) -> None:
        for machine in machines:
            self.kubelets.boot(machine)

    def run(self, pod: dict[str, Any], machine: Machine) -> Object:
        """Create a pod and bind it to a machine's node."""
        made = self.create(PODS, pod)
        binding = {"target": {"kind": "Node", "name": machine.name}}
        return self.bind(made["metadata"]["name"], made["metadata"]["namespace"], binding)

    def delete_pod(self, name: str, *, grace: int | None = None) -> None:
        self.delete(PODS, name, "default", options=DeleteOptions(grace_seconds=grace))

    def pod(self, name: str) -> Object:
        return self.get(PODS, name, "default")


def condition(obj: Object, kind: str) -> str:
    """The status of a condition, with its reason where it has one."""
    for one in obj["status"].get("conditions") or ():
        if one["type"] == kind:
            return f"{one['status']} {one.get('reason', '')}".strip()
    return "absent"
