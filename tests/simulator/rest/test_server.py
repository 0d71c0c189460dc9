"""Shutdown of the server, with connections in any state, and headers of responses."""

import asyncio
import gc
import socket
import warnings

from dovetail.simulator.apiserver.server import ApiServer
from dovetail.simulator.rest.server import Server
from tests.simulator.rest.rest_server import NOON, TOKEN, serve_cluster


def test_connections_accepted_while_the_server_stops_are_closed() -> None:
    async def run() -> None:
        server = Server(ApiServer(now=lambda: NOON), token=TOKEN, now=lambda: NOON)
        port = await server.start()
        clients = [socket.create_connection(("127.0.0.1", port)) for _ in range(5)]
        await asyncio.sleep(0)  # They are accepted, but have no transport yet.
        await server.stop()
        for client in clients:
            client.close()
        await asyncio.sleep(0.05)

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ResourceWarning)
        asyncio.run(run())
        gc.collect()

    assert [str(warning.message) for warning in caught] == []


def test_responses_and_watches_have_the_date_of_the_served_clock() -> None:
    with serve_cluster() as cluster:
        answered = cluster.request("GET", "/version")
        refused = cluster.request("GET", "/api/v1/nodes", token=None)
        watched = cluster.request("GET", "/api/v1/nodes?watch=true&timeoutSeconds=1")

    dates = [response.headers["Date"] for response in (answered, refused, watched)]
    assert dates == ["Thu, 01 Jan 2026 12:00:00 GMT"] * 3


def test_clients_may_not_reuse_responses_without_asking_again() -> None:
    with serve_cluster() as cluster:
        discovered = cluster.request("GET", "/apis")
        refused = cluster.request("GET", "/api/v1/nodes", token=None)

    assert [response.headers["Cache-Control"] for response in (discovered, refused)] == [
        "no-cache, private",
        "no-cache, private",
    ]
