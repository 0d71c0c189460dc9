"""The end of a server, in the middle of anything."""

import asyncio
import gc
import socket
import warnings

from dovetail.simulator.apiserver.server import ApiServer
from dovetail.simulator.rest.server import Server
from tests.simulator.rest.serving import NOON, TOKEN


def test_callers_who_are_accepted_as_it_stops_are_not_lost() -> None:
    async def story() -> None:
        server = Server(ApiServer(now=lambda: NOON), token=TOKEN, now=lambda: NOON)
        port = await server.start()
        callers = [socket.create_connection(("127.0.0.1", port)) for _ in range(5)]
        await asyncio.sleep(0)  # They are accepted, and nothing more.
        await server.stop()
        for one in callers:
            one.close()
        await asyncio.sleep(0.05)

    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always", ResourceWarning)
        asyncio.run(story())
        gc.collect()

    assert [str(one.message) for one in told] == []
