"""HTTP server of the dashboard: page, document, and stream of changes.

Read only, on loopback, for bearers of a token. The token is a header and not a cookie:
browsers send cookies of 127.0.0.1 to every port of it. Requests with another Host are
rejected, since a page of an attacker may resolve its own name to 127.0.0.1.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from hashlib import sha256
from hmac import compare_digest
from importlib.resources import files
from importlib.resources.abc import Traversable
from secrets import token_hex
from typing import Final

import msgspec
from aiohttp import web

from dovetail.dashboard.feed import ViewFeed
from dovetail.dashboard.sources.source import ViewSource
from dovetail.errors import DovetailError

ADDRESS: Final = "127.0.0.1"
"""Also in a pod: `kubectl port-forward` connects to the loopback address of the pod."""
MIN_TOKEN_LENGTH: Final = 16
_HOSTS: Final = frozenset({"127.0.0.1", "localhost", "[::1]"})
"""With any port: `kubectl port-forward` may use another one than the server."""
_MAX_STREAMS: Final = 32
_HEARTBEAT: Final = 5.0
"""Seconds; the page takes 12 s of silence for a broken connection."""
_SHUTDOWN_TIMEOUT: Final = 0.5
_COMPRESS_IN_THREAD_SIZE: Final = 64 * 1024
_TYPES: Final = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
_SECURITY_HEADERS: Final = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}

_log = logging.getLogger(__name__)
_Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class DashboardError(DovetailError):
    """The port cannot be used, or the token is not fit."""


class _StaticFile(msgspec.Struct, frozen=True):
    body: bytes
    content_type: str
    etag: str


class DashboardServer:
    """Serves the documents of a source."""

    def __init__(self, source: ViewSource, *, get_token: Callable[[], str]) -> None:
        """``get_token`` is called for each request, so that a token in a file can be rotated."""
        self._source = source
        self._get_token = get_token
        self._feed = ViewFeed(source.current(), epoch=token_hex(4))
        self._files = _load_static_files()
        self._streams = 0
        self._stopping = asyncio.Event()
        self._opened = asyncio.Event()

    @asynccontextmanager
    async def serving(self, port: int = 0) -> AsyncIterator[int]:
        """Serve while the block runs; yields the port, for 0 a free one."""
        runner = web.AppRunner(
            self._app(), access_log=None, handler_cancellation=True, shutdown_timeout=_SHUTDOWN_TIMEOUT
        )
        await runner.setup()
        pump = asyncio.ensure_future(self._pump())
        try:
            try:
                await web.TCPSite(runner, ADDRESS, port).start()
            except OSError as error:
                raise DashboardError(
                    f"cannot listen on {ADDRESS}:{port}: {error.strerror or error}; choose another port"
                ) from error
            yield int(runner.addresses[0][1])
        finally:
            self._stopping.set()
            pump.cancel()
            await asyncio.gather(pump, return_exceptions=True)
            # Shielded: the port is closed even if this task is cancelled.
            await asyncio.shield(runner.cleanup())

    async def wait_until_opened(self) -> None:
        """Return when the first page follows the cluster."""
        await self._opened.wait()

    def _app(self) -> web.Application:
        app = web.Application(middlewares=[self._authorize])
        app.on_response_prepare.append(_add_security_headers)
        app.router.add_get("/", self._get_page)
        app.router.add_get("/static/{path:.+}", self._get_static)
        app.router.add_get("/api/view", self._get_view)
        app.router.add_get("/api/events", self._get_events, allow_head=False)
        return app

    async def _pump(self) -> None:
        """Publish the documents of the source; a failure makes the view stale, not silent."""
        try:
            async for update in self._source.updates():
                self._feed.publish(update)
        except Exception as error:  # noqa: BLE001 - whatever fails, the page must not look current
            _log.exception("the dashboard's source failed")
            self._feed.mark_stale(f"the view cannot be updated any more: {type(error).__name__}: {error}")

    @web.middleware
    async def _authorize(self, request: web.Request, handler: _Handler) -> web.StreamResponse:
        if _hostname(request.headers.get("Host", "")) not in _HOSTS:
            raise web.HTTPForbidden(text="the Host header is not a name of this server's loopback address\n")
        if request.headers.get("Sec-Fetch-Site", "none") not in ("same-origin", "none"):
            raise web.HTTPForbidden(text="requests of other pages are not allowed\n")
        if request.path.startswith("/api/") and not self._has_token(request):
            raise web.HTTPUnauthorized(
                text="the token is missing or wrong\n", headers={"WWW-Authenticate": "Bearer"}
            )
        return await handler(request)

    def _has_token(self, request: web.Request) -> bool:
        expected = self._get_token()
        if len(expected) < MIN_TOKEN_LENGTH:
            return False
        header = request.headers.get("Authorization", "").encode(errors="surrogateescape")
        return compare_digest(header, f"Bearer {expected}".encode())

    async def _get_page(self, request: web.Request) -> web.Response:
        return _respond_static(request, self._files["index.html"])

    async def _get_static(self, request: web.Request) -> web.Response:
        # A look-up in memory: no path of a request reaches the file system.
        file = self._files.get(request.match_info["path"])
        if file is None:
            raise web.HTTPNotFound(text="not found\n")
        return _respond_static(request, file)

    async def _get_view(self, _: web.Request) -> web.Response:
        response = web.Response(
            body=self._feed.encode_snapshot(),
            content_type="application/json",
            headers={"Cache-Control": "no-store"},
            zlib_executor_size=_COMPRESS_IN_THREAD_SIZE,
        )
        response.enable_compression()
        return response

    async def _get_events(self, request: web.Request) -> web.StreamResponse:
        if self._streams >= _MAX_STREAMS:
            raise web.HTTPServiceUnavailable(
                text=f"{_MAX_STREAMS} pages follow the cluster already\n", headers={"Retry-After": "10"}
            )
        response = web.StreamResponse(
            headers={"Content-Type": "text/event-stream; charset=utf-8", "Cache-Control": "no-store"}
        )
        self._streams += 1
        self._opened.set()
        try:
            await response.prepare(request)
            await self._stream(response, request.headers.get("Last-Event-ID", ""))
        except ConnectionError:
            pass  # The page was closed.
        finally:
            self._streams -= 1
        return response

    async def _stream(self, response: web.StreamResponse, last_event_id: str) -> None:
        """Write the changes after a revision, and heartbeats, until the server stops."""
        feed = self._feed
        number = feed.parse_revision(last_event_id)
        while not self._stopping.is_set():
            changes = feed.changes_since(number) if number is not None else None
            if changes is None:
                number = feed.number
                await response.write(b"event: reset\ndata: \n\n")
                continue
            for change in changes:
                revision = feed.revision(change.number).encode()
                await response.write(b"event: change\nid: %b\ndata: %b\n\n" % (revision, change.data))
                number = change.number
            if not changes:
                await response.write(b": heartbeat\n\n")
            await feed.wait_for_change(number or 0, _HEARTBEAT)


async def _add_security_headers(_: web.Request, response: web.StreamResponse) -> None:
    response.headers.update(_SECURITY_HEADERS)


def _hostname(host: str) -> str:
    """Return the Host header without its port; an IPv6 address keeps its brackets."""
    name, separator, port = host.rpartition(":")
    if not separator or port.endswith("]"):
        return host.lower()
    return name.lower() if port.isascii() and port.isdigit() else ""


def _respond_static(request: web.Request, file: _StaticFile) -> web.Response:
    headers = {"Content-Type": file.content_type, "Cache-Control": "no-cache", "ETag": file.etag}
    if request.headers.get("If-None-Match") == file.etag:
        return web.Response(status=304, headers=headers)
    return web.Response(body=file.body, headers=headers)


def _load_static_files() -> dict[str, _StaticFile]:
    """Return the files of the package by their path below ``static``."""
    loaded: dict[str, _StaticFile] = {}

    def load(folder: Traversable, prefix: str) -> None:
        for entry in folder.iterdir():
            suffix = "." + entry.name.rpartition(".")[2]
            if entry.is_dir():
                load(entry, f"{prefix}{entry.name}/")
            elif suffix in _TYPES:
                body = entry.read_bytes()
                etag = f'"{sha256(body).hexdigest()[:16]}"'
                loaded[prefix + entry.name] = _StaticFile(body, _TYPES[suffix], etag)

    load(files("dovetail.dashboard") / "static", "")
    return loaded
