"""The cluster cache on a real API server, through restarts and compaction."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from dovetail.ports.api_resources import PODS
from dovetail.state.cluster.cache import ClusterCache, ObjectChange
from tests.kube.api_server import mirrored
from tests.live.control_plane import ControlPlane
from tests.live.crds import install_crds
from tests.live.replicas import a_deployment

TIMEOUT = 60.0
"""Seconds."""


@pytest.fixture
def cluster(control_plane: ControlPlane) -> ControlPlane:
    install_crds(control_plane)
    return control_plane


def run_with_cache(cluster: ControlPlane, work: Callable[[ClusterCache], Awaitable[None]]) -> None:
    async def run() -> None:
        async with mirrored(cluster.access()) as (cache, _):
            await work(cache)
            await wait_until_equal(cluster, cache)
        # Let a busy server close a dozen watches over TLS.
        await asyncio.sleep(1)

    asyncio.run(run())


async def wait_until_equal(cluster: ControlPlane, cache: ClusterCache) -> None:
    """Wait until the cache equals a fresh cache."""
    deadline = asyncio.get_running_loop().time() + TIMEOUT
    differing = ["everything"]
    while differing:
        assert asyncio.get_running_loop().time() < deadline, (
            f"the cache differs from a fresh one: {differing}"
        )
        async with mirrored(cluster.access()) as (fresh, _):
            differing = [
                resource.qualified_name
                for resource, store in cache.stores.items()
                if store.all() != fresh.stores[resource].all()
            ]


async def scale(cluster: ControlPlane, name: str, replicas: int) -> None:
    await asyncio.to_thread(cluster.kubectl, "scale", f"deployment/{name}", f"--replicas={replicas}")


async def wait_for_pods(cache: ClusterCache, count: int) -> None:
    deadline = asyncio.get_running_loop().time() + TIMEOUT
    while len(cache.stores[PODS].all()) != count:
        assert asyncio.get_running_loop().time() < deadline, len(cache.stores[PODS].all())
        await asyncio.sleep(0.05)


def test_pods_created_and_deleted_by_controllers_reach_the_cache(cluster: ControlPlane) -> None:
    async def work(cache: ClusterCache) -> None:
        await asyncio.to_thread(cluster.apply, a_deployment("web", replicas=30))
        await wait_for_pods(cache, 30)
        await scale(cluster, "web", 3)
        await wait_for_pods(cache, 3)

    run_with_cache(cluster, work)


@pytest.mark.parametrize("compact", [False, True])
def test_the_cache_catches_up_after_a_restart_during_scale_up(cluster: ControlPlane, compact: bool) -> None:
    async def work(cache: ClusterCache) -> None:
        await asyncio.to_thread(cluster.apply, a_deployment("web", replicas=3))
        await wait_for_pods(cache, 3)
        before = {pod.name for pod in cache.stores[PODS].all()}
        changes: list[ObjectChange] = []
        cache.subscribe(PODS, changes.append)
        changes.clear()

        await scale(cluster, "web", 60)
        await asyncio.to_thread(cluster.restart_apiserver, compact=compact)
        await wait_for_pods(cache, 60)

        created = [change.new.name for change in changes if change.new is not None and change.old is None]
        deleted = {change.old.name for change in changes if change.new is None and change.old is not None}
        assert len(created) == len(set(created))
        # A create whose response the restart lost is repeated, and the surplus pod deleted.
        assert {pod.name for pod in cache.stores[PODS].all()} == {*before, *created} - deleted
        await scale(cluster, "web", 3)
        await wait_for_pods(cache, 3)

    run_with_cache(cluster, work)
