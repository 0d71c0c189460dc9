"""The two small web servers of a process: its numbers, and how it is."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Final

import msgspec
from aiohttp import web

from dovetail.errors import DovetailError
from dovetail.observability.health import Health

ALL: Final = "all"
"""Every address of the machine, of either family."""
_TEXT: Final = "text/plain; version=0.0.4; charset=utf-8"
_LARGE: Final = 64 * 1024
_LAST_ANSWERS: Final = 0.5
"""Seconds that answers under way get at the end."""

Handler = Callable[[web.Request], Awaitable[web.Response]]


class Endpoints(msgspec.Struct, frozen=True, kw_only=True):
    """Where to listen; port 0 is nowhere."""

    address: str = "127.0.0.1"
    metrics_port: int = 8080
    probe_port: int = 8081


class CannotListen(DovetailError):
    """A port is taken, or an address is not ours."""


@asynccontextmanager
async def serving(
    endpoints: Endpoints, *, scrape: Callable[[], Awaitable[bytes]], health: Health
) -> AsyncIterator[None]:
    """Answer for as long as the block lasts; raises ``CannotListen`` at its start."""

    async def metrics(_: web.Request) -> web.Response:
        # Megabytes of lines that are much alike; large ones are packed beside the loop.
        answer = web.Response(
            body=await scrape(), headers={"Content-Type": _TEXT}, zlib_executor_size=_LARGE
        )
        answer.enable_compression()
        return answer

    async def healthz(_: web.Request) -> web.Response:
        return _answer(health.unwell())

    async def readyz(_: web.Request) -> web.Response:
        return _answer(health.unready())

    async with AsyncExitStack() as open_ones:
        for port, option, pages in (
            (endpoints.metrics_port, "--metrics-port", {"/metrics": metrics}),
            (endpoints.probe_port, "--health-probe-port", {"/healthz": healthz, "/readyz": readyz}),
        ):
            if port:
                await open_ones.enter_async_context(
                    _listening(endpoints.address, port, option, pages)
                )
        yield


@asynccontextmanager
async def _listening(
    address: str, port: int, option: str, pages: Mapping[str, Handler]
) -> AsyncIterator[None]:
    app = web.Application()
    for path, handler in pages.items():
        app.router.add_get(path, handler)
    # Access logs would be a line every few seconds that nobody reads.
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=_LAST_ANSWERS)
    await runner.setup()
    try:
        host = None if address == ALL else address
        try:
            await web.TCPSite(runner, host, port).start()
        except OSError as error:
            raise CannotListen(
                f"cannot listen on {address}:{port}: {error.strerror or error}; "
                f"give another {option}, or 0 for none"
            ) from error
        yield
    finally:
        # Cancelled or not, the port is given back.
        await asyncio.shield(runner.cleanup())


def _answer(trouble: str) -> web.Response:
    return web.Response(text=f"{trouble or 'ok'}\n", status=500 if trouble else 200)
