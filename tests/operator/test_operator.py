"""The operator over HTTPS, in real time, on a simulated cluster."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from functools import partial

import pytest

from dovetail.errors import DovetailError
from dovetail.kube.preflight import PreflightError
from dovetail.operator.operator import OperatorSettings
from dovetail.ports.api_resources import LEASES
from dovetail.ports.kube_client import Object
from tests.kube.api_server import Served, until
from tests.operator.cluster import Process, RealTimeCluster, a_real_time_cluster

pytestmark = pytest.mark.slow


def in_a_cluster(work: Callable[[RealTimeCluster, Served], Awaitable[None]]) -> None:
    async def run() -> None:
        async with a_real_time_cluster() as (cluster, server):
            await work(cluster, server)

    asyncio.run(run())


def test_the_cluster_scales_up_and_down_across_a_restart_and_compaction_of_the_api_server() -> None:
    async def work(cluster: RealTimeCluster, server: Served) -> None:
        process = Process(cluster, server)
        cluster.scale(10)
        await cluster.until(running=10)
        filled = len(cluster.managed_nodes())
        cluster.scale(30)
        await asyncio.sleep(1.2)
        await server.stop()
        cluster.api.compact()
        await asyncio.sleep(0.3)
        await server.start()
        await cluster.until(running=30)
        cluster.scale(0)
        await cluster.until(running=0, nodes=0, claims=0, instances=0)
        seconds = await process.end()

        assert filled > 0
        assert seconds < 5
        assert cluster.log.entries("created nodeclaim")
        assert cluster.log.entries("started")
        assert cluster.simulated.invariants.violations == []
        assert not [line for line in cluster.log.lines if line.message.startswith("something")]

    in_a_cluster(work)


def test_a_new_process_takes_over_and_launches_nothing_twice() -> None:
    async def work(cluster: RealTimeCluster, server: Served) -> None:
        first = Process(cluster, server)
        cluster.scale(12)
        await cluster.until(running=12)
        await first.end()
        before = cluster.instances()

        second = Process(cluster, server)
        await asyncio.sleep(2)
        after = cluster.instances()
        cluster.scale(14)
        await cluster.until(running=14)
        await second.end()

        assert after == before

    in_a_cluster(work)


def _are_more_than(number: int, count: Callable[[], list[Object]]) -> bool:
    return len(count()) > number


def test_processes_that_stop_during_launches_leave_no_orphans() -> None:
    async def work(cluster: RealTimeCluster, server: Served) -> None:
        slowest = 0.0
        for pods in (4, 12, 30):
            process = Process(cluster, server)
            cluster.scale(pods)
            await until(partial(_are_more_than, len(cluster.claims()), cluster.claims))
            slowest = max(slowest, await process.end())

        last = Process(cluster, server)
        await cluster.until(running=30)
        claims = {claim["status"]["providerID"] for claim in cluster.claims()}
        await last.end()

        assert slowest < 5
        assert len(claims) == len(cluster.claims()) == cluster.instances()
        assert cluster.simulated.invariants.violations == []

    in_a_cluster(work)


@pytest.mark.parametrize("is_in_cluster", [False, True])
def test_the_process_does_not_start_beside_karpenter(is_in_cluster: bool) -> None:
    async def work(cluster: RealTimeCluster, server: Served) -> None:
        now = cluster.simulated.clock.now()
        spec = {
            "holderIdentity": "karpenter-7d4b9-x2x1z",
            "leaseDurationSeconds": 15,
            "renewTime": f"{now:%Y-%m-%dT%H:%M:%S.%f}Z",
        }
        lease = {"metadata": {"name": "karpenter-leader-election"}, "spec": spec}
        cluster.api.create(LEASES, lease, "kube-system")
        cluster.scale(3)

        with pytest.raises(PreflightError, match="karpenter-7d4b9-x2x1z holds the lease kube-system/"):
            await Process(cluster, server, is_in_cluster=is_in_cluster).task

        assert cluster.claims() == []

    in_a_cluster(work)


def test_the_process_stops_while_it_waits_for_the_api_server() -> None:
    async def work(cluster: RealTimeCluster, server: Served) -> None:
        process = Process(cluster, server)
        await asyncio.sleep(0.05)
        server.wire.cut()

        assert await process.end() < 5

    in_a_cluster(work)


def test_a_pod_that_starts_during_an_outage_of_the_api_server_waits_for_it() -> None:
    async def work(cluster: RealTimeCluster, server: Served) -> None:
        await server.stop()
        process = Process(cluster, server, is_in_cluster=True)
        await until(lambda: bool(cluster.log.entries("waiting for the API server")))
        await server.start()
        await until(lambda: bool(cluster.log.entries("started")))
        await process.end()

        assert "does not respond" in str(cluster.log.entries("waiting for the API server")[0]["error"])

    in_a_cluster(work)


def test_a_pod_waits_for_the_api_server_for_a_limited_time() -> None:
    async def work(cluster: RealTimeCluster, server: Served) -> None:
        await server.stop()
        settings = OperatorSettings(max_start_wait=timedelta(seconds=1))

        with pytest.raises(DovetailError, match="does not respond"):
            await Process(cluster, server, is_in_cluster=True, settings=settings).task

        assert len(cluster.log.entries("waiting for the API server")) == 1

    in_a_cluster(work)


def test_the_standby_takes_over_when_the_leader_stops() -> None:
    async def work(cluster: RealTimeCluster, server: Served) -> None:
        first = Process(cluster, server)
        await until(lambda: bool(cluster.log.entries("started")))
        second = Process(cluster, server)
        cluster.scale(10)
        await cluster.until(running=10)
        working = len(cluster.log.entries("started"))
        await first.end()
        cluster.scale(0)
        await cluster.until(running=0, nodes=0, claims=0, instances=0)
        await second.end()

        assert working == 1
        assert len(cluster.log.entries("became the leader")) == 2
        assert cluster.simulated.ec2.billing.claims_launched_twice() == []
        assert cluster.simulated.invariants.violations == []

    in_a_cluster(work)
