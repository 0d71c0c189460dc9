"""A simulated cluster over HTTPS in real time, without its own controllers."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import msgspec

from dovetail.data.bundled import bundled_catalog, bundled_prices, bundled_sandbox_scenario
from dovetail.host.clock import SystemClock
from dovetail.operator.cloud import CloudContext, CloudFactory, CloudServices, NoInterruptionQueue
from dovetail.operator.operator import Operator, OperatorSettings
from dovetail.ports.api_resources import DEPLOYMENTS, NODE_CLAIMS, NODE_POOLS, NODES, PODS
from dovetail.ports.kube_client import Object
from dovetail.simulator.apiserver.options import PatchType
from dovetail.simulator.cluster import SimulatedCluster
from dovetail.simulator.ec2.cloudprovider import SimulatedCloudProvider
from dovetail.simulator.latencies import CloudLatencies, KubeletLatencies
from dovetail.simulator.rest.real_time import RealTimeRunner
from dovetail.simulator.scenario.load import read_scenario
from tests.kube.api_server import Served, served, until
from tests.support.telemetry import RecordedLog

_QUICK = timedelta(milliseconds=100)
TIMEOUT = 40.0


class RealTimeCluster:
    """The cluster of the sandbox in real time, with short latencies."""

    def __init__(self) -> None:
        scenario = msgspec.structs.replace(
            read_scenario("sandbox", bundled_sandbox_scenario()),
            cloud=CloudLatencies(
                create_fleet=_QUICK,
                describe=_QUICK,
                terminate=_QUICK,
                start=_QUICK,
                boot=_QUICK,
                shutdown=_QUICK,
            ),
            kubelet=KubeletLatencies(
                node_ready=_QUICK, image_pull=_QUICK, container_start=_QUICK, stop=_QUICK
            ),
        )
        clock = SystemClock()
        self.catalog, self.prices = bundled_catalog(), bundled_prices()
        self.simulated = SimulatedCluster(
            scenario, catalog=self.catalog, prices=self.prices, start=clock.now()
        )
        self.simulated.operator.kill()
        self.api = self.simulated.api
        pool = {"spec": {"disruption": {"consolidateAfter": "1s"}}}
        self.api.patch(NODE_POOLS, "default", pool, PatchType.MERGE)
        self.runner = RealTimeRunner(self.simulated.clock, speed=1, clock=clock.seconds)
        self.log = RecordedLog()

    async def create_cloud(self, context: CloudContext) -> CloudServices:
        """Create the cloud services of a process on the simulated account."""
        cloud = SimulatedCloudProvider(
            self.simulated.ec2,
            loop=context.loop,
            catalog=self.catalog,
            prices=self.prices,
            node_class=context.cache.node_class,
            unavailable=context.unavailable_offerings,
        )
        return CloudServices(
            cloud_provider=cloud, interruption_queue=NoInterruptionQueue(context.loop), close=lambda: None
        )

    def scale(self, replicas: int) -> None:
        names = [deployment["metadata"]["name"] for deployment in self.api.list(DEPLOYMENTS).items]
        if "inflate" not in names:
            self.api.create(DEPLOYMENTS, _inflate(), "default")
        patch = {"spec": {"replicas": replicas}}
        self.api.patch(DEPLOYMENTS, "inflate", patch, PatchType.MERGE, "default")
        self.runner.wake()

    def running(self) -> int:
        return sum(
            pod["status"].get("phase") == "Running" and pod["metadata"]["namespace"] == "default"
            for pod in self.api.list(PODS).items
        )

    def managed_nodes(self) -> list[Object]:
        return [
            node
            for node in self.api.list(NODES).items
            if "karpenter.sh/nodepool" in node["metadata"].get("labels", {})
        ]

    def claims(self) -> list[Object]:
        return list(self.api.list(NODE_CLAIMS).items)

    def instances(self) -> int:
        """Return the number of instances that are not terminating."""
        return sum(not instance.is_terminating for instance in self.simulated.ec2.instances())

    async def until(self, **expected: Any) -> None:
        """Wait for these numbers of running pods, nodes, claims and instances."""

        def state() -> dict[str, int]:
            return {
                "running": self.running(),
                "nodes": len(self.managed_nodes()),
                "claims": len(self.claims()),
                "instances": self.instances(),
            }

        await until(
            lambda: expected.items() <= state().items(),
            lambda: (state(), [(line.message, line.fields) for line in self.log.lines[-20:]]),
            timeout=TIMEOUT,
        )


def _inflate() -> Object:
    container = {
        "name": "inflate",
        "image": "pause",
        "resources": {"requests": {"cpu": "1", "memory": "256Mi"}},
    }
    pod = {
        "metadata": {"labels": {"app": "inflate"}},
        "spec": {"containers": [container], "terminationGracePeriodSeconds": 0},
    }
    selector = {"matchLabels": {"app": "inflate"}}
    spec = {"replicas": 0, "selector": selector, "template": pod}
    return {"metadata": {"name": "inflate"}, "spec": spec}


@asynccontextmanager
async def a_real_time_cluster() -> AsyncIterator[tuple[RealTimeCluster, Served]]:
    cluster, stop = RealTimeCluster(), asyncio.Event()
    async with served(cluster.api, on_activity=cluster.runner.wake) as server:
        running = asyncio.ensure_future(cluster.runner.run(stop))
        try:
            yield cluster, server
        finally:
            stop.set()
            await running


class Process:
    """An operator that runs until ``end`` is called."""

    def __init__(
        self,
        cluster: RealTimeCluster,
        server: Served,
        *,
        cloud_factory: CloudFactory | None = None,
        is_in_cluster: bool = False,
        settings: OperatorSettings = OperatorSettings(),  # noqa: B008 - frozen
    ) -> None:
        self.stop = asyncio.Event()
        operator = Operator(
            msgspec.structs.replace(server.access, is_in_cluster=is_in_cluster),
            cloud_factory=cloud_factory or cluster.create_cloud,
            settings=settings,
            log=cluster.log,
        )
        self.task = asyncio.ensure_future(operator.run(self.stop))

    async def end(self) -> float:
        """Stop the operator as SIGTERM does; return the seconds that it takes."""
        clock = asyncio.get_running_loop().time
        began = clock()
        self.stop.set()
        await self.task
        return clock() - began
