"""One life of the controllers in a real cluster, from the first look to the last write."""

import asyncio
from datetime import timedelta
from typing import Any, Final

import msgspec

from dovetail import __version__
from dovetail.controllers.provisioning.batch_window import Windows
from dovetail.controllers.registry import Tools, registrations
from dovetail.controllers.runtime.event_recorder import Recorder
from dovetail.controllers.runtime.manager import Runtime
from dovetail.host.clock import RealClock
from dovetail.host.event_loop import AsyncioLoop
from dovetail.host.executor import ThreadOffload
from dovetail.host.randomness import RealChance
from dovetail.kube.auth.kubeconfig import Access
from dovetail.kube.client import HttpKube
from dovetail.kube.connection import Connection
from dovetail.kube.preflight import Unsuitable, check_alone, check_kinds, kubernetes_version
from dovetail.kube.rate_limit import BURST, QPS, RateLimit
from dovetail.kube.rbac_check import check_rights
from dovetail.kube.reflector import Feed
from dovetail.model.settings import (
    ConsolidationSettings,
    Gates,
    InterruptionSettings,
    SchedulingSettings,
)
from dovetail.observability.cloudprovider_metrics import MeteredCloud
from dovetail.observability.health import Stage
from dovetail.operator.cache_warmup import Warming
from dovetail.operator.cloud import Hire, Hired, Surroundings
from dovetail.operator.leader import Alone, Elected, Election, Leadership
from dovetail.operator.observability import Instruments
from dovetail.ports.telemetry import Log
from dovetail.state.capacitybuffers import Buffers
from dovetail.state.cluster.cache import Mirror
from dovetail.state.cluster.write_through import ReadYourWrites
from dovetail.state.instancetypes.nodeoverlays import Overlays
from dovetail.state.instancetypes.unavailable_offerings import Scarcity
from dovetail.state.nodes.nominations import Nominations
from dovetail.state.pods.assignments import Promises
from dovetail.state.pods.evictions import Evictions

_FIRST_LOOK: Final = 7.0
"""Seconds in which an API server must have answered whether we can work with it.

With the start of Python, what is wrong is then said within ten."""
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
    consolidation: ConsolidationSettings = ConsolidationSettings()
    election: Election | None = Election()
    """None: there is only one replica."""
    gates: Gates = Gates()


