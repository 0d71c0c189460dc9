"""SIGTERM ends a process within 5 s, in any state."""

import asyncio
from collections.abc import Iterator
from threading import Event, current_thread

import msgspec
import pytest

from dovetail.host.clock import SystemClock
from dovetail.model.cloud.instance_type import InstanceType
from dovetail.model.karpenter.nodepool import NodePool
from dovetail.observability.cloudprovider_metrics import MeteredCloudProvider
from dovetail.operator.cloud import CloudContext, CloudServices
from dovetail.ports.api_resources import LEASES
from tests.kube.api_server import Served, until
from tests.operator.cluster import Process, RealTimeCluster
from tests.operator.test_operator import in_a_cluster

pytestmark = pytest.mark.slow
SECONDS = 5.0
LEASE = "karpenter-leader-election"


def test_while_the_cloud_does_not_respond() -> None:
    async def work(cluster: RealTimeCluster, server: Served) -> None:
        called = asyncio.Event()

        async def create_cloud(_: CloudContext) -> CloudServices:
            called.set()
            return await asyncio.get_running_loop().create_future()

        process = Process(cluster, server, cloud_factory=create_cloud)
        await called.wait()

        assert await process.end() < SECONDS

    in_a_cluster(work)


def test_while_it_is_a_standby() -> None:
    async def work(cluster: RealTimeCluster, server: Served) -> None:
        first = Process(cluster, server)
        await until(lambda: bool(cluster.log.entries("started")), timeout=60)
        second = Process(cluster, server)
        standby = "another replica is the leader; standing by"
        await until(lambda: bool(cluster.log.entries(standby)), timeout=60)

        assert await second.end() < SECONDS
        holder = cluster.api.get(LEASES, LEASE, "kube-system")["spec"]["holderIdentity"]
        assert holder
        await first.end()

    in_a_cluster(work)


def test_while_the_api_server_does_not_respond_and_writes_are_in_flight() -> None:
    async def work(cluster: RealTimeCluster, server: Served) -> None:
        process = Process(cluster, server)
        await until(lambda: bool(cluster.log.entries("started")), timeout=60)
        cluster.scale(5)
        await until(lambda: bool(cluster.claims()), timeout=60)
        server.wire.freeze()

        assert await process.end() < SECONDS
        assert cluster.log.entries("cannot release the lease")

    in_a_cluster(work)


class BlockingTypes(tuple[InstanceType, ...]):
    """Instance types that block the solver until ``released`` is set."""

    __slots__ = ()
    blocked, released = Event(), Event()

    def __iter__(self) -> Iterator[InstanceType]:
        if current_thread().name.startswith("solver"):
            self.blocked.set()
            self.released.wait(60)
        return super().__iter__()


class BlockingCloudProvider(MeteredCloudProvider):
    def instance_types(self, pool: NodePool) -> tuple[InstanceType, ...]:
        return BlockingTypes(super().instance_types(pool))


def test_while_the_solver_takes_a_minute() -> None:
    async def work(cluster: RealTimeCluster, server: Served) -> None:
        async def create_cloud(context: CloudContext) -> CloudServices:
            services = await cluster.create_cloud(context)
            cloud = BlockingCloudProvider(
                services.cloud_provider,
                metrics=context.metrics,
                seconds=SystemClock().seconds,
                provider="test",
            )
            return msgspec.structs.replace(services, cloud_provider=cloud)

        process = Process(cluster, server, cloud_factory=create_cloud)
        cluster.scale(5)
        await until(BlockingTypes.blocked.is_set, timeout=60)
        try:
            seconds_taken = await process.end()
        finally:
            BlockingTypes.released.set()

        assert seconds_taken < SECONDS
        assert cluster.claims() == []
        holder = cluster.api.get(LEASES, LEASE, "kube-system")["spec"]["holderIdentity"]
        assert holder == ""

    in_a_cluster(work)
