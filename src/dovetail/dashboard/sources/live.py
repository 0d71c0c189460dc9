"""Live cluster as a source: read-only watches by kubeconfig.

A kind that may not be listed, or that the API server does not serve, becomes a
notice and is tried again every minute. Watches reconnect by themselves; until
then the document is stale.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from datetime import timedelta
from typing import Final

from dovetail import __version__
from dovetail.codec.savings_ledger import LedgerError, decode_ledger
from dovetail.dashboard.sources.producer import Pricing, ViewProducer
from dovetail.dashboard.sources.source import SourceStatus, ViewUpdate
from dovetail.errors import DovetailError
from dovetail.host.event_loop import AsyncioEventLoop
from dovetail.host.randomness import SystemRandomSource
from dovetail.kube.auth.kubeconfig import RestConfig
from dovetail.kube.client import HttpKubeClient
from dovetail.kube.connection import Connection
from dovetail.kube.preflight import kubernetes_version
from dovetail.kube.rate_limit import RateLimiter
from dovetail.kube.reflector import Reflector
from dovetail.kube.server_clock import ServerClock
from dovetail.model.savings import LEDGER_CONFIG_MAP, SavingsLedger
from dovetail.ports.api_resources import CONFIG_MAPS, EVENTS, Resource
from dovetail.ports.kube_errors import Forbidden, NotFound
from dovetail.ports.telemetry import Log
from dovetail.state.cluster.cache import ClusterCache
from dovetail.view.document import Notice
from dovetail.view.notices import describe_forbidden, describe_not_served, find_autoscaler

_TIMEOUT_SECONDS: Final = 7.0
_RETRY_INTERVAL: Final = timedelta(minutes=1)
"""For a kind that may not be listed or is not served."""
_HISTORY_INTERVAL: Final = timedelta(seconds=20)
"""For Events and the ledger, which are not watched: there are too many Events of pods."""
_STALE_AFTER: Final = timedelta(seconds=3)
_STATUS_INTERVAL: Final = timedelta(seconds=1)
_EVENT_FIELDS: Final = ("involvedObject.kind=NodeClaim", "involvedObject.kind=NodePool")


class LiveSource:
    """Documents of a cluster that is watched; implements ``ViewSource``."""

    def __init__(
        self,
        access: RestConfig,
        create_pricing: Callable[[ClusterCache], Pricing],
        *,
        log: Log,
        name: str = "",
    ) -> None:
        """``create_pricing`` is called once all kinds are listed: it needs the nodes' region."""
        self._create_pricing = create_pricing
        self._log = log
        self._name = name
        self._loop = AsyncioEventLoop()
        self._clock = ServerClock(self._loop)
        self._connection = Connection(
            access,
            rate_limiter=RateLimiter(clock=asyncio.get_running_loop().time),
            user_agent=f"dovetail/{__version__}",
            server_clock=self._clock,
        )
        self._kube = HttpKubeClient(self._connection)
        self._cache = ClusterCache()
        self._reflectors = [
            Reflector(
                self._cache, resource, self._connection, loop=self._loop, random=SystemRandomSource(), log=log
            )
            for resource in self._cache.stores
        ]
        self._forbidden: set[Resource] = set()
        self._not_served: set[Resource] = set()
        self._ledger_error = ""
        self._producer: ViewProducer | None = None

    async def start(self) -> None:
        try:
            async with asyncio.timeout(_TIMEOUT_SECONDS):
                await kubernetes_version(self._connection)
        except TimeoutError as error:
            await self.close()
            raise DovetailError(
                f"{self._connection.waiting_for} gave no answer within {_TIMEOUT_SECONDS:g}s"
            ) from error
        except DovetailError:
            await self.close()
            raise
        try:
            await asyncio.gather(*map(self._start_reflector, self._reflectors))
            producer = self._producer = ViewProducer(
                self._cache, self._create_pricing(self._cache), source="live", name=self._name
            )
        except DovetailError:
            await self.close()
            raise
        await self._read_history(producer)
        await producer.publish(self._clock.now())
        self._loop.spawn(producer.run(self._clock.now))
        self._loop.spawn(self._follow_clock())
        self._loop.spawn(self._follow_history(producer))
        self._loop.spawn(self._follow_status(producer))

    def current(self) -> ViewUpdate:
        return self._get_producer().publisher.current()

    def updates(self) -> AsyncIterator[ViewUpdate]:
        return self._get_producer().publisher.updates()

    async def close(self) -> None:
        await self._loop.stop()
        if self._producer is not None:
            await self._producer.close()
        await self._connection.close()

    def _get_producer(self) -> ViewProducer:
        if self._producer is None:
            raise RuntimeError("the source has not been started")
        return self._producer

    async def _start_reflector(self, reflector: Reflector) -> None:
        if await self._list(reflector):
            self._loop.spawn(reflector.run())
        else:
            self._loop.spawn(self._retry(reflector))

    async def _list(self, reflector: Reflector) -> bool:
        """List a kind; return False, with a notice, if it cannot be listed."""
        resource = reflector.resource
        try:
            await reflector.initial_list()
        except Forbidden:
            self._forbidden.add(resource)
            self._not_served.discard(resource)
            return False
        except NotFound:
            self._forbidden.discard(resource)
            self._not_served.add(resource)
            return False
        self._forbidden.discard(resource)
        self._not_served.discard(resource)
        return True

    async def _retry(self, reflector: Reflector) -> None:
        while True:
            await self._loop.sleep(_RETRY_INTERVAL)
            with suppress(DovetailError):
                if await self._list(reflector):
                    break
        if self._producer is not None:
            self._set_notices(self._producer)
        await reflector.run()

    async def _follow_status(self, producer: ViewProducer) -> None:
        while True:
            await self._loop.sleep(_STATUS_INTERVAL)
            status = self._get_status()
            if status != producer.status:
                producer.status = status
                producer.touch()

    def _get_status(self) -> SourceStatus:
        before = self._loop.now() - _STALE_AFTER
        lost = [
            (reflector.disconnected_since, reflector)
            for reflector in self._reflectors
            if reflector.disconnected_since is not None and reflector.disconnected_since <= before
        ]
        if not lost:
            return SourceStatus()
        since, reflector = min(lost, key=lambda entry: entry[0])
        reason = f"{self._connection.server} does not answer; trying again ({reflector.last_error})"
        return SourceStatus(stale=True, reason=reason, since=since + self._clock.offset)

    async def _follow_clock(self) -> None:
        """Read the clock of the API server again as long as its offset changes.

        Virtual time may run faster than ours, and watches do not say the time. A constant
        offset is read with the history only.
        """
        offset = timedelta()
        while True:
            await self._loop.sleep(_STATUS_INTERVAL)
            if self._clock.offset != offset:
                offset = self._clock.offset
                with suppress(DovetailError):
                    await kubernetes_version(self._connection)

    async def _follow_history(self, producer: ViewProducer) -> None:
        while True:
            await self._loop.sleep(_HISTORY_INTERVAL)
            await self._read_history(producer)

    async def _read_history(self, producer: ViewProducer) -> None:
        """Read Events, the savings ledger, and which autoscaler runs."""
        producer.autoscaler = find_autoscaler(self._cache)
        for fields in _EVENT_FIELDS:
            try:
                producer.decisions.add_events(await self._kube.list(EVENTS, fields=fields))
                self._forbidden.discard(EVENTS)
            except Forbidden:
                self._forbidden.add(EVENTS)
            except DovetailError as error:
                self._log.debug("cannot list events", error=str(error))
        producer.ledger = await self._read_ledger() or producer.ledger
        self._set_notices(producer)

    def _set_notices(self, producer: ViewProducer) -> None:
        notices = [
            *describe_forbidden(sorted(self._forbidden, key=lambda resource: resource.qualified_name)),
            *describe_not_served(sorted(self._not_served, key=lambda resource: resource.qualified_name)),
        ]
        if self._ledger_error:
            notices.append(Notice(code="ledger", message=self._ledger_error))
        producer.notices = {notice.code: notice for notice in notices}
        producer.unread = self._forbidden | self._not_served
        producer.touch()

    async def _read_ledger(self) -> SavingsLedger | None:
        self._ledger_error = ""
        try:
            ledgers = await self._kube.list(CONFIG_MAPS, fields=f"metadata.name={LEDGER_CONFIG_MAP}")
            self._forbidden.discard(CONFIG_MAPS)
            return decode_ledger(ledgers[0]) if ledgers else SavingsLedger()
        except Forbidden:
            self._forbidden.add(CONFIG_MAPS)
        except LedgerError as error:
            self._ledger_error = str(error)
        except DovetailError as error:
            self._log.debug("cannot read the savings ledger", error=str(error))
        return None
