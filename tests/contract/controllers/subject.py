"""The control planes under test: simulated, or real."""

from collections.abc import Callable
from typing import Any, Protocol

from dovetail.ports.api_resources import NODES, PODS
from dovetail.simulator.controllermanager.manager import start_controller_manager
from dovetail.simulator.scheduler.scheduler import KubeScheduler
from tests.contract.apiserver.in_memory import InMemoryServer
from tests.contract.apiserver.live import LiveServer
from tests.contract.apiserver.subject import Object, Subject
from tests.live.cluster import wait_for

EVERYWHERE = [{"operator": "Exists"}]
"""Tolerations of a pod for every taint: no kubelet reports the nodes as ready."""


class ControlPlane(Subject, Protocol):
    """An API server with the controllers and the scheduler of Kubernetes, without kubelets."""

    def wait_until(self, what: str, condition: Callable[[], bool]) -> None:
        """Wait until a condition is true; raise AssertionError naming it on timeout."""
        ...


class SimulatedControlPlane(InMemoryServer):
    """The simulated API server, controller manager and scheduler, in virtual time."""

    def __init__(self) -> None:
        super().__init__()
        start_controller_manager(self.cluster, self.cluster.clock)
        self.scheduler = KubeScheduler(self.cluster, self.cluster.clock)

    def wait_for_controllers(self) -> None:
        self.cluster.wait(1)

    def wait_until(self, what: str, condition: Callable[[], bool]) -> None:
        for _ in range(900):
            self.cluster.wait(1)
            if condition():
                return
        raise AssertionError(f"not true after 900 s: {what}")


class LiveControlPlane(LiveServer):
    """A real API server, kube-controller-manager and kube-scheduler."""

    def wait_until(self, what: str, condition: Callable[[], bool]) -> None:
        wait_for(what, condition)


def create_node(plane: ControlPlane, name: str, *, cpu: str = "4", zone: str = "zone-a") -> str:
    """Create a node that is ready but has no kubelet; return its name."""
    unique = plane.unique(name)
    amounts = {"cpu": cpu, "memory": "16Gi", "pods": "110"}
    labels = {"topology.kubernetes.io/zone": zone, "contract": plane.namespace}
    ready = {"type": "Ready", "status": "True", "reason": "KubeletReady"}
    status = {"capacity": amounts, "allocatable": amounts, "conditions": [ready]}
    plane.create(NODES, {"metadata": {"name": unique, "labels": labels}, "status": status})
    plane.patch(NODES, unique, {"status": status}, subresource="status")
    return unique


def run_pod(plane: ControlPlane, pod: Object, *, ip: str, ready: bool = True) -> None:
    """Create a pod that names its node, and report it as running, as its kubelet would."""
    plane.create(PODS, pod)
    report_pod(plane, pod["metadata"]["name"], ip=ip, ready=ready)


def report_pod(
    plane: ControlPlane, name: str, *, ip: str, ready: bool = True, phase: str = "Running"
) -> None:
    """Report the status of a pod, as its kubelet would."""
    condition: dict[str, Any] = {"type": "Ready", "status": str(ready)}
    addresses = {"podIP": ip, "podIPs": [{"ip": ip}]}
    status = {"phase": phase, "conditions": [condition], **addresses}
    plane.patch(PODS, name, {"status": status}, subresource="status")
