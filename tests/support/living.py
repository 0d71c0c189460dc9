"""A cluster that lives in real time: API server, scheduler, kubelets, workload controllers."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from datetime import timedelta
from typing import Any, TypeVar

from dovetail.host.clock import RealClock
from dovetail.model.frozen import FrozenDict
from dovetail.ports.api_resources import NODE_CLAIMS, NODES, PODS, Resource, resource_of_kind
from dovetail.ports.kube_client import Kube
from dovetail.ports.kube_errors import NotFound
from dovetail.simulator.apiserver.options import PatchType
from dovetail.simulator.apiserver.server import ApiServer
from dovetail.simulator.clock import Engine
from dovetail.simulator.controllermanager.manager import start_workloads
from dovetail.simulator.kube_client import SimKube
from dovetail.simulator.kubelet.kubelets import Kubelets
from dovetail.simulator.kubelet.latencies import Latencies
from dovetail.simulator.rest.pacing import Pace
from dovetail.simulator.scheduler.scheduler import Binder
from tests.support.requests import READS, Front, Request

T = TypeVar("T")
QUICK = Latencies(
    node_ready=timedelta(milliseconds=200),
    devices=timedelta(milliseconds=50),
    image_pull=timedelta(milliseconds=100),
    images=FrozenDict(),
    container_start=timedelta(milliseconds=20),
    stop=timedelta(milliseconds=50),
)


class Cluster:
    """Everything of a cluster but Dovetail and its cloud; runs while ``running`` is entered.

    Its clock is the real one, so that whoever lives on an asyncio loop can use it;
    that booting takes no minutes is the machines' merit.
    """

    def __init__(self) -> None:
        clock = RealClock()
        self.engine = Engine(start=clock.now())
        self.api = ApiServer(now=self.engine.now)
        self.machines: set[str] = set()
        """Provider ids of what the cloud has, as far as its own controller knows."""
        self.kubelets = Kubelets(self.api, self.engine, latencies=QUICK)
        start_workloads(self.api, self.engine, instance_exists=lambda one: one in self.machines)
        Binder(self.api, self.engine)
        self._pace = Pace(self.engine, speed=1, clock=clock.seconds)
        self.kube = AttentiveKube(SimKube(self.api), self._pace.wake)
        self._ending = asyncio.Event()

    async def __aenter__(self) -> "Cluster":
        self._running = asyncio.create_task(self._pace.run(self._ending))
        return self

    async def __aexit__(self, *_: object) -> None:
        self._ending.set()
        await self._running

    # What users do.

    def apply(self, *objects: Mapping[str, Any]) -> None:
        for obj in objects:
            resource = resource_of_kind(obj["apiVersion"], obj["kind"])
            assert resource is not None
            namespace = "default" if resource.namespaced else ""
            self.api.apply(resource, obj, namespace, manager="test", force=True)
        self._pace.wake()

    def scale(self, resource: Resource, name: str, replicas: int) -> None:
        patch = {"spec": {"replicas": replicas}}
        self.api.patch(resource, name, patch, PatchType.MERGE, "default")
        self._pace.wake()

    def delete(self, resource: Resource, name: str) -> None:
        self.api.delete(resource, name, "default" if resource.namespaced else "")
        self._pace.wake()

    # What is there.

    def all(self, resource: Resource) -> list[Any]:
        return list(self.api.list(resource).items)

    def claims(self) -> list[str]:
        """The claims that are there to stay."""
        found = self.all(NODE_CLAIMS)
        return [one["metadata"]["name"] for one in found if not _deleting(one)]

    def running(self) -> list[str]:
        """The pods that run on a node that is there."""
        nodes = {one["metadata"]["name"] for one in self.all(NODES)}
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


class AttentiveKube(Front):
    """Has what was written seen at once, not at the next look."""

    def __init__(self, kube: Kube, wake: Callable[[], None]) -> None:
        super().__init__(kube)
        self._wake = wake

    async def passing(self, request: Request, answer: Awaitable[T]) -> T:
        if request.verb not in READS:
            self._wake()
        return await answer


def _deleting(obj: Mapping[str, Any]) -> bool:
    return "deletionTimestamp" in obj["metadata"]


async def until(happened: Callable[[], Any], *, within: float, what: str = "") -> float:
    """Wait for something; returns how many seconds it took."""
    clock = RealClock()
    started = clock.seconds()
    while not happened():
        passed = clock.seconds() - started
        assert passed < within, f"not within {within} s: {what or happened}"
        await asyncio.sleep(0.01)
    return clock.seconds() - started
