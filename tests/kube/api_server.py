"""Our own API server over HTTPS on the test's own loop, with a wire that can be cut."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import timedelta

import msgspec

from dovetail.host.event_loop import AsyncioEventLoop
from dovetail.kube.auth.credentials import StaticToken
from dovetail.kube.auth.kubeconfig import RestConfig
from dovetail.kube.connection import Connection
from dovetail.kube.rate_limit import RateLimiter
from dovetail.kube.reflector import Reflectors
from dovetail.simulator.apiserver.options import ListOptions
from dovetail.simulator.apiserver.server import ApiServer
from dovetail.simulator.environment import SeededRandomSource
from dovetail.simulator.rest.server import Server
from dovetail.state.cluster.cache import ClusterCache
from tests.simulator.rest.rest_server import NOON, TOKEN
from tests.support.telemetry import RecordedLog

TIMEOUT = 20.0


class ImpatientLoop(AsyncioEventLoop):
    """Real time, but pauses are a twentieth of what they should be."""

    async def sleep(self, delay: timedelta) -> None:
        await super().sleep(delay / 20)


class Wire:
    """Passes bytes on in both directions until it is cut."""

    def __init__(self) -> None:
        self._listener: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._flows = asyncio.Event()
        self._flows.set()
        self.target = 0
        self.port = 0

    async def open(self) -> None:
        self._listener = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        self.port = self._listener.sockets[0].getsockname()[1]

    def freeze(self) -> None:
        """Drop all traffic without closing connections."""
        self._flows.clear()

    def cut(self) -> None:
        """End every connection in the middle of whatever it carries."""
        for task in self._tasks:
            task.cancel()

    async def close(self) -> None:
        assert self._listener is not None
        for socket in self._listener.sockets:
            asyncio.get_running_loop().remove_reader(socket.fileno())
        # asyncio loses what it has just accepted when its server is closed at once.
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        self._listener.close()
        self.cut()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _connected(self, near: asyncio.StreamReader, back: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        forth = None
        try:
            far, forth = await asyncio.open_connection("127.0.0.1", self.target)
            await asyncio.gather(self._pass(near, forth), self._pass(far, back))
        except (OSError, asyncio.CancelledError):
            pass
        finally:
            self._tasks.discard(task)
            for entry in (back, forth):
                if entry is not None:
                    entry.transport.abort()

    async def _pass(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        while data := await source.read(4096):
            await self._flows.wait()
            sink.write(data)
            await sink.drain()
        sink.close()


class Served:
    """An API server that can be stopped, started again, and cut off."""

    def __init__(
        self, api: ApiServer | None = None, *, on_activity: Callable[[], None] = lambda: None
    ) -> None:
        self.api = api or ApiServer(now=lambda: NOON)
        self._on_activity = on_activity
        self.wire = Wire()
        self._server: Server | None = None

    @property
    def access(self) -> RestConfig:
        # Each start has a certificate of its own, which is not what is tested here.
        careless = ssl.create_default_context()
        careless.check_hostname = False
        careless.verify_mode = ssl.CERT_NONE
        return RestConfig(
            server=f"https://127.0.0.1:{self.wire.port}", tls=careless, credentials=StaticToken(TOKEN)
        )

    async def start(self) -> None:
        self._server = Server(self.api, token=TOKEN, now=lambda: NOON, on_write=self._on_activity)
        self.wire.target = await self._server.start()

    async def stop(self) -> None:
        if self._server is not None:
            self.wire.target = 1
            await self._server.stop()
            self._server = None
            # With a process its connections end, also those it has not accepted yet.
            self.wire.cut()


@asynccontextmanager
async def served(
    api: ApiServer | None = None, *, on_activity: Callable[[], None] = lambda: None
) -> AsyncIterator[Served]:
    entry = Served(api, on_activity=on_activity)
    await entry.wire.open()
    await entry.start()
    try:
        yield entry
    finally:
        await entry.stop()
        await entry.wire.close()
        await asyncio.sleep(0.05)  # Until those who were cut off have noticed.


@asynccontextmanager
async def connected(access: RestConfig, *, token: str = TOKEN) -> AsyncIterator[Connection]:
    clock = asyncio.get_running_loop().time
    if token != TOKEN:
        access = msgspec.structs.replace(access, credentials=StaticToken(token))
    connection = Connection(access, rate_limiter=RateLimiter(clock=clock), user_agent="dovetail/test")
    try:
        yield connection
    finally:
        await connection.close()


@asynccontextmanager
async def mirrored(access: RestConfig) -> AsyncIterator[tuple[ClusterCache, RecordedLog]]:
    """A mirror that follows the server."""
    cache, log, loop = ClusterCache(), RecordedLog(), ImpatientLoop()
    async with connected(access) as connection:
        feed = Reflectors(cache, connection, loop=loop, random=SeededRandomSource(1), log=log)
        try:
            await asyncio.wait_for(feed.start(), TIMEOUT)
            yield cache, log
        finally:
            await loop.stop()


def as_of_now(api: ApiServer) -> ClusterCache:
    """Return the expected contents of a cache of the server."""
    fresh = ClusterCache()
    for resource in fresh.stores:
        result = api.list(resource, ListOptions())
        fresh.replace(resource, result.items, revision=result.resource_version)
    return fresh


def differences(cache: ClusterCache, api: ApiServer) -> list[str]:
    expected = as_of_now(api)
    return [
        resource.qualified_name
        for resource, table in cache.stores.items()
        if table.all() != expected.stores[resource].all()
    ]


async def until(
    holds: Callable[[], bool], what: Callable[[], object] = lambda: "", *, timeout: float = TIMEOUT
) -> None:
    end = asyncio.get_running_loop().time() + timeout
    while not holds():
        assert asyncio.get_running_loop().time() < end, what()
        await asyncio.sleep(0.01)
