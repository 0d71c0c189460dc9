"""KubeClients under test, each with a namespace for one test."""

import asyncio
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass

from dovetail.host.clock import SystemClock
from dovetail.kube.client import HttpKubeClient
from dovetail.ports.api_resources import NAMESPACES, PODS, Resource
from dovetail.ports.kube_client import KubeClient, Object
from dovetail.ports.kube_errors import Forbidden, NotFound
from dovetail.simulator.kube_client import SimulatedKubeClient
from tests.kube.api_server import connected, served
from tests.live.cluster import Cluster

TestBody = Callable[["ClientUnderTest"], Awaitable[None]]
RunTest = Callable[[TestBody], None]
"""Runs a test body with one of the clients."""
_TIMEOUT = 30.0


@dataclass(frozen=True)
class ClientUnderTest:
    """A KubeClient, and names that no other test uses."""

    kube: KubeClient
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

        Kubernetes rejects pods until a controller has created the service account of
        the namespace.
        """
        clock = SystemClock()
        deadline = clock.seconds() + _TIMEOUT
        while True:
            try:
                return await self.kube.create(PODS, pod, self.namespace)
            except Forbidden:
                if clock.seconds() > deadline:
                    raise
                await asyncio.sleep(0.1)


@asynccontextmanager
async def in_memory() -> AsyncIterator[KubeClient]:
    async with served() as server:
        yield SimulatedKubeClient(server.api)


@asynccontextmanager
async def over_http() -> AsyncIterator[KubeClient]:
    async with served() as server, connected(server.access) as connection:
        yield HttpKubeClient(connection)


@asynccontextmanager
async def in_cluster(cluster: Cluster) -> AsyncIterator[KubeClient]:
    async with connected(cluster.access()) as connection:
        yield HttpKubeClient(connection)
    await asyncio.sleep(0.3)  # Until all connections are closed.


def run_with(connect: Callable[[], AbstractAsyncContextManager[KubeClient]]) -> RunTest:
    """Return a function that runs a test body in a new namespace and deletes it afterwards."""

    def run_test(body: TestBody) -> None:
        async def run() -> None:
            async with connect() as kube:
                client = ClientUnderTest(kube, f"verbs-{secrets.token_hex(4)}")
                await kube.create(NAMESPACES, {"metadata": {"name": client.namespace}})
                await body(client)
                await kube.delete(NAMESPACES, client.namespace)

        asyncio.run(run())

    return run_test
