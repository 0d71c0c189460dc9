"""HTTPS connection to an API server: credentials, rate limit, timeouts, errors.

TCP keepalive detects a dead peer within half a minute.
"""

import socket
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from typing import Any, Final
from urllib.parse import quote

import aiohttp
import msgspec
from aiohttp import AddrInfoType
from aiohttp.abc import AbstractStreamWriter
from aiohttp.payload import BytesPayload
from yarl import URL

from dovetail.kube.auth.kubeconfig import RestConfig
from dovetail.kube.errors import decode_error_response
from dovetail.kube.rate_limit import RateLimiter
from dovetail.kube.server_clock import ServerClock
from dovetail.ports.api_resources import Resource
from dovetail.ports.kube_client import Object
from dovetail.ports.kube_errors import Unauthorized, Unavailable

_KEEPALIVE_OPTIONS: Final = (
    ("TCP_KEEPIDLE", 15),
    ("TCP_KEEPINTVL", 5),
    ("TCP_KEEPCNT", 3),
    ("TCP_USER_TIMEOUT", 30_000),
)
"""Seconds; the last one milliseconds.

A healthy watch is silent for up to a minute, so silence alone would reveal a dead
peer or network path only minutes later.
"""
JSON: Final = "application/json"
_CONNECT_TIMEOUT: Final = 10.0
_READ_TIMEOUT: Final = 120.0
"""Seconds for a page of a list: an API server that has just started is slow."""
_WRITE_TIMEOUT: Final = 30.0
_MAX_CONNECTIONS: Final = 150
"""Each request in flight and each watch has a connection of its own."""
_OBJECT: Final = msgspec.json.Decoder(dict[str, Any])


def open_keepalive_socket(address: AddrInfoType) -> socket.socket:
    """Open a socket with keepalive probes that fail after half a minute."""
    family, kind, protocol, *_ = address
    keepalive = socket.socket(family=family, type=kind, proto=protocol)
    keepalive.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _KEEPALIVE_OPTIONS:
        # Not every operating system has all options.
        if hasattr(socket, name):
            keepalive.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
    return keepalive


def no_fence() -> None:
    """Allow every write."""


class FencedBody(BytesPayload):
    """Request body that calls the fence when it is sent over a connection.

    Opening a connection may take many seconds, in which the lease can be lost. If
    the fence raises, the body is missing and the server drops the request.
    """

    def __init__(self, data: bytes, fence: Callable[[], None]) -> None:
        super().__init__(data)
        self._fence = fence

    async def write_with_length(self, writer: AbstractStreamWriter, content_length: int | None) -> None:
        self._fence()
        await super().write_with_length(writer, content_length)


def resource_path(resource: Resource, name: str = "", *, namespace: str = "", subresource: str = "") -> str:
    """Return the path of a kind (in one or all namespaces) or of one object."""
    parts = ["apis", resource.group] if resource.group else ["api"]
    parts.append(resource.version)
    if namespace and resource.namespaced:
        parts += ["namespaces", namespace]
    parts.append(resource.plural)
    parts += [part for part in (name, subresource) if part]
    return "/" + "/".join(quote(part, safe="") for part in parts)


