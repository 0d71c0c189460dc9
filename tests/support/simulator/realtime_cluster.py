"""A cluster in real time: API server, scheduler, kubelets, controller manager."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from datetime import timedelta
from typing import Any, TypeVar

from dovetail.host.clock import SystemClock
from dovetail.model.frozen import FrozenDict
from dovetail.ports.api_resources import NODE_CLAIMS, NODES, PODS, Resource, find_resource
from dovetail.ports.kube_client import KubeClient
from dovetail.ports.kube_errors import NotFound
from dovetail.simulator.apiserver.options import PatchType
from dovetail.simulator.apiserver.server import ApiServer
from dovetail.simulator.clock import VirtualClock
from dovetail.simulator.controllermanager.manager import start_controller_manager
from dovetail.simulator.kube_client import SimulatedKubeClient
from dovetail.simulator.kubelet.kubelets import Kubelets
from dovetail.simulator.latencies import KubeletLatencies
from dovetail.simulator.rest.real_time import RealTimeRunner
from dovetail.simulator.scheduler.scheduler import KubeScheduler
from tests.support.kube.forwarding_client import READS, ForwardingKubeClient, Request

T = TypeVar("T")
QUICK = KubeletLatencies(
    node_ready=timedelta(milliseconds=200),
    devices=timedelta(milliseconds=50),
    image_pull=timedelta(milliseconds=100),
    images=FrozenDict(),
    container_start=timedelta(milliseconds=20),
    stop=timedelta(milliseconds=50),
)


class Cluster:
    """Everything of a cluster except Dovetail and EC2, in real time.

    Runs while it is entered as a context manager, on an asyncio loop. Latencies are short.
    """

    def __init__(self) -> None:
        clock = SystemClock()
        self.clock = VirtualClock(start=clock.now())
        self.api = ApiServer(now=self.clock.now)
        self.instances: set[str] = set()
        """Provider IDs of the existing instances."""
        self.kubelets = Kubelets(self.api, self.clock, latencies=QUICK)
        start_controller_manager(
            self.api, self.clock, instance_exists=lambda provider_id: provider_id in self.instances
        )
        KubeScheduler(self.api, self.clock)
        self._runner = RealTimeRunner(self.clock, speed=1, clock=clock.seconds)
        self.kube = WakingKubeClient(SimulatedKubeClient(self.api), self._runner.wake)
        self._stop_requested = asyncio.Event()

    async def __aenter__(self) -> "Cluster":
        self._running = asyncio.create_task(self._runner.run(self._stop_requested))
        return self

    async def __aexit__(self, *_: object) -> None:
        self._stop_requested.set()
        await self._running

    # Actions of users.

    def apply(self, *objects: Mapping[str, Any]) -> None:
        for obj in objects:
            resource = find_resource(obj["apiVersion"], obj["kind"])
            assert resource is not None
            namespace = "default" if resource.namespaced else ""
            self.api.apply(resource, obj, namespace, manager="test", force=True)
        self._runner.wake()

    def scale(self, resource: Resource, name: str, replicas: int) -> None:
        patch = {"spec": {"replicas": replicas}}
        self.api.patch(resource, name, patch, PatchType.MERGE, "default")
        self._runner.wake()

    def delete(self, resource: Resource, name: str) -> None:
        self.api.delete(resource, name, "default" if resource.namespaced else "")
        self._runner.wake()

    # State of the cluster.

    def all(self, resource: Resource) -> list[Any]:
        return list(self.api.list(resource).items)

    def claims(self) -> list[str]:
        """Names of the NodeClaims that are not being deleted."""
        claims = self.all(NODE_CLAIMS)
        return [claim["metadata"]["name"] for claim in claims if not _deleting(claim)]

    def running(self) -> list[str]:
        """Names of the pods that run on existing nodes."""
        nodes = {node["metadata"]["name"] for node in self.all(NODES)}
        return [
            pod["metadata"]["name"]
            for pod in self.all(PODS)
            if pod["status"].get("phase") == "Running"
            and not _deleting(pod)
            and pod["spec"].get("nodeName") in nodes
        ]

    def get(self, resource: Resource, name: str) -> Any:
        try:
            return self.api.get(resource, name, "default" if resource.namespaced else "")
        except NotFound:
            return None


class WakingKubeClient(ForwardingKubeClient):
    """KubeClient that wakes the cluster after every write."""

    def __init__(self, kube: KubeClient, wake: Callable[[], None]) -> None:
        super().__init__(kube)
        self._wake = wake

    async def forward(self, request: Request, response: Awaitable[T]) -> T:
        if request.verb not in READS:
            self._wake()
        return await response


def _deleting(obj: Mapping[str, Any]) -> bool:
    return "deletionTimestamp" in obj["metadata"]


async def until(happened: Callable[[], Any], *, within: float, what: str = "") -> float:
    """Wait for a condition; return how many seconds it took."""
    clock = SystemClock()
    started = clock.seconds()
    while not happened():
        passed = clock.seconds() - started
        assert passed < within, f"not within {within} s: {what or happened}"
        await asyncio.sleep(0.01)
    return clock.seconds() - started
