"""The production controllers over HTTP, in real time, on a cluster that is simulated."""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial

import pytest

from dovetail.kube.preflight import Unsuitable
from dovetail.ports.api_resources import LEASES
from dovetail.ports.kube_client import Object
from tests.kube.serving import Served, until
from tests.operator.cluster import Process, RealTimeCluster, a_real_time_cluster

pytestmark = pytest.mark.slow


def in_a_cluster(work: Callable[[RealTimeCluster, Served], Awaitable[None]]) -> None:
    async def run() -> None:
        async with a_real_time_cluster() as (cluster, server):
            await work(cluster, server)

    asyncio.run(run())


def test_nodes_come_and_go_although_the_api_server_restarts_and_forgets_in_between() -> None:
    async def work(cluster: RealTimeCluster, server: Served) -> None:
        process = Process(cluster, server)
        cluster.scale(10)
        await cluster.until(running=10)
        filled = len(cluster.bought())
        cluster.scale(30)
        await asyncio.sleep(1.2)
        await server.stop()
        cluster.api.compact()
        await asyncio.sleep(0.3)
        await server.start()
        await cluster.until(running=30)
        cluster.scale(0)
        await cluster.until(running=0, bought=0, claims=0, machines=0)
        seconds = await process.end()

        assert filled > 0
        assert seconds < 5
        assert cluster.log.said("created nodeclaim")
        assert cluster.log.said("started")
        assert cluster.box.invariants.violations == []
        assert not [one for one in cluster.log.lines if one.message.startswith("something")]

    in_a_cluster(work)


def test_a_process_that_takes_over_finds_everything_and_buys_nothing_twice() -> None:
    async def work(cluster: RealTimeCluster, server: Served) -> None:
        first = Process(cluster, server)
        cluster.scale(12)
        await cluster.until(running=12)
        await first.end()
        before = cluster.machines()

        second = Process(cluster, server)
        await asyncio.sleep(2)
        held = cluster.machines()
        cluster.scale(14)
        await cluster.until(running=14)
        await second.end()

        assert held == before

    in_a_cluster(work)


def _are_more_than(number: int, count: Callable[[], list[Object]]) -> bool:
    return len(count()) > number


def test_processes_that_stop_in_the_middle_of_buying_leave_nothing_behind() -> None:
    async def work(cluster: RealTimeCluster, server: Served) -> None:
        slowest = 0.0
        for pods in (4, 12, 30):
            process = Process(cluster, server)
            cluster.scale(pods)
            await until(partial(_are_more_than, len(cluster.claims()), cluster.claims))
            slowest = max(slowest, await process.end())

        last = Process(cluster, server)
        await cluster.until(running=30)
        claims = {one["status"]["providerID"] for one in cluster.claims()}
        await last.end()

        assert slowest < 5
        assert len(claims) == len(cluster.claims()) == cluster.machines()
        assert cluster.box.invariants.violations == []

    in_a_cluster(work)


def test_beside_karpenter_nothing_is_begun() -> None:
    async def work(cluster: RealTimeCluster, server: Served) -> None:
        now = cluster.box.engine.now()
        spec = {
            "holderIdentity": "karpenter-7d4b9-x2x1z",
            "leaseDurationSeconds": 15,
            "renewTime": f"{now:%Y-%m-%dT%H:%M:%S.%f}Z",
        }
        lease = {"metadata": {"name": "karpenter-leader-election"}, "spec": spec}
        cluster.api.create(LEASES, lease, "kube-system")
        cluster.scale(3)

        with pytest.raises(Unsuitable, match="karpenter-7d4b9-x2x1z holds the lease kube-system/"):
            await Process(cluster, server).task

        assert cluster.claims() == []

    in_a_cluster(work)


def test_it_can_be_stopped_while_it_waits_for_the_api_server() -> None:
    async def work(cluster: RealTimeCluster, server: Served) -> None:
        process = Process(cluster, server)
        await asyncio.sleep(0.05)
        server.wire.cut()

        assert await process.end() < 5

    in_a_cluster(work)


def test_of_two_processes_one_works_and_the_other_goes_on_when_it_stops() -> None:
    async def work(cluster: RealTimeCluster, server: Served) -> None:
        first = Process(cluster, server)
        await until(lambda: bool(cluster.log.said("started")))
        second = Process(cluster, server)
        cluster.scale(10)
        await cluster.until(running=10)
        working = len(cluster.log.said("started"))
        await first.end()
        cluster.scale(0)
        await cluster.until(running=0, bought=0, claims=0, machines=0)
        await second.end()

        assert working == 1
        assert len(cluster.log.said("became the leader")) == 2
        assert cluster.box.ec2.ledger.bought_twice() == []
        assert cluster.box.invariants.violations == []

    in_a_cluster(work)
