"""A write that must not be made any more is not made, however late that turns out."""

import asyncio
import socket
from contextlib import suppress

import msgspec
import pytest

from dovetail.kube.client import HttpKube
from dovetail.kube.connection import Connection, lively
from dovetail.kube.leaderelection.lease import NotLeading
from dovetail.kube.rate_limit import RateLimit
from dovetail.ports.api_resources import CONFIG_MAPS
from tests.kube.serving import served


class Lock:
    def __init__(self) -> None:
        self.leads = True

    def guard(self) -> None:
        if not self.leads:
            raise NotLeading("lost")


def test_a_lease_that_is_lost_while_a_connection_is_made_holds_the_write_back() -> None:
    async def story() -> int:
        lock = Lock()
        async with served() as server:
            target, server.wire.target = server.wire.target, 0
            reached = asyncio.Event()
            go_on = asyncio.Event()

            async def slow(near: asyncio.StreamReader, back: asyncio.StreamWriter) -> None:
                """Stand between, and let the greeting pass only when told to."""
                reached.set()
                await go_on.wait()
                far, forth = await asyncio.open_connection("127.0.0.1", target)
                await asyncio.gather(_pass(near, forth), _pass(far, back))

            between = await asyncio.start_server(slow, "127.0.0.1", 0)
            port = between.sockets[0].getsockname()[1]
            access = msgspec.structs.replace(server.access, server=f"https://127.0.0.1:{port}")
            connection = Connection(
                access,
                limit=RateLimit(clock=asyncio.get_running_loop().time),
                agent="test",
                guard=lock.guard,
            )
            writing = asyncio.ensure_future(
                HttpKube(connection).create(CONFIG_MAPS, {"metadata": {"name": "x"}}, "default")
            )
            await reached.wait()
            lock.leads = False
            go_on.set()

            with pytest.raises(NotLeading):
                await writing
            await connection.close()
            between.close()
            await asyncio.sleep(0.05)
            return len(server.api.list(CONFIG_MAPS).items)

    assert asyncio.run(story()) == 0


async def _pass(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    with suppress(ConnectionError):
        while data := await source.read(4096):
            sink.write(data)
            await sink.drain()
    sink.close()


@pytest.mark.skipif(not hasattr(socket, "TCP_USER_TIMEOUT"), reason="Linux names them so")
def test_connections_ask_a_silent_peer_and_give_it_up_within_half_a_minute() -> None:
    made = lively((socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", ()))

    with made:

        def told(name: int) -> int:
            return made.getsockopt(socket.IPPROTO_TCP, name)

        assert made.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
        asking = told(socket.TCP_KEEPIDLE) + told(socket.TCP_KEEPINTVL) * told(socket.TCP_KEEPCNT)
        assert asking <= 30
        assert told(socket.TCP_USER_TIMEOUT) <= 30_000
