"""The cluster over HTTPS, with kinds that the sandbox lacks, and a note of every request."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager
from threading import Thread
from typing import Any, TypeVar

from aiohttp import web

from dovetail.doctor.facts import Facts
from dovetail.doctor.gather import Given, facts_of_cluster
from dovetail.doctor.sources.kubernetes import open_connection
from dovetail.kube.auth.credentials import FixedToken
from dovetail.kube.auth.kubeconfig import Access
from dovetail.kube.paths import path_of
from dovetail.simulator.rest.kubeconfig import kubeconfig
from dovetail.simulator.rest.server import Server
from tests.doctor.cluster import NOW, Cluster

T = TypeVar("T")
_TOKEN = "let-me-in"  # noqa: S105 - for tests


class WholeServer(Server):
    """The API server in memory, and besides it what only doctors read."""

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster.api, token=_TOKEN, now=lambda: NOW)
        self._cluster = cluster
        self.asked: list[tuple[str, str]] = []
        """Method and path of every request."""

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        self.asked.append((request.method, request.path))
        lists = {path_of(kind): ones for kind, ones in self._cluster.elsewhere.items()}
        if request.path in lists:
            items = lists[request.path]
            return web.json_response({"metadata": {"resourceVersion": "1"}, "items": items})
        if request.path.endswith("/proxy/metrics"):
            return web.Response(text="\n".join(self._cluster.metrics) + "\n")
        return await super()._answer(request)


@asynccontextmanager
async def served(cluster: Cluster) -> AsyncIterator[tuple[WholeServer, Access]]:
    """Serve for a while."""
    server = WholeServer(cluster)
    port = await server.start()
    careless = ssl.create_default_context()
    careless.check_hostname = False
    careless.verify_mode = ssl.CERT_NONE
    access = Access(
        server=f"https://127.0.0.1:{port}", tls=careless, credentials=FixedToken(_TOKEN)
    )
    try:
        yield server, access
    finally:
        await server.stop()


@contextmanager
def on_a_thread(cluster: Cluster) -> Iterator[dict[str, Any]]:
    """Serve to a program of its own for a while; gives its kubeconfig."""
    loop = asyncio.new_event_loop()
    thread = Thread(target=loop.run_forever, daemon=True)
    thread.start()

    def wait(work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, loop).result(timeout=20)

    server = WholeServer(cluster)
    port = wait(server.start())
    try:
        yield kubeconfig(f"https://127.0.0.1:{port}", _TOKEN, server.certificate)
    finally:
        wait(server.stop())
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


async def asked_of_kubernetes(cluster: Cluster, given: Given) -> Facts:
    """Return what Kubernetes says, asked as the command asks."""
    async with served(cluster) as (_, access):
        connection = open_connection(access)
        try:
            return await facts_of_cluster(given, connection)
        finally:
            await connection.close()
