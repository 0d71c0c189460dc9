"""Requests to one API server: identity, pace, time-outs, and errors as we know them.

Connections that notice soon when nobody is at the other end any more.
"""

import socket
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final

import aiohttp
import msgspec
from aiohttp import AddrInfoType
from yarl import URL

from dovetail.kube.auth.kubeconfig import Access
from dovetail.kube.errors import refusal
from dovetail.kube.rate_limit import RateLimit
from dovetail.kube.write_fence import GuardedBody, let_pass
from dovetail.ports.kube_client import Object
from dovetail.ports.kube_errors import Unauthorized, Unavailable

_OPTIONS: Final = (
    ("TCP_KEEPIDLE", 15),
    ("TCP_KEEPINTVL", 5),
    ("TCP_KEEPCNT", 3),
    ("TCP_USER_TIMEOUT", 30_000),
)
"""Seconds, but for the last. A watch says nothing for up to a minute when all is well, so its
silence alone would tell of a machine or a path that is gone only minutes later."""


def lively(address: AddrInfoType) -> socket.socket:
    """Make a socket that asks its peer now and then, and gives it up after half a minute."""
    family, kind, protocol, *_ = address
    made = socket.socket(family=family, type=kind, proto=protocol)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _OPTIONS:
        # Not every system has all of them.
        if hasattr(socket, name):
            made.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
    return made


JSON: Final = "application/json"
_CONNECT: Final = 10.0
_READ: Final = 120.0
"""Seconds for a page of a list: a server that has just started may need most of them."""
_WRITE: Final = 30.0
_AT_ONCE: Final = 150
"""Connections; each request under way, and each watch, has one of its own."""


_OBJECT: Final = msgspec.json.Decoder(dict[str, Any])


class Connection:
    """Made and used on one asyncio loop; ``close`` it at the end."""

    def __init__(
        self,
        access: Access,
        *,
        limit: RateLimit,
        agent: str,
        guard: Callable[[], None] = let_pass,
    ) -> None:
        """``guard`` is asked right before every write is sent, and raises if it must not be."""
        self._access = access
        self._guard = guard
        self._limit = limit
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=_AT_ONCE, socket_factory=lively),
            headers={"User-Agent": agent, "Accept": JSON},
        )
        self.awaited = access.server
        """Who has to answer first: the server, or the program that says who we are."""
        self.under_way = 0
        """Requests without an answer yet; watches do not count."""

    @property
    def server(self) -> str:
        return self._access.server

    async def close(self) -> None:
        """Leave; what is under way is cut off."""
        await self._session.close()

    async def ask(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: Any = None,
        content_type: str = JSON,
        changes: bool = True,
    ) -> Object:
        """Make one request; raises ``ports.kube_errors``, and what the guard does.

        Without ``changes`` it is a question, whatever the method.
        """
        data = None if body is None else msgspec.json.encode(body)
        headers = {} if data is None else {"Content-Type": content_type}
        total = _READ if method == "GET" else _WRITE
        timeout = aiohttp.ClientTimeout(total=total, sock_connect=_CONNECT)
        self.under_way += 1
        try:
            guard = self._guard if changes and method != "GET" else let_pass
            sending = self._answered(
                method, path, query, timeout, headers=headers, data=data, guard=guard
            )
            async with sending as response:
                answer: Object = _OBJECT.decode(await response.read())
                return answer
        except (msgspec.DecodeError, msgspec.ValidationError) as error:
            what = f"{self.server}{path} answered with no JSON object: {error}"
            raise Unavailable(what) from error
        finally:
            self.under_way -= 1

    async def lines(
        self, path: str, *, query: Mapping[str, str], silence: float
    ) -> AsyncGenerator[list[bytes], None]:
        """Yield the lines of an answer as they come, several at a time; first none, as it begins.

        Raises ``Unavailable`` when nothing comes for ``silence`` seconds, and when
        the answer is cut short.
        """
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT, sock_read=silence)
        rest = b""
        # A new connection each time: behind one address may be several servers, and the
        # one that has ended the last answer may be about to go.
        alone = {"Connection": "close"}
        async with self._answered("GET", path, query, timeout, headers=alone) as response:
            yield []
            async for chunk in response.content.iter_any():
                *whole, rest = (rest + chunk).split(b"\n")
                if whole:
                    yield whole

    @asynccontextmanager
    async def _answered(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None,
        timeout: aiohttp.ClientTimeout,
        *,
        headers: Mapping[str, str] | None = None,
        data: bytes | None = None,
        guard: Callable[[], None] = let_pass,
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """Send a request; leads to its answer unless that is a refusal."""
        await self._limit.wait()
        who = await self._who()
        for is_last in (False, True):
            token, tls = who
            sent = dict(headers or {})
            if token:
                sent["Authorization"] = f"Bearer {token}"
            # Only now: waiting for its turn may have taken any time.
            guard()
            try:
                async with self._session.request(
                    method,
                    URL(f"{self.server}{path}", encoded=True),
                    params=query,
                    headers=sent,
                    data=None if data is None else GuardedBody(data, guard),
                    timeout=timeout,
                    ssl=tls,
                    allow_redirects=False,
                    server_hostname=self._access.server_name,
                    proxy=self._access.proxy,
                ) as response:
                    if response.status < 400:
                        yield response
                        return
                    after = response.headers.get("Retry-After", "")
                    error = refusal(response.status, await response.read(), retry_after=after)
            except (aiohttp.ClientError, OSError) as problem:
                # Where the guard held the body back, it says so again.
                guard()
                raise Unavailable(f"{self.server} does not answer: {_why(problem)}") from problem
            if is_last or not isinstance(error, Unauthorized):
                raise error
            # Tokens and certificates are replaced while we run; these may just have ended.
            who, refused = await self._who(refused=True), who
            if who == refused:
                raise error

    async def _who(self, *, refused: bool = False) -> tuple[str, ssl.SSLContext]:
        """Return the token to send, and what to make connections with."""
        self.awaited = "the program that the kubeconfig's user.exec names"
        token = await self._access.credentials.token(refused=refused)
        self.awaited = self.server
        identity = self._access.identity
        return token, self._access.tls if identity is None else identity.context


def _why(problem: Exception) -> str:
    if isinstance(problem, TimeoutError):
        return "it takes too long"
    if isinstance(problem, aiohttp.ClientConnectorCertificateError):
        return f"its certificate is not trusted ({problem.certificate_error})"
    if isinstance(problem, aiohttp.ClientConnectorError):
        return problem.strerror or str(problem.os_error)
    return str(problem) or type(problem).__name__
