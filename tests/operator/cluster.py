"""A whole cluster over HTTPS on the test's own loop, without controllers of ours in it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import msgspec

from dovetail.data.bundled import bundled_catalog, bundled_prices, sandbox
from dovetail.host.clock import RealClock
from dovetail.operator.cloud import Hire, Hired, NoWarnings, Surroundings
from dovetail.operator.operator import Operation, Settings
from dovetail.ports.api_resources import DEPLOYMENTS, NODE_CLAIMS, NODE_POOLS, NODES, PODS
from dovetail.ports.kube_client import Object
from dovetail.simulator.apiserver.options import PatchType
from dovetail.simulator.cluster import Box
from dovetail.simulator.ec2.cloudprovider import SimCloud
from dovetail.simulator.ec2.latencies import Latencies as CloudLatencies
from dovetail.simulator.kubelet.latencies import Latencies as KubeletLatencies
from dovetail.simulator.rest.pacing import Pace
from dovetail.simulator.scenario.load import read_scenario
from tests.kube.serving import Served, served, until
from tests.support.telling import KeptLog

_QUICK = timedelta(milliseconds=100)
PATIENCE = 40.0


class RealTimeCluster:
    """The sandbox's cluster in real time, machines booting in moments."""

    def __init__(self) -> None:
        story = msgspec.structs.replace(
            read_scenario("sandbox", sandbox()),
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
        clock = RealClock()
        self.catalog, self.prices = bundled_catalog(), bundled_prices()
        self.box = Box(story, catalog=self.catalog, prices=self.prices, start=clock.now())
        self.box.operator.kill()
        self.api = self.box.api
        pool = {"spec": {"disruption": {"consolidateAfter": "1s"}}}
        self.api.patch(NODE_POOLS, "default", pool, PatchType.MERGE)
        self.pace = Pace(self.box.engine, speed=1, clock=clock.seconds)
        self.log = KeptLog()

    async def hire(self, around: Surroundings) -> Hired:
        """Make the cloud of a process: its view of the virtual account."""
        cloud = SimCloud(
            self.box.ec2,
            loop=around.loop,
            catalog=self.catalog,
            prices=self.prices,
            node_class=around.mirror.node_class,
            scarcity=around.scarcity,
        )
        return Hired(cloud=cloud, interruptions=NoWarnings(around.loop), close=lambda: None)

    def scale(self, replicas: int) -> None:
        have = [one["metadata"]["name"] for one in self.api.list(DEPLOYMENTS).items]
        if "inflate" not in have:
            self.api.create(DEPLOYMENTS, _inflate(), "default")
        patch = {"spec": {"replicas": replicas}}
        self.api.patch(DEPLOYMENTS, "inflate", patch, PatchType.MERGE, "default")
        self.pace.wake()

    def running(self) -> int:
        return sum(
            one["status"].get("phase") == "Running" and one["metadata"]["namespace"] == "default"
            for one in self.api.list(PODS).items
        )

    def bought(self) -> list[Object]:
        return [
            one
            for one in self.api.list(NODES).items
            if "karpenter.sh/nodepool" in one["metadata"].get("labels", {})
        ]

    def claims(self) -> list[Object]:
        return list(self.api.list(NODE_CLAIMS).items)

    def machines(self) -> int:
        """Those that are paid for, beside the two that were there before."""
        return sum(not one.is_ending for one in self.box.ec2.instances())

    async def until(self, **wanted: Any) -> None:
        """Wait until this many pods run, nodes are there …"""

        def state() -> dict[str, int]:
            return {
                "running": self.running(),
                "bought": len(self.bought()),
                "claims": len(self.claims()),
                "machines": self.machines(),
            }

        await until(
            lambda: wanted.items() <= state().items(),
            lambda: (state(), [(one.message, one.fields) for one in self.log.lines[-20:]]),
            patience=PATIENCE,
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
    async with served(cluster.api, on_activity=cluster.pace.wake) as server:
        pace = asyncio.ensure_future(cluster.pace.run(stop))
        try:
            yield cluster, server
        finally:
            stop.set()
            await pace


class Process:
    """One life of ``dovetail run``, as far as it is in this process."""

    def __init__(
        self, cluster: RealTimeCluster, server: Served, *, hire: Hire | None = None
    ) -> None:
        self.stop = asyncio.Event()
        operation = Operation(
            server.access, hire=hire or cluster.hire, settings=Settings(), log=cluster.log
        )
        self.task = asyncio.ensure_future(operation.run(self.stop))

    async def end(self) -> float:
        """Stop it as SIGTERM would; returns the seconds it takes."""
        clock = asyncio.get_running_loop().time
        began = clock()
        self.stop.set()
        await self.task
        return clock() - began
