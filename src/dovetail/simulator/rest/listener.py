"""Listener: accepts TLS connections, and closes those that send no request.

A TLS connection takes a third of a megabyte. One that sends nothing gets no TLS, and
the number of connections without a request in progress is limited. Connections with a
request, such as a watch, are never closed here.
"""

import asyncio
import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, Final

import msgspec
from aiohttp import web

_BACKLOG: Final = 1024
_SWEEP_INTERVAL: Final = 0.5
"""Seconds between two searches for connections that are idle for too long."""
_ACCEPT_RETRY: Final = 0.1
"""Seconds until the next attempt if the process has no file descriptor left."""


class ConnectionLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Limits of connections without a request in progress."""

    max_idle: int = 256
    """Beyond it the connection that has been idle for longest is closed."""
    first_request: float = 10.0
    """Seconds from accept to the end of the first request's headers, with the handshake."""
    keep_alive: float = 75.0
    """Seconds from a response to the end of the next request's headers."""


class _Connection:
    """A connection from accept to close."""

    def __init__(self, accepted: socket.socket, now: float) -> None:
        self.accepted = accepted
        self.idle_since = now
        self.task: asyncio.Task[bool] | None = None
        """Waits for the first byte, then for the end of the handshake; then None."""
        self.protocol: web.RequestHandler | None = None
        """None until the handshake begins."""
        self.active_requests = 0
        self.has_sent_request = False

    def abort(self) -> None:
        if self.task is not None:
            self.task.cancel()
        elif self.protocol is not None and self.protocol.transport is not None:
            # Not close(): a client that does not read would delay it.
            self.protocol.transport.abort()


class Listener:
    """Accepts connections for an aiohttp server; ``close`` it."""

    def __init__(self, server: web.Server, context: ssl.SSLContext, limits: ConnectionLimits) -> None:
        self._server = server
        self._context = context
        self._limits = limits
        self._loop = asyncio.get_running_loop()
        self._socket: socket.socket | None = None
        self._sweeper: asyncio.Task[None] | None = None
        self._connections: dict[_Connection, None] = {}
        """In the order of accept."""
        self._by_protocol: dict[asyncio.BaseProtocol, _Connection] = {}

    def start(self, host: str, port: int) -> int:
        """Listen and return the port; 0 selects a free one."""
        self._socket = socket.create_server((host, port), backlog=_BACKLOG)
        self._socket.setblocking(False)
        self._loop.add_reader(self._socket, self._accept)
        self._sweeper = self._loop.create_task(self._sweep())
        return int(self._socket.getsockname()[1])

    async def close(self) -> None:
        """Stop listening, and close the connections that are not established yet."""
        if self._socket is None or self._sweeper is None:
            return
        self._loop.remove_reader(self._socket)
        self._socket.close()
        self._socket = None
        tasks: list[asyncio.Task[Any]] = [self._sweeper]
        tasks += [connection.task for connection in self._connections if connection.task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    @contextmanager
    def track_request(self, request: web.Request) -> Iterator[None]:
        """Keep the connection of a request open while the block runs."""
        connection = self._by_protocol.get(request.protocol)
        if connection is None:
            yield
            return
        connection.has_sent_request = True
        connection.active_requests += 1
        try:
            yield
        finally:
            connection.active_requests -= 1
            connection.idle_since = self._loop.time()

    def _accept(self) -> None:
        """Accept all waiting connections."""
        while self._socket is not None:
            try:
                accepted, _ = self._socket.accept()
            except BlockingIOError:
                return
            except OSError:
                self._loop.remove_reader(self._socket)
                self._loop.call_later(_ACCEPT_RETRY, self._resume_accepting)
                return
            accepted.setblocking(False)
            connection = _Connection(accepted, self._loop.time())
            self._connections[connection] = None
            connection.task = self._loop.create_task(self._establish(connection))
            connection.task.add_done_callback(partial(self._finish_handshake, connection))
            self._close_excess()

    def _resume_accepting(self) -> None:
        if self._socket is not None:
            self._loop.add_reader(self._socket, self._accept)

    async def _establish(self, connection: _Connection) -> bool:
        """Return True after the TLS handshake, False if it fails."""

        def create_protocol() -> web.RequestHandler:
            # Before the handshake ends: the first request may arrive together with its end.
            connection.protocol = self._server()
            self._by_protocol[connection.protocol] = connection
            return connection.protocol

        await _wait_until_readable(self._loop, connection.accepted)
        timeout = self._limits.first_request
        try:
            await self._loop.connect_accepted_socket(
                create_protocol, connection.accepted, ssl=self._context, ssl_handshake_timeout=timeout
            )
        except OSError:
            return False  # No TLS, or the client has gone.
        return True

    def _finish_handshake(self, connection: _Connection, task: asyncio.Task[bool]) -> None:
        connection.task = None
        if connection.protocol is None:
            connection.accepted.close()  # It has no transport that would close it.
        if task.cancelled() or not task.result():
            self._forget(connection)

    async def _sweep(self) -> None:
        """Close connections that are idle for too long, and forget closed ones."""
        while True:
            await asyncio.sleep(_SWEEP_INTERVAL)
            now, alive = self._loop.time(), set(self._server.connections)
            for connection in list(self._connections):
                if connection.task is None and connection.protocol not in alive:
                    self._forget(connection)
                elif not connection.active_requests:
                    limits = self._limits
                    limit = limits.keep_alive if connection.has_sent_request else limits.first_request
                    if connection.idle_since + limit <= now:
                        connection.abort()

    def _close_excess(self) -> None:
        idle = [connection for connection in self._connections if not connection.active_requests]
        if len(idle) > self._limits.max_idle:
            # Those without a request first, so that silent clients do not displace others.
            longest = min(idle, key=lambda connection: (connection.has_sent_request, connection.idle_since))
            longest.abort()
            self._forget(longest)

    def _forget(self, connection: _Connection) -> None:
        self._connections.pop(connection, None)
        if connection.protocol is not None:
            self._by_protocol.pop(connection.protocol, None)


async def _wait_until_readable(loop: asyncio.AbstractEventLoop, connected: socket.socket) -> None:
    """Return when a client has sent something, or has closed the connection."""
    readable = loop.create_future()

    def handle() -> None:
        loop.remove_reader(connected)
        if not readable.done():
            readable.set_result(None)

    loop.add_reader(connected, handle)
    try:
        await readable
    finally:
        with suppress(OSError, ValueError):
            loop.remove_reader(connected)
