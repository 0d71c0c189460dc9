"""The cluster over HTTPS, with kinds that the sandbox lacks, and a note of every request."""

import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiohttp import web

from dovetail.infra.doctor.facts import Facts
from dovetail.infra.doctor.gathering import Given, facts_of_cluster
from dovetail.infra.doctor.reading.kube import open_connection
from dovetail.kube.config import Access
from dovetail.kube.credentials import FixedToken
from dovetail.kube.paths import path_of
from dovetail.sim.http.server import Server
from tests.infra.doctor.cluster import NOW, Cluster

_TOKEN = "let-me-in"  # noqa: S105 - for tests


class WholeServer(Server):
    """The API server in memory, and besides it what only doctors read."""

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster.api, token=_TOKEN, now=lambda: NOW)
        self._lists = {path_of(kind): ones for kind, ones in cluster.elsewhere.items()}
        self._metrics = cluster.metrics
        self.asked: list[tuple[str, str]] = []
        """Method and path of every request."""

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        self.asked.append((request.method, request.path))
        if request.path in self._lists:
            items = self._lists[request.path]
            return web.json_response({"metadata": {"resourceVersion": "1"}, "items": items})
        if request.path.endswith("/proxy/metrics"):
            return web.Response(text="\n".join(self._metrics) + "\n")
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


async def asked_of_kubernetes(cluster: Cluster, given: Given) -> Facts:
    """Return what Kubernetes says, asked as the command asks."""
    async with served(cluster) as (_, access):
        connection = open_connection(access)
        try:
            return await facts_of_cluster(given, connection)
        finally:
            await connection.close()
