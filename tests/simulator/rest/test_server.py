"""Shutdown of the server, with connections in any state."""

import asyncio
import gc
import socket
import warnings

from dovetail.simulator.apiserver.server import ApiServer
from dovetail.simulator.rest.server import Server
from tests.simulator.rest.rest_server import NOON, TOKEN


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
