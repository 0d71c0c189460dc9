"""HTTP endpoints of a process: metrics and health probes."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Final

import msgspec
from aiohttp import web

from dovetail.errors import DovetailError
from dovetail.observability.health import Health

ALL: Final = "all"
"""All addresses of the host, IPv4 and IPv6."""
_TEXT: Final = "text/plain; version=0.0.4; charset=utf-8"
_COMPRESS_IN_THREAD_SIZE: Final = 64 * 1024
_SHUTDOWN_TIMEOUT: Final = 0.5
"""Seconds that running responses get at shutdown."""

Handler = Callable[[web.Request], Awaitable[web.Response]]


class Endpoints(msgspec.Struct, frozen=True, kw_only=True):
    """Address and ports; port 0 disables an endpoint."""

    address: str = "127.0.0.1"
    metrics_port: int = 8080
    probe_port: int = 8081


class ListenError(DovetailError):
    """A port is in use, or the address is not local."""


@asynccontextmanager
async def serving(
    endpoints: Endpoints, *, scrape: Callable[[], Awaitable[bytes]], health: Health
) -> AsyncIterator[None]:
    """Serve while the block runs; raise ``ListenError`` if a port cannot be opened."""

    async def metrics(_: web.Request) -> web.Response:
        # Megabytes of similar lines; large responses are compressed in a thread.
        response = web.Response(
            body=await scrape(), headers={"Content-Type": _TEXT}, zlib_executor_size=_COMPRESS_IN_THREAD_SIZE
        )
        response.enable_compression()
        return response

    async def healthz(_: web.Request) -> web.Response:
        return _respond(health.get_liveness_error())

    async def readyz(_: web.Request) -> web.Response:
        return _respond(health.get_readiness_error())

    async with AsyncExitStack() as stack:
        for port, option, pages in (
            (endpoints.metrics_port, "--metrics-port", {"/metrics": metrics}),
            (endpoints.probe_port, "--health-probe-port", {"/healthz": healthz, "/readyz": readyz}),
        ):
            if port:
                await stack.enter_async_context(_listening(endpoints.address, port, option, pages))
        yield


@asynccontextmanager
async def _listening(
    address: str, port: int, option: str, pages: Mapping[str, Handler]
) -> AsyncIterator[None]:
    app = web.Application()
    for path, handler in pages.items():
        app.router.add_get(path, handler)
    # An access log would have a line every few seconds, for each probe.
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=_SHUTDOWN_TIMEOUT)
    await runner.setup()
    try:
        host = None if address == ALL else address
        try:
            await web.TCPSite(runner, host, port).start()
        except OSError as error:
            raise ListenError(
                f"cannot listen on {address}:{port}: {error.strerror or error}; "
                f"set another {option}, or 0 to disable it"
            ) from error
        yield
    finally:
        # Shielded: the port is closed even if this task is cancelled.
        await asyncio.shield(runner.cleanup())


def _respond(error: str) -> web.Response:
    return web.Response(text=f"{error or 'ok'}\n", status=500 if error else 200)