class Operation:
    """The production controllers with real ports; made on the asyncio loop it runs on."""

    def __init__(
        self,
        access: Access,
        *,
        hire: Hire,
        settings: Settings,
        log: Log,
        instruments: Instruments | None = None,
    ) -> None:
        self._access = access
        self._hire = hire
        self._settings = settings
        self._log = log
        self._loop = AsyncioLoop()
        self._instruments = instruments or Instruments(self._loop)
        self._offload = ThreadOffload(1, name="thinking")
        self._chance = RealChance()
        self._leadership = self._run_for_leader()
        self._connection = Connection(
            access,
            limit=RateLimit(
                clock=asyncio.get_running_loop().time, qps=settings.qps, burst=settings.burst
            ),
            agent=f"dovetail/{__version__}",
            guard=self._leadership.guard,
        )
        self._hired: Hired | None = None
        self._runtime: Runtime | None = None
        self._elected = asyncio.Event()
        self._broken: asyncio.Future[Exception] = asyncio.get_running_loop().create_future()
        """Why work cannot go on, once that is so."""

    async def run(self, stop: asyncio.Event) -> None:
        """Work until told to stop; raises when work cannot begin."""
        asyncio.get_running_loop().set_exception_handler(self._unforeseen)
        begun = asyncio.ensure_future(self._begin())
        stopped = asyncio.ensure_future(stop.wait())
        ends: tuple[asyncio.Future[Any], ...] = (stopped, self._broken)
        try:
            await asyncio.wait([begun, *ends], return_when=asyncio.FIRST_COMPLETED)
            if begun.done():
                begun.result()
                await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
            if self._broken.done():
                raise self._broken.result()
        finally:
            for one in (begun, stopped):
                one.cancel()
            await asyncio.gather(begun, stopped, return_exceptions=True)
            await self._end()

    async def _begin(self) -> None:
        kube, chance, gates = HttpKube(self._connection), self._chance, self._settings.gates
        mirror, scarcity = Mirror(gates), Scarcity()
        try:
            async with asyncio.timeout(_FIRST_LOOK):
                version = await kubernetes_version(self._connection)
                await check_kinds(self._connection, gates)
                await check_alone(kube, now=self._loop.now(), log=self._log)
                await check_rights(self._connection, read=mirror.tables, gates=gates)
        except TimeoutError as error:
            what = f"{self._connection.awaited} gave no answer within {_FIRST_LOOK:g}s"
            raise Unsuitable(what) from error
        overlays = Overlays(on=gates.NodeOverlay)
        self._hired = await self._hire(
            Surroundings(
                loop=self._loop,
                chance=chance,
                log=self._log,
                metrics=self._instruments.metrics,
                kube=kube,
                mirror=mirror,
                scarcity=scarcity,
                overlays=overlays,
                kubernetes_version=version,
                look_up_version=lambda: kubernetes_version(self._connection),
                authority=self._access.authority,
                guard=self._leadership.guard,
                elected=self._be_elected,
            )
        )
        feed = Feed(
            mirror,
            self._connection,
            loop=self._loop,
            chance=chance,
            log=self._log,
            on_end=lambda: self._break(
                RuntimeError("the cluster is no longer watched; the log says why")
            ),
        )
        self._instruments.scraping.show(
            mirror, self._hired.cloud.instance_types, lost_since=feed.lost_since
        )
        self._instruments.health.watch_over(feed.stuck)
        # Those who stand by have everything at hand when they are needed.
        await feed.start()
        Warming(mirror, self._hired.cloud.instance_types, loop=self._loop)
        self._instruments.health.stage = Stage.STANDING_BY
        self._instruments.leads(False)
        await self._leadership.win()
        self._instruments.leads(True)
        self._elected.set()
        self._loop.spawn(self._keep_leading())
        writes, metrics = ReadYourWrites(kube, mirror), self._instruments.metrics
        tools = Tools(
            mirror=mirror,
            promises=Promises(mirror),
            nominations=Nominations(),
            evictions=Evictions(),
            scarcity=scarcity,
            overlays=overlays,
            buffers=Buffers(on=gates.CapacityBuffer),
            kube=writes,
            cloud=MeteredCloud(
                self._hired.cloud,
                metrics=metrics,
                seconds=RealClock().seconds,
                provider=self._hired.provider,
            ),
            interruptions=self._hired.interruptions,
            checkups=self._hired.checkups,
            tagging=self._hired.tagging,
            shifts=self._hired.shifts,
            loop=self._loop,
            offload=self._offload,
            chance=chance,
            log=self._log,
            events=Recorder(kube=writes, loop=self._loop, chance=chance, log=self._log),
            metrics=metrics,
            settings=self._settings.scheduling,
            windows=self._settings.windows,
            ca_bundle=self._hired.ca_bundle,
            interruption_settings=self._settings.interruption,
            consolidation=self._settings.consolidation,
            gates=gates,
        )
        self._runtime = Runtime(
            registrations(tools), mirror=mirror, loop=self._loop, log=self._log, metrics=metrics
        )
        runtime = self._runtime
        self._instruments.scraping.follow(runtime.loads)
        self._instruments.health.watch_over(lambda: [*feed.stuck(), *runtime.stuck()])
        runtime.start()
        self._instruments.health.stage = Stage.WORKING
        self._log.info(
            "started",
            version=__version__,
            server=self._connection.server,
            kubernetes_version=version,
            nodes=len(mirror.nodes()),
            nodeclaims=len(mirror.claims()),
        )

    async def _be_elected(self) -> None:
        await self._elected.wait()

    async def _keep_leading(self) -> None:
        lost = await self._leadership.keep()
        self._log.error("no longer the leader", error=str(lost))
        self._break(lost)

    def _break(self, error: Exception) -> None:
        if not self._broken.done():
            self._broken.set_result(error)

    def _run_for_leader(self) -> Leadership:
        if self._settings.election is None:
            return Alone()
        return Elected(
            self._access,
            self._settings.election,
            loop=self._loop,
            chance=self._chance,
            log=self._log,
        )

    async def _end(self) -> None:
        """Begin nothing new, let writes that are under way come to their end, and leave."""
        self._instruments.health.stage = Stage.STOPPING
        if self._runtime is not None:
            self._runtime.rest()
        until = self._loop.now() + _LAST_WRITES
        # What is no longer allowed to write has nothing to bring to an end.
        while self._leadership.leads() and self._is_busy() and self._loop.now() < until:
            await self._loop.sleep(_LOOK)
        if self._is_busy():
            self._log.info("stopping in the middle of something; it is resumed at the next start")
        await self._loop.stop()
        # Only now, when nothing of ours writes any more.
        await self._leadership.give_up()
        await self._leadership.close()
        if self._hired is not None:
            self._hired.close()
            await self._hired.leave()
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
