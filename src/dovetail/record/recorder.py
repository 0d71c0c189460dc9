"""Recorder: watches a cluster, read-only, and writes its demand to a trace.

Reflectors fill the state; events wait in memory and are flushed every few seconds. So a
killed recorder loses at most that time, and an error of the disk stops it in one place.
"""

import asyncio
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Final

from dovetail import __version__
from dovetail.errors import DovetailError
from dovetail.host.event_loop import AsyncioEventLoop
from dovetail.host.randomness import SystemRandomSource
from dovetail.kube.auth.kubeconfig import RestConfig
from dovetail.kube.client import HttpKubeClient
from dovetail.kube.connection import Connection
from dovetail.kube.preflight import kubernetes_version
from dovetail.kube.rate_limit import RateLimiter
from dovetail.kube.reflector import Reflector
from dovetail.ports.api_resources import EVENTS, NODE_CLAIMS, NODES, PODS, Resource
from dovetail.ports.kube_client import Object
from dovetail.ports.kube_errors import Forbidden, NotFound
from dovetail.ports.telemetry import Log
from dovetail.record.anonymise import KeyedNames
from dovetail.record.capacity import FIELDS, CapacityObserver
from dovetail.record.demand import Demand
from dovetail.record.fields import OPTIONAL, RECORDED
from dovetail.record.output import WRITER, TraceOutput
from dovetail.trace.model import Event, Gap, Header

FLUSH_INTERVAL: Final = timedelta(seconds=3)
"""Events of this time are lost if the process is killed."""
_CAPACITY_INTERVAL: Final = timedelta(seconds=10)
"""Between two lists of the Events of NodeClaims, which are not watched."""
_OUTAGE: Final = timedelta(seconds=10)
"""A longer loss of the API server becomes a gap."""
_TIMEOUT_SECONDS: Final = 10.0


