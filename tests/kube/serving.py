"""Our own API server over HTTPS on the test's own loop, with a wire that can be cut."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import timedelta

import msgspec

from dovetail.host.event_loop import AsyncioLoop
from dovetail.kube.auth.credentials import FixedToken
from dovetail.kube.auth.kubeconfig import Access
from dovetail.kube.connection import Connection
from dovetail.kube.rate_limit import RateLimit
from dovetail.kube.reflector import Feed
from dovetail.simulator.apiserver.options import ListOptions
from dovetail.simulator.apiserver.server import ApiServer
from dovetail.simulator.randomness import SeededChance
from dovetail.simulator.rest.server import Server
from dovetail.state.cluster.cache import Mirror
from tests.simulator.rest.serving import NOON, TOKEN
from tests.support.telling import KeptLog

PATIENCE = 20.0


class ImpatientLoop(AsyncioLoop):
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
        """Let nothing pass any more, and have nobody notice."""
        self._flows.clear()

    def cut(self) -> None:
        """End every connection in the middle of whatever it carries."""
        for task in self._tasks:
            task.cancel()

    async def close(self) -> None:
        assert self._listener is not None
        for one in self._listener.sockets:
            asyncio.get_running_loop().remove_reader(one.fileno())
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
            for one in (back, forth):
                if one is not None:
                    one.transport.abort()

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
    def access(self) -> Access:
        # Each start has a certificate of its own, which is not what is tested here.
        careless = ssl.create_default_context()
        careless.check_hostname = False
        careless.verify_mode = ssl.CERT_NONE
        return Access(
            server=f"https://127.0.0.1:{self.wire.port}",
            tls=careless,
            credentials=FixedToken(TOKEN),
        )

    async def start(self) -> None:
        self._server = Server(
            self.api, token=TOKEN, now=lambda: NOON, on_activity=self._on_activity
        )
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
    one = Served(api, on_activity=on_activity)
    await one.wire.open()
    await one.start()
    try:
        yield one
    finally:
        await one.stop()
        await one.wire.close()
        await asyncio.sleep(0.05)  # Until those who were cut off have noticed.


@asynccontextmanager
async def connected(access: Access, *, token: str = TOKEN) -> AsyncIterator[Connection]:
    clock = asyncio.get_running_loop().time
    if token != TOKEN:
        access = msgspec.structs.replace(access, credentials=FixedToken(token))
    connection = Connection(access, limit=RateLimit(clock=clock), agent="dovetail/test")
    try:
        yield connection
    finally:
        await connection.close()
        await asyncio.sleep(0.01)  # TLS says goodbye.


@asynccontextmanager
async def mirrored(access: Access) -> AsyncIterator[tuple[Mirror, KeptLog]]:
    """A mirror that follows the server."""
    mirror, log, loop = Mirror(), KeptLog(), ImpatientLoop()
    async with connected(access) as connection:
        feed = Feed(mirror, connection, loop=loop, chance=SeededChance(1), log=log)
        try:
            await asyncio.wait_for(feed.start(), PATIENCE)
            yield mirror, log
        finally:
            await loop.stop()


def as_of_now(api: ApiServer) -> Mirror:
    """What a mirror of the server has to look like."""
    fresh = Mirror()
    for resource in fresh.tables:
        found = api.list(resource, ListOptions())
        fresh.replace(resource, found.items, revision=found.resource_version)
    return fresh


def differences(mirror: Mirror, api: ApiServer) -> list[str]:
    expected = as_of_now(api)
    return [
        resource.qualified
        for resource, table in mirror.tables.items()
        if table.all() != expected.tables[resource].all()
    ]


async def until(
    holds: Callable[[], bool],
    what: Callable[[], object] = lambda: "",
    *,
    patience: float = PATIENCE,
) -> None:
    end = asyncio.get_running_loop().time() + patience
    while not holds():
        assert asyncio.get_running_loop().time() < end, what()
        await asyncio.sleep(0.01)
