"""Connections that send no request: their number, and how long they stay open."""

import os
import select
import socket
import ssl
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

import pytest

from dovetail.host.clock import SystemClock
from dovetail.ports.api_resources import CONFIG_MAPS
from dovetail.simulator.rest.listener import ConnectionLimits
from tests.simulator.rest.rest_server import TOKEN, Cluster, serve_cluster

CLOCK: Final = SystemClock()
SHORT = ConnectionLimits(max_idle=20, first_request=1.0, keep_alive=2.0)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with serve_cluster(limits=SHORT) as cluster:
        yield cluster


@contextmanager
def connected(cluster: Cluster, number: int) -> Iterator[list[socket.socket]]:
    """Open TCP connections that send nothing."""
    host, _, port = cluster.url.removeprefix("https://").partition(":")
    sockets = [socket.create_connection((host, int(port))) for _ in range(number)]
    try:
        yield sockets
    finally:
        for client in sockets:
            client.close()


def secure(cluster: Cluster, client: socket.socket) -> ssl.SSLSocket:
    context = ssl.create_default_context(cadata=cluster.certificate)
    return context.wrap_socket(client, server_hostname="127.0.0.1")


def count_open(sockets: list[socket.socket]) -> int:
    """Return the number of connections that the server has not closed."""
    readable, _, _ = select.select(sockets, (), (), 0)
    return len(sockets) - len(readable)


def wait_until_open(sockets: list[socket.socket], number: int, *, seconds: float) -> float:
    """Wait until at most so many are open; return the seconds that it took."""
    started = CLOCK.seconds()
    while count_open(sockets) > number:
        assert CLOCK.seconds() - started < seconds, f"{count_open(sockets)} connections are open"
        CLOCK.sleep(0.05)
    return CLOCK.seconds() - started


def send(client: ssl.SSLSocket, request: str) -> bytes:
    client.sendall(request.encode())
    return client.recv(4096)


def a_get(path: str) -> str:
    return f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {TOKEN}\r\n\r\n"


def test_the_number_of_silent_connections_is_limited(cluster: Cluster) -> None:
    with connected(cluster, 100) as sockets:
        seconds = wait_until_open(sockets, SHORT.max_idle, seconds=5)
        answer = cluster.request("GET", "/readyz")

    assert seconds < SHORT.first_request
    assert answer.status == 200


def test_silent_connections_are_closed_in_time(cluster: Cluster) -> None:
    with connected(cluster, 10) as sockets:
        wait_until_open(sockets, 0, seconds=SHORT.first_request + 2)


def test_connection_with_half_a_handshake_is_closed_in_time(cluster: Cluster) -> None:
    with connected(cluster, 1) as sockets:
        sockets[0].sendall(b"\x16\x03\x01")
        wait_until_open(sockets, 0, seconds=SHORT.first_request + 2)


def test_connection_with_half_a_request_is_closed_in_time(cluster: Cluster) -> None:
    with connected(cluster, 1) as sockets:
        client = secure(cluster, sockets[0])
        client.sendall(b"GET /api HTTP/1.1\r\nHost: ")
        client.settimeout(SHORT.first_request + 2)

        assert client.recv(4096) == b""
        client.close()


def test_connection_stays_open_between_requests_within_the_keep_alive_time(cluster: Cluster) -> None:
    with connected(cluster, 1) as sockets:
        client = secure(cluster, sockets[0])
        first = send(client, a_get("/api"))
        CLOCK.sleep(SHORT.first_request + 0.5)
        second = send(client, a_get("/api"))
        client.settimeout(SHORT.keep_alive + 2)
        end = client.recv(4096)
        client.close()

    assert first.startswith(b"HTTP/1.1 200")
    assert second.startswith(b"HTTP/1.1 200")
    assert end == b""


def test_silent_clients_do_not_displace_connections_in_use(cluster: Cluster) -> None:
    with connected(cluster, 1) as used:
        client = secure(cluster, used[0])
        send(client, a_get("/api"))
        with connected(cluster, 100) as silent:
            wait_until_open(silent, SHORT.max_idle, seconds=5)
            answer = send(client, a_get("/api"))
        client.close()

    assert answer.startswith(b"HTTP/1.1 200")


def test_watches_are_exempt(cluster: Cluster) -> None:
    with connected(cluster, 1) as sockets:
        client = secure(cluster, sockets[0])
        headers = send(client, a_get("/api/v1/configmaps?watch=true"))
        with connected(cluster, 60):
            CLOCK.sleep(SHORT.keep_alive + 1.5)
        cluster.run(lambda: cluster.api.create(CONFIG_MAPS, {"metadata": {"name": "late"}}, "default"))
        client.settimeout(5)
        event = client.recv(4096)
        client.close()

    assert headers.startswith(b"HTTP/1.1 200")
    assert b"ADDED" in event


_MEMORY = """
import asyncio, os, sys
from datetime import UTC, datetime
from pathlib import Path
from dovetail.simulator.apiserver.server import ApiServer
from dovetail.simulator.rest.server import Server

def rss():
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") // 1024

async def main():
    now = lambda: datetime(2026, 1, 1, tzinfo=UTC)
    server = Server(ApiServer(now=now), token="t", now=now)
    print(await server.start(), flush=True)
    loop = asyncio.get_running_loop()
    while await loop.run_in_executor(None, sys.stdin.readline):
        print(rss(), flush=True)

asyncio.run(main())
"""


@pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="reads the memory of a process from /proc")
@pytest.mark.parametrize("sent", [b"", b"\x16\x03\x01"], ids=["silent", "half-handshake"])
def test_idle_connections_take_little_memory(sent: bytes) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", _MEMORY], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        port = int(server.stdout.readline())

        def get_kilobytes() -> int:
            print(file=server.stdin, flush=True)
            return int(server.stdout.readline())  # type: ignore[union-attr]

        before = get_kilobytes()
        clients = [socket.create_connection(("127.0.0.1", port)) for _ in range(800)]
        for client in clients:
            with suppress(OSError):  # The server has closed it.
                client.send(sent)
        CLOCK.sleep(1)
        during = get_kilobytes()
        for client in clients:
            client.close()
        server.stdin.close()
        server.kill()

    assert during - before < 110_000  # 800 TLS connections would take 260,000.