class Recorder:
    """One recording; ``run`` returns when it is stopped."""

    def __init__(
        self,
        access: RestConfig,
        output: TraceOutput,
        *,
        log: Log,
        names: KeyedNames | None = None,
        min_gap: timedelta = _OUTAGE,
    ) -> None:
        """``min_gap``: a longer loss of the API server becomes a gap."""
        self._min_gap = min_gap
        self._output = output
        self._log = log
        self._loop = AsyncioEventLoop()
        self._connection = Connection(
            access,
            rate_limiter=RateLimiter(clock=asyncio.get_running_loop().time),
            user_agent=f"dovetail-record/{__version__}",
        )
        self._kube = HttpKubeClient(self._connection)
        self._names = names
        self._pending: list[Event] = []
        rename = names.rename if names is not None else lambda obj: obj
        self._capacity = CapacityObserver()
        self._demand = Demand(
            self._pending.append, now=self._loop.now, rename=rename, on_object=self._observe_object
        )
        self._reflectors = [
            Reflector(
                self._demand,
                resource,
                self._connection,
                loop=self._loop,
                random=SystemRandomSource(),
                log=log,
            )
            for resource in RECORDED
        ]
        self._assumptions: list[str] = []
        self._outage: datetime | None = None

    async def start(self) -> None:
        """List everything and write the beginning, or the gap and what changed in it."""
        await self._check_server()
        existing = self._output.read_existing()
        listed = await asyncio.gather(*map(self._list, self._reflectors))
        await self._read_capacity(skip=True)
        if existing is None:
            self._begin()
        else:
            header, resumption, notes = existing
            self._check_cluster(header)
            for note in notes:
                self._log.info("the trace is incomplete", note=note)
            self._output.resume(header)
            self._demand.resume(header, resumption)
        self._flush()
        self._log.info(
            "recording",
            file=str(self._output.path),
            nodes=self._demand.count(NODES),
            pods=self._demand.count(PODS),
            continued=existing is not None,
        )
        for reflector, is_listed in zip(self._reflectors, listed, strict=True):
            if is_listed:
                self._loop.spawn(reflector.run())
        self._loop.spawn(self._follow_capacity())

    async def run(self, stop: asyncio.Event) -> None:
        """Write until ``stop`` is set; raise if the file cannot be written."""
        while not stop.is_set():
            with suppress(TimeoutError):
                await asyncio.wait_for(stop.wait(), FLUSH_INTERVAL.total_seconds())
            self._observe_outage()
            self._flush()
            if self._output.is_full(self._loop.now()):
                self._output.rotate(self._demand.now())
                self._begin()
                self._log.info("rotated the trace", file=str(self._output.path))
        if self._outage is not None:
            # Otherwise the file would say that demand did not change until its end.
            self._write_gap(self._outage)
            self._flush()
        self._output.end(self._demand.now())

    async def close(self) -> None:
        """Stop watching; events that were not flushed are lost."""
        await self._loop.stop()
        await self._connection.close()
        self._output.close()

    def _begin(self) -> None:
        start = self._loop.now()
        header = Header(
            written_by=f"{WRITER} {__version__}",
            start=start,
            region=self._demand.find_region(),
            cluster_id=self._demand.hash_cluster(),
            anonymised="" if self._names is None else self._names.fingerprint,
            assumptions=tuple(self._assumptions),
        )
        self._output.begin(header)
        # Directly: the state of a large cluster must not be in memory a second time.
        self._demand.begin(start, self._output.append)
        self._output.write([])

    def _check_cluster(self, header: Header) -> None:
        """Raise an error if the trace to continue is of another cluster."""
        present = self._demand.hash_cluster()
        if not (present and header.cluster_id):
            self._log.info(
                "the cluster of the trace is unknown; it is not compared",
                missing="UID of namespace kube-system, here or in the trace",
            )
        elif present != header.cluster_id:
            raise DovetailError(
                f"{self._output.path} is the trace of another cluster: its namespace kube-system is "
                "another one; name another file"
            )

    def _flush(self) -> None:
        events = self._pending.copy()
        self._pending.clear()
        if events:
            self._output.write(events)

    async def _check_server(self) -> None:
        try:
            async with asyncio.timeout(_TIMEOUT_SECONDS):
                await kubernetes_version(self._connection)
        except TimeoutError as error:
            raise DovetailError(
                f"{self._connection.waiting_for} gave no answer within {_TIMEOUT_SECONDS:g}s"
            ) from error

    async def _list(self, reflector: Reflector) -> bool:
        """List a kind; return False, with an assumption, if the cluster does not serve it."""
        resource = reflector.resource
        try:
            await reflector.initial_list()
        except NotFound:
            if resource not in OPTIONAL:
                raise
            self._assumptions.append(f"the cluster does not serve {resource.qualified_name}")
            return False
        except Forbidden as error:
            if resource in (PODS, NODES):
                raise DovetailError(
                    f"no right to list and watch {resource.qualified_name}, which a trace needs: {error}"
                ) from error
            self._assumptions.append(f"no right to list {resource.qualified_name}: they are not recorded")
            self._log.error("kind is not recorded", resource=resource.qualified_name, error=str(error))
            return False
        return True

    def _observe_object(self, resource: Resource, obj: Object) -> None:
        if resource is NODE_CLAIMS:
            self._capacity.observe_claim(obj)

    async def _follow_capacity(self) -> None:
        while True:
            await self._loop.sleep(_CAPACITY_INTERVAL)
            await self._read_capacity()

    async def _read_capacity(self, *, skip: bool = False) -> None:
        try:
            listed = await self._kube.list(EVENTS, fields=FIELDS)
        except Forbidden:
            sentence = "no right to list events: interruptions and capacity errors are not recorded"
            if sentence not in self._assumptions:
                self._assumptions.append(sentence)
            return
        except DovetailError as error:
            self._log.debug("cannot list events", error=str(error))
            return
        if skip:
            self._capacity.skip(listed)
            return
        for event in self._capacity.observe(listed):
            self._demand.write(event)

    def _observe_outage(self) -> None:
        """Write a gap when the API server is back after an outage."""
        lost = [each.disconnected_since for each in self._reflectors if each.disconnected_since is not None]
        now = self._loop.now()
        if lost:
            if self._outage is None and now - min(lost) >= self._min_gap:
                self._outage = min(lost)
                self._log.error("the API server does not answer; retrying", since=str(self._outage))
        elif self._outage is not None:
            seconds = self._write_gap(self._outage)
            self._log.info("the API server answers again", gap_seconds=round(seconds))

    def _write_gap(self, since: datetime) -> float:
        """Write a gap that ends now; return its seconds."""
        seconds = (self._loop.now() - since).total_seconds()
        self._outage = None
        self._demand.write(Gap(t=0, seconds=round(seconds, 3)))
        return seconds
