"""One life of the controllers in a real cluster, from the first look to the last write."""

import asyncio
from datetime import timedelta
from typing import Any, Final

import msgspec

from dovetail import __version__
from dovetail.controllers.batching import Windows
from dovetail.controllers.recording import Recorder
from dovetail.controllers.registry import Tools, registrations
from dovetail.controllers.runtime import Runtime
from dovetail.host.chance import RealChance
from dovetail.host.loop import AsyncioLoop
from dovetail.host.offload import ThreadOffload
from dovetail.host.telling import NoMetrics
from dovetail.kube.client import HttpKube
from dovetail.kube.config import Access
from dovetail.kube.connection import Connection
from dovetail.kube.limiting import BURST, QPS, RateLimit
from dovetail.kube.preflight import Unsuitable, check_alone, check_kinds, kubernetes_version
from dovetail.kube.watching import Feed
from dovetail.model.settings import Gates, InterruptionSettings, SchedulingSettings
from dovetail.ports.telemetry import Log
from dovetail.running.hiring import Hire, Hired, Surroundings
from dovetail.state.evictions import Evictions
from dovetail.state.inflight import ReadYourWrites
from dovetail.state.mirror import Mirror
from dovetail.state.nominations import Nominations
from dovetail.state.promises import Promises
from dovetail.state.scarcity import Scarcity

_FIRST_LOOK: Final = 10.0
"""Seconds in which an API server must have answered whether we can work with it."""
_LAST_WRITES: Final = timedelta(seconds=3)
"""A pod is killed 30 s after SIGTERM, but an impatient user far sooner."""
_LOOK: Final = timedelta(milliseconds=20)


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """What users may choose, whatever the cloud."""

    qps: float = QPS
    burst: int = BURST
    scheduling: SchedulingSettings = SchedulingSettings()
    windows: Windows = Windows()
    interruption: InterruptionSettings = InterruptionSettings()
    gates: Gates = Gates()


class Operation:
    """The production controllers with real ports; made on the asyncio loop it runs on."""

    def __init__(self, access: Access, *, hire: Hire, settings: Settings, log: Log) -> None:
        self._access = access
        self._hire = hire
        self._settings = settings
        self._log = log
        self._loop = AsyncioLoop()
        self._offload = ThreadOffload(1, name="thinking")
        self._connection = Connection(
            access,
            limit=RateLimit(
                clock=asyncio.get_running_loop().time, qps=settings.qps, burst=settings.burst
            ),
            agent=f"dovetail/{__version__}",
        )
        self._hired: Hired | None = None
        self._runtime: Runtime | None = None
        self._lost = asyncio.Event()
        """Set when the cluster is no longer watched: what is decided then is wrong."""

    async def run(self, stop: asyncio.Event) -> None:
        """Work until told to stop; raises when work cannot begin."""
        asyncio.get_running_loop().set_exception_handler(self._unforeseen)
        begun = asyncio.ensure_future(self._begin())
        ends = [asyncio.ensure_future(one.wait()) for one in (stop, self._lost)]
        try:
            await asyncio.wait([begun, *ends], return_when=asyncio.FIRST_COMPLETED)
            if begun.done():
                begun.result()
                await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
            if self._lost.is_set():
                raise RuntimeError("the cluster is no longer watched; the log says why")
        finally:
            for one in (begun, *ends):
                one.cancel()
            await asyncio.gather(begun, *ends, return_exceptions=True)
            await self._end()

    async def _begin(self) -> None:
        kube, chance = HttpKube(self._connection), RealChance()
        try:
            async with asyncio.timeout(_FIRST_LOOK):
                version = await kubernetes_version(self._connection)
                await check_kinds(self._connection)
                await check_alone(kube, now=self._loop.now(), log=self._log)
        except TimeoutError as error:
            what = f"{self._connection.server} gave no answer within {_FIRST_LOOK:g}s"
            raise Unsuitable(what) from error
        mirror, scarcity = Mirror(), Scarcity()
        self._hired = await self._hire(
            Surroundings(
                loop=self._loop,
                chance=chance,
                log=self._log,
                kube=kube,
                mirror=mirror,
                scarcity=scarcity,
                kubernetes_version=version,
                look_up_version=lambda: kubernetes_version(self._connection),
                authority=self._access.authority,
            )
        )
        feed = Feed(
            mirror,
            self._connection,
            loop=self._loop,
            chance=chance,
            log=self._log,
            on_end=self._lost.set,
        )
        await feed.start()
        writes = ReadYourWrites(kube, mirror)
        tools = Tools(
            mirror=mirror,
            promises=Promises(mirror),
            nominations=Nominations(),
            evictions=Evictions(),
            scarcity=scarcity,
            kube=writes,
            cloud=self._hired.cloud,
            interruptions=self._hired.interruptions,
            checkups=self._hired.checkups,
            tagging=self._hired.tagging,
            loop=self._loop,
            offload=self._offload,
            chance=chance,
            log=self._log,
            events=Recorder(kube=writes, loop=self._loop, chance=chance, log=self._log),
            metrics=NoMetrics(),
            settings=self._settings.scheduling,
            windows=self._settings.windows,
            ca_bundle=self._hired.ca_bundle,
            interruption_settings=self._settings.interruption,
            gates=self._settings.gates,
        )
        self._runtime = Runtime(
            registrations(tools), mirror=mirror, loop=self._loop, log=self._log, metrics=NoMetrics()
        )
        self._runtime.start()
        self._log.info(
            "started",
            version=__version__,
            server=self._connection.server,
            kubernetes_version=version,
            nodes=len(mirror.nodes()),
            nodeclaims=len(mirror.claims()),
        )

    async def _end(self) -> None:
        """Begin nothing new, let writes that are under way come to their end, and leave."""
        if self._runtime is not None:
            self._runtime.rest()
        until = self._loop.now() + _LAST_WRITES
        while self._is_busy() and self._loop.now() < until:
            await self._loop.sleep(_LOOK)
        if self._is_busy():
            self._log.info("stopping in the middle of something; it is resumed at the next start")
        await self._loop.stop()
        if self._hired is not None:
            self._hired.close()
        self._offload.close()
        await self._connection.close()
        if self._runtime is not None:
            self._log.info("stopped")

    def _is_busy(self) -> bool:
        if self._runtime is None:
            return False
        return bool(self._runtime.busy() or self._connection.under_way)

    def _unforeseen(self, _: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        self._log.error(
            "something unforeseen happened beside the controllers",
            what=context.get("message", ""),
            error=f"{type(error).__name__}: {error}" if error is not None else "",
        )
