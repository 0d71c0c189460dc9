"""The ways in which controllers reach an API server, each with a namespace for one test."""

import asyncio
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass

from dovetail.host.clock import RealClock
from dovetail.kube.client import HttpKube
from dovetail.ports.api_resources import NAMESPACES, PODS, Resource
from dovetail.ports.kube_client import Kube, Object
from dovetail.ports.kube_errors import Forbidden, NotFound
from dovetail.simulator.kube_client import SimKube
from tests.kube.serving import connected, served
from tests.live.cluster import Cluster

Work = Callable[["Place"], Awaitable[None]]
Reach = Callable[[Work], None]
"""Runs a test's work at one of the places."""
_PATIENCE = 30.0


@dataclass(frozen=True)
class Place:
    """A way to the API server, and names that nobody else there uses."""

    kube: Kube
    namespace: str

    def unique(self, name: str) -> str:
        return f"{name}-{self.namespace}"

    async def exists(self, resource: Resource, name: str) -> bool:
        try:
            await self.kube.get(resource, name, self.namespace)
        except NotFound:
            return False
        return True

    async def create_pod(self, pod: Object) -> Object:
        """Create a pod; in a new namespace that may take several attempts.

        Kubernetes refuses pods until a controller has given the namespace its
        service account.
        """
        clock = RealClock()
        end = clock.seconds() + _PATIENCE
        while True:
            try:
                return await self.kube.create(PODS, pod, self.namespace)
            except Forbidden:
                if clock.seconds() > end:
                    raise
                await asyncio.sleep(0.1)


@asynccontextmanager
async def in_memory() -> AsyncIterator[Kube]:
    async with served() as server:
        yield SimKube(server.api)


@asynccontextmanager
async def over_http() -> AsyncIterator[Kube]:
    async with served() as server, connected(server.access) as connection:
        yield HttpKube(connection)


@asynccontextmanager
async def in_cluster(cluster: Cluster) -> AsyncIterator[Kube]:
    async with connected(cluster.access()) as connection:
        yield HttpKube(connection)
    await asyncio.sleep(0.3)  # Until every connection has said goodbye.


def reaching(way: Callable[[], AbstractAsyncContextManager[Kube]]) -> Reach:
    """Return what runs a test's work in a new namespace, and removes that afterwards."""

    def reach(work: Work) -> None:
        async def run() -> None:
            async with way() as kube:
                place = Place(kube, f"verbs-{secrets.token_hex(4)}")
                await kube.create(NAMESPACES, {"metadata": {"name": place.namespace}})
                await work(place)
                await kube.delete(NAMESPACES, place.namespace)

        asyncio.run(run())

    return reach
