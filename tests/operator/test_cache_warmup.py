"""Instance types are computed at start-up without blocking the event loop."""

import asyncio
from collections.abc import Collection
from itertools import pairwise
from typing import Any

from dovetail.host.event_loop import AsyncioEventLoop
from dovetail.model.karpenter.nodepool import NodePool
from dovetail.operator.operator import InstanceTypeWarmup
from dovetail.ports.api_resources import EC2_NODE_CLASSES, NODE_POOLS
from dovetail.simulator.ec2.cloudprovider import SimulatedCloudProvider
from dovetail.state.cluster.cache import ClusterCache
from tests.support.simulator.clusters import a_node_class, a_pool


class Recorder(SimulatedCloudProvider):
    """A CloudProvider that records its calls and other work in order."""

    def __init__(self) -> None:
        self.entries: list[str] = []
        self.retained: list[str] = []

    def forget_deleted_nodeclasses(self, node_classes: Collection[str]) -> None:
        self.retained = list(node_classes)

    def instance_types(self, pool: NodePool) -> tuple[()]:
        self.entries.append(pool.name)
        return ()

    async def tick(self) -> None:
        while True:
            self.entries.append("tick")
            await asyncio.sleep(0)


def named(*names: str) -> list[dict[str, Any]]:
    return [{**a_pool(), "metadata": {"name": name, "uid": name, "resourceVersion": "1"}} for name in names]


def test_other_work_runs_between_two_pools() -> None:
    recorder, names = Recorder(), ["a", "b", "c"]

    async def run() -> None:
        cache, loop = ClusterCache(), AsyncioEventLoop()
        InstanceTypeWarmup(cache, recorder, loop=loop)
        cache.replace(NODE_POOLS, named(*names), revision="1")
        loop.spawn(recorder.tick())
        async with asyncio.timeout(20):
            while "c" not in recorder.entries:
                await asyncio.sleep(0.01)
        await loop.stop()

    asyncio.run(run())

    positions = [index for index, entry in enumerate(recorder.entries) if entry != "tick"]
    assert [recorder.entries[index] for index in positions] == names
    assert all(later - earlier > 1 for earlier, later in pairwise(positions))


def test_types_of_deleted_node_classes_are_forgotten() -> None:
    recorder = Recorder()

    async def run() -> None:
        cache, loop = ClusterCache(), AsyncioEventLoop()
        InstanceTypeWarmup(cache, recorder, loop=loop)
        first, second = (
            {**a_node_class(), "metadata": {"name": name, "uid": name, "resourceVersion": "1"}}
            for name in ("first", "second")
        )
        cache.replace(EC2_NODE_CLASSES, [first, second], revision="1")
        cache.delete(EC2_NODE_CLASSES, first)
        async with asyncio.timeout(20):
            while recorder.retained != ["second"]:
                await asyncio.sleep(0.01)
        await loop.stop()

    asyncio.run(run())
