"""Memory after node classes and NodePools are created and deleted."""

import os
import subprocess
import sys

import pytest

_PROGRAM = """
import asyncio, copy, os
from datetime import timedelta
from pathlib import Path

import msgspec

from dovetail.core.scheduling.arrays.instance_types import compile_instance_types
from dovetail.data.bundled import bundled_catalog, bundled_prices
from dovetail.host.event_loop import AsyncioEventLoop
from dovetail.operator.operator import InstanceTypeWarmup
from dovetail.ports.api_resources import EC2_NODE_CLASSES, NODE_POOLS
from dovetail.simulator.clock import VirtualClock
from dovetail.simulator.ec2.account import Ec2Account
from dovetail.simulator.ec2.cloudprovider import SimulatedCloudProvider
from dovetail.simulator.environment import SeededRandomSource
from dovetail.state.cluster.cache import ClusterCache
from tests.support.simulator.clusters import a_node_class, a_pool

READY = {"conditions": [{"type": "Ready", "status": "True", "reason": "Ready", "observedGeneration": 1}]}


def megabytes():
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def objects(make, names, version):
    for number, name in enumerate(names):
        obj = copy.deepcopy(make())
        obj["metadata"] = {"name": name, "uid": name, "resourceVersion": str(version), "generation": 1}
        if make is a_node_class:
            obj["spec"]["kubelet"] = {"maxPods": 20 + number}
            obj["status"] = READY
        else:
            obj["spec"]["template"]["spec"]["nodeClassRef"]["name"] = name
        yield obj


async def main():
    catalog = bundled_catalog()
    catalog = msgspec.structs.replace(catalog, instance_types=catalog.instance_types[::4])
    loop, cache = AsyncioEventLoop(), ClusterCache()
    account = Ec2Account(
        VirtualClock(start=loop.now()), region=catalog.regions["us-east-1"], random=SeededRandomSource(1)
    )
    provider = SimulatedCloudProvider(
        account, loop=loop, catalog=catalog, prices=bundled_prices(), node_class=cache.node_class
    )
    InstanceTypeWarmup(cache, provider, loop=loop)
    version = 0

    async def settle(*names):
        nonlocal version
        version += 1
        for resource, make in ((EC2_NODE_CLASSES, a_node_class), (NODE_POOLS, a_pool)):
            cache.replace(resource, list(objects(make, names, version)), revision=str(version))
        await loop.sleep(timedelta(seconds=0.5))
        for pool in cache.pools():
            compile_instance_types(provider.instance_types(pool))
        return megabytes()

    before = await settle("default")
    most = after = before
    for first in range(0, 200, 40):
        most = max(most, await settle("default", *(f"class-{first + number}" for number in range(40))))
        after = await settle("default")
    print(before, most, after)
    await loop.stop()


asyncio.run(main())
"""


@pytest.mark.slow
@pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="reads the memory of a process from /proc")
def test_memory_returns_after_200_node_classes_and_nodepools_are_deleted() -> None:
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM], capture_output=True, text=True, check=True, timeout=300
    )
    before, most, after = map(float, done.stdout.split())

    # A controller takes 115 MB, so that this is less than 20 % of it.
    assert after < before + 20, f"{before:.0f} -> {most:.0f} -> {after:.0f} MB"
    assert most < before + 40, f"{before:.0f} -> {most:.0f} -> {after:.0f} MB"
