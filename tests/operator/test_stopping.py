"""SIGTERM ends a process within 5 s, whatever it is in the middle of."""

import asyncio
from collections.abc import Iterator
from threading import Event, current_thread

import msgspec
import pytest

from dovetail.host.clock import RealClock
from dovetail.model.cloud.instance_type import InstanceType
from dovetail.model.karpenter.nodepool import NodePool
from dovetail.observability.cloudprovider_metrics import MeteredCloud
from dovetail.operator.cloud import Hired, Surroundings
from dovetail.ports.api_resources import LEASES
from tests.kube.serving import Served, until
from tests.operator.cluster import Process, RealTimeCluster
from tests.operator.test_operator import in_a_cluster

pytestmark = pytest.mark.slow
SECONDS = 5.0
LEASE = "karpenter-leader-election"


def test_while_the_cloud_says_nothing() -> None:
    async def work(cluster: RealTimeCluster, server: Served) -> None:
        asked = asyncio.Event()

        async def hire(_: Surroundings) -> Hired:
            asked.set()
            return await asyncio.get_running_loop().create_future()

        process = Process(cluster, server, hire=hire)
        await asked.wait()

        assert await process.end() < SECONDS

    in_a_cluster(work)


def test_while_it_stands_by() -> None:
    async def work(cluster: RealTimeCluster, server: Served) -> None:
        first = Process(cluster, server)
        await until(lambda: bool(cluster.log.said("started")), patience=60)
        second = Process(cluster, server)
        stands_by = "another replica leads; standing by"
        await until(lambda: bool(cluster.log.said(stands_by)), patience=60)

        assert await second.end() < SECONDS
        held = cluster.api.get(LEASES, LEASE, "kube-system")["spec"]["holderIdentity"]
        assert held
        await first.end()

    in_a_cluster(work)


def test_while_the_api_server_no_longer_answers_and_writes_are_under_way() -> None:
    async def work(cluster: RealTimeCluster, server: Served) -> None:
        process = Process(cluster, server)
        await until(lambda: bool(cluster.log.said("started")), patience=60)
        cluster.scale(5)
        await until(lambda: bool(cluster.claims()), patience=60)
        server.wire.freeze()

        assert await process.end() < SECONDS
        assert cluster.log.said("the lease was not given up")

    in_a_cluster(work)


class Ponderous(tuple[InstanceType, ...]):
    """Types that a plan cannot be done with before somebody says so."""

    __slots__ = ()
    begun, enough = Event(), Event()

    def __iter__(self) -> Iterator[InstanceType]:
        if current_thread().name.startswith("thinking"):
            self.begun.set()
            self.enough.wait(60)
        return super().__iter__()


class PonderousCloud(MeteredCloud):
    def instance_types(self, pool: NodePool) -> tuple[InstanceType, ...]:
        return Ponderous(super().instance_types(pool))


def test_while_a_plan_takes_a_minute() -> None:
    async def work(cluster: RealTimeCluster, server: Served) -> None:
        async def hire(around: Surroundings) -> Hired:
            hired = await cluster.hire(around)
            cloud = PonderousCloud(
                hired.cloud, metrics=around.metrics, seconds=RealClock().seconds, provider="test"
            )
            return msgspec.structs.replace(hired, cloud=cloud)

        process = Process(cluster, server, hire=hire)
        cluster.scale(5)
        await until(Ponderous.begun.is_set, patience=60)
        try:
            took = await process.end()
        finally:
            Ponderous.enough.set()

        assert took < SECONDS
        assert cluster.claims() == []
        held = cluster.api.get(LEASES, LEASE, "kube-system")["spec"]["holderIdentity"]
        assert held == ""

    in_a_cluster(work)
