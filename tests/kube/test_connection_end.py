"""The end of connections: a command that ends leaves none open."""

import asyncio
import gc
import socket
import ssl
import warnings
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from threading import Thread

from dovetail.kube.auth.credentials import StaticToken
from dovetail.kube.auth.kubeconfig import RestConfig
from dovetail.kube.connection import Connection
from dovetail.simulator.rest.certificate import create_certificate
from tests.kube.api_server import connected


@contextmanager
def silent_server(beginning: bytes) -> Iterator[RestConfig]:
    """Serve the beginning of a response over TLS, then neither read nor close."""
    certificate = create_certificate()
    opened: list[ssl.SSLSocket] = []

    def serve() -> None:
        accepted, _ = listener.accept()
        connection = certificate.context().wrap_socket(accepted, server_side=True)
        opened.append(connection)
        connection.recv(65536)
        connection.sendall(b"HTTP/1.1 200 OK\r\n" + beginning)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = Thread(target=serve)
        thread.start()
        yield RestConfig(
            server=f"https://127.0.0.1:{listener.getsockname()[1]}",
            tls=ssl.create_default_context(cadata=certificate.certificate),
            credentials=StaticToken("any"),
        )
        thread.join()
    for connection in opened:
        connection.close()


def find_open_connections(config: RestConfig, read: Callable[[Connection], Awaitable[None]]) -> list[str]:
    """Read, close the connection, end the event loop; return warnings of what is open."""

    async def run() -> None:
        async with connected(config) as connection:
            await read(connection)

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        asyncio.run(run())
        gc.collect()
    return [str(warning.message) for warning in caught]


def test_ended_watch_leaves_no_connection_open() -> None:
    async def watch(connection: Connection) -> None:
        lines = connection.stream_lines("/api/v1/pods", query={"watch": "1"}, idle_timeout=60)
        async for batch in lines:
            if batch:
                break
        await lines.aclose()

    with silent_server(b"Transfer-Encoding: chunked\r\n\r\n3\r\n{}\n\r\n") as config:
        assert find_open_connections(config, watch) == []


def test_cancelled_request_leaves_no_connection_open() -> None:
    async def start_a_list(connection: Connection) -> None:
        with suppress(TimeoutError):
            await asyncio.wait_for(connection.request("GET", "/api/v1/pods"), 0.5)

    with silent_server(b"Content-Length: 100\r\n\r\n{") as config:
        assert find_open_connections(config, start_a_list) == []
