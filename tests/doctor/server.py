"""The cluster over HTTPS, with kinds that the simulator lacks; records requests."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager
from threading import Thread
from typing import Any, TypeVar

from aiohttp import web

from dovetail.doctor.facts import Facts
from dovetail.doctor.gather import InitialFacts, gather_cluster_facts
from dovetail.doctor.sources.kubernetes import open_connection
from dovetail.kube.auth.credentials import StaticToken
from dovetail.kube.auth.kubeconfig import RestConfig
from dovetail.kube.connection import resource_path
from dovetail.simulator.rest.sandbox import encode_kubeconfig
from dovetail.simulator.rest.server import Server
from tests.doctor.cluster import NOW, ServedObjects

T = TypeVar("T")
_TOKEN = "let-me-in"  # noqa: S105 - for tests


class DoctorServer(Server):
    """Simulated API server with the kinds and metrics that only the doctor reads."""

    def __init__(self, cluster: ServedObjects) -> None:
        super().__init__(cluster.api, token=_TOKEN, now=lambda: NOW)
        self._cluster = cluster
        self.requests: list[tuple[str, str]] = []
        """Method and path of every request."""

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        self.requests.append((request.method, request.path))
        lists = {resource_path(kind): objects for kind, objects in self._cluster.extra_objects.items()}
        if request.path in lists:
            items = lists[request.path]
            return web.json_response({"metadata": {"resourceVersion": "1"}, "items": items})
        if request.path.endswith("/proxy/metrics"):
            return web.Response(text="\n".join(self._cluster.metrics) + "\n")
        return await super()._handle(request)


@asynccontextmanager
async def serve(cluster: ServedObjects) -> AsyncIterator[tuple[DoctorServer, RestConfig]]:
    """Serve the cluster; yields the server and access to it."""
    server = DoctorServer(cluster)
    port = await server.start()
    tls = ssl.create_default_context()
    tls.check_hostname = False
    tls.verify_mode = ssl.CERT_NONE
    access = RestConfig(server=f"https://127.0.0.1:{port}", tls=tls, credentials=StaticToken(_TOKEN))
    try:
        yield server, access
    finally:
        await server.stop()


@contextmanager
def serve_in_thread(cluster: ServedObjects) -> Iterator[dict[str, Any]]:
    """Serve the cluster in a thread, for other processes; yields a kubeconfig."""
    loop = asyncio.new_event_loop()
    thread = Thread(target=loop.run_forever, daemon=True)
    thread.start()

    def wait(coroutine: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(coroutine, loop).result(timeout=20)

    server = DoctorServer(cluster)
    port = wait(server.start())
    try:
        yield encode_kubeconfig(f"https://127.0.0.1:{port}", _TOKEN, server.certificate)
    finally:
        wait(server.stop())
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


async def gather_kubernetes(cluster: ServedObjects, given: InitialFacts) -> Facts:
    """Return the facts from Kubernetes, gathered as by the command."""
    async with serve(cluster) as (_, access):
        connection = open_connection(access)
        try:
            return await gather_cluster_facts(given, connection)
        finally:
            await connection.close()