class Connection:
    """HTTP session of one API server; bound to one asyncio loop. ``close`` it."""

    def __init__(
        self,
        config: RestConfig,
        *,
        rate_limiter: RateLimiter,
        user_agent: str,
        fence: Callable[[], None] = no_fence,
        server_clock: ServerClock | None = None,
    ) -> None:
        """``fence`` runs right before a write is sent, and raises to prevent it.

        ``server_clock`` is corrected by each response.
        """
        self._config = config
        self._fence = fence
        self._server_clock = server_clock
        self._rate_limiter = rate_limiter
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=_MAX_CONNECTIONS, socket_factory=open_keepalive_socket),
            headers={"User-Agent": user_agent, "Accept": JSON},
        )
        self.waiting_for = config.server
        """Server or exec plugin that the next response depends on; for messages."""
        self.in_flight = 0
        """Number of requests without a response; watches do not count."""

    @property
    def server(self) -> str:
        """Return the URL of the API server."""
        return self._config.server

    async def close(self) -> None:
        """Close all connections; requests in flight fail."""
        await self._session.close()

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: Any = None,
        content_type: str = JSON,
        mutates: bool = True,
    ) -> Object:
        """Send a request; raise ``ports.kube_errors`` and the errors of the fence.

        ``mutates=False``: a read whatever the method, which is not fenced.
        """
        data = None if body is None else msgspec.json.encode(body)
        headers = {} if data is None else {"Content-Type": content_type}
        total = _READ_TIMEOUT if method == "GET" else _WRITE_TIMEOUT
        timeout = aiohttp.ClientTimeout(total=total, sock_connect=_CONNECT_TIMEOUT)
        self.in_flight += 1
        try:
            fence = self._fence if mutates and method != "GET" else no_fence
            response_context = self._send(
                method, path, query, timeout, headers=headers, data=data, fence=fence
            )
            async with response_context as response:
                decoded: Object = _OBJECT.decode(await response.read())
                return decoded
        except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
            raise Unavailable(f"{self.server}{path} did not return a JSON object: {error}") from error
        finally:
            self.in_flight -= 1

    async def stream_lines(
        self, path: str, *, query: Mapping[str, str], idle_timeout: float
    ) -> AsyncGenerator[list[bytes], None]:
        """Yield lines of a response as they arrive, in batches; first an empty batch.

        Raises ``Unavailable`` if nothing arrives for ``idle_timeout`` seconds, or
        the response is truncated.
        """
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_TIMEOUT, sock_read=idle_timeout)
        rest = b""
        # A new connection for each watch: a load balancer may have several servers, and the
        # one that ended the last watch may be shutting down.
        headers = {"Connection": "close"}
        async with self._send("GET", path, query, timeout, headers=headers) as response:
            yield []
            async for chunk in response.content.iter_any():
                *lines, rest = (rest + chunk).split(b"\n")
                if lines:
                    yield lines

    @asynccontextmanager
    async def _send(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None,
        timeout: aiohttp.ClientTimeout,
        *,
        headers: Mapping[str, str] | None = None,
        data: bytes | None = None,
        fence: Callable[[], None] = no_fence,
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """Send a request; yield its response, or raise its error."""
        await self._rate_limiter.wait()
        credentials = await self._credentials()
        for is_last in (False, True):
            token, tls = credentials
            sent = dict(headers or {})
            if token:
                sent["Authorization"] = f"Bearer {token}"
            # Right before sending: the wait for the rate limiter may have been long.
            fence()
            requested_at = self._server_clock.local_now() if self._server_clock is not None else None
            try:
                async with self._session.request(
                    method,
                    URL(f"{self.server}{path}", encoded=True),
                    params=query,
                    headers=sent,
                    data=None if data is None else FencedBody(data, fence),
                    timeout=timeout,
                    ssl=tls,
                    allow_redirects=False,
                    server_hostname=self._config.tls_server_name,
                    proxy=self._config.proxy,
                ) as response:
                    if self._server_clock is not None and requested_at is not None:
                        self._server_clock.observe(
                            response.headers.get("Date", ""), requested_at=requested_at
                        )
                    if response.status < 400:
                        with _aborted_on_error(response):
                            yield response
                        return
                    after = response.headers.get("Retry-After", "")
                    error = decode_error_response(response.status, await response.read(), retry_after=after)
            except (aiohttp.ClientError, OSError) as problem:
                # If the fence stopped the body, raise its error instead.
                fence()
                raise Unavailable(f"{self.server} does not respond: {_describe(problem)}") from problem
            if is_last or not isinstance(error, Unauthorized):
                raise error
            # Tokens and certificates rotate: reload them and retry once.
            rejected, credentials = credentials, await self._credentials(rejected=True)
            if credentials == rejected:
                raise error

    async def _credentials(self, *, rejected: bool = False) -> tuple[str, ssl.SSLContext]:
        """Return the bearer token and the TLS context."""
        self.waiting_for = "the exec plugin of the kubeconfig"
        token = await self._config.credentials.token(rejected=rejected)
        self.waiting_for = self.server
        client_tls = self._config.client_tls
        return token, self._config.tls if client_tls is None else client_tls.context


@contextmanager
def _aborted_on_error(response: aiohttp.ClientResponse) -> Iterator[None]:
    """Close the connection of a response at once if it is not read to its end.

    A TLS shutdown waits for the server, but nothing waits for the shutdown: if the event loop
    ends first, the connection stays open.
    """
    transport = response.connection.transport if response.connection is not None else None
    try:
        yield
    except BaseException:
        if transport is not None:
            transport.abort()
        raise


def _describe(problem: Exception) -> str:
    if isinstance(problem, TimeoutError):
        return "timeout"
    if isinstance(problem, aiohttp.ClientConnectorCertificateError):
        return f"its certificate is not trusted ({problem.certificate_error})"
    if isinstance(problem, aiohttp.ClientConnectorError):
        return problem.strerror or str(problem.os_error)
    return str(problem) or type(problem).__name__
