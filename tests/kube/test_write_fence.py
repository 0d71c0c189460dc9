"""A write that must not be made any more is not made, however late that turns out."""

import asyncio
import socket
from contextlib import suppress

import msgspec
import pytest

from dovetail.kube.client import HttpKubeClient
from dovetail.kube.connection import Connection, open_keepalive_socket
from dovetail.kube.leaderelection.lease import NotLeaderError
from dovetail.kube.rate_limit import RateLimiter
from dovetail.ports.api_resources import CONFIG_MAPS
from tests.kube.api_server import served


class Lock:
    def __init__(self) -> None:
        self.leads = True

    def guard(self) -> None:
        if not self.leads:
            raise NotLeaderError("lost")


def test_a_lease_lost_while_connecting_prevents_the_write() -> None:
    async def story() -> int:
        lock = Lock()
        async with served() as server:
            target, server.wire.target = server.wire.target, 0
            reached = asyncio.Event()
            go_on = asyncio.Event()

            async def slow(near: asyncio.StreamReader, back: asyncio.StreamWriter) -> None:
                """Proxy that forwards the TLS handshake only on a signal."""
                reached.set()
                await go_on.wait()
                far, forth = await asyncio.open_connection("127.0.0.1", target)
                await asyncio.gather(_pass(near, forth), _pass(far, back))

            between = await asyncio.start_server(slow, "127.0.0.1", 0)
            port = between.sockets[0].getsockname()[1]
            access = msgspec.structs.replace(server.access, server=f"https://127.0.0.1:{port}")
            connection = Connection(
                access,
                rate_limiter=RateLimiter(clock=asyncio.get_running_loop().time),
                user_agent="test",
                fence=lock.guard,
            )
            writing = asyncio.ensure_future(
                HttpKubeClient(connection).create(CONFIG_MAPS, {"metadata": {"name": "x"}}, "default")
            )
            await reached.wait()
            lock.leads = False
            go_on.set()

            with pytest.raises(NotLeaderError):
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
def test_keepalive_detects_a_dead_peer_within_half_a_minute() -> None:
    created = open_keepalive_socket((socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", ()))

    with created:

        def option(name: int) -> int:
            return created.getsockopt(socket.IPPROTO_TCP, name)

        assert created.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
        probe_seconds = option(socket.TCP_KEEPIDLE) + option(socket.TCP_KEEPINTVL) * option(
            socket.TCP_KEEPCNT
        )
        assert probe_seconds <= 30
        assert option(socket.TCP_USER_TIMEOUT) <= 30_000
