"""Controllers in this process as a source: ``dovetail run``, a sandbox or a demo."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import suppress
from datetime import timedelta
from typing import Any, Final

from dovetail.controllers.context import ControllerContext
from dovetail.core.disruption.command import KeepReason
from dovetail.dashboard.sources.producer import INTERVAL, Pricing, ViewProducer
from dovetail.dashboard.sources.source import SourceStatus, ViewUpdate
from dovetail.errors import DovetailError
from dovetail.view.prices import OfferingPrices

_HISTORY_INTERVAL: Final = timedelta(seconds=10)

ListEvents = Callable[[], Awaitable[Iterable[dict[str, Any]]]]


class ProcessSource:
    """Documents of the cluster cache that the controllers use; implements ``ViewSource``."""

    def __init__(
        self,
        context: ControllerContext,
        *,
        source: str,
        name: str = "",
        prices: str = "",
        region: str = "",
        currency: str = "USD",
        list_events: ListEvents | None = None,
        use_known_reasons: bool = False,
        interval: timedelta = INTERVAL,
    ) -> None:
        """With ``use_known_reasons``, show reasons of the disruption controller.

        ``source`` is ``controller`` or ``simulation``; ``interval`` is real time.
        """
        self._context = context
        self._list_events = list_events
        self._interval = interval
        get_types = context.cloud_provider.instance_types
        find_price = OfferingPrices(lambda: map(get_types, context.cache.pools()))
        pricing = Pricing(
            get_instance_types=get_types,
            find_price=find_price,
            description=prices,
            region=region,
            currency=currency,
            scheduling=context.scheduling_settings,
        )
        self._producer = ViewProducer(
            context.cache,
            pricing,
            source=source,
            name=name,
            get_keep_reasons=self._get_known_reasons if use_known_reasons else None,
            get_ledger=lambda: context.savings.ledger,
        )
        self._producer.autoscaler = "dovetail"
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        loop = asyncio.get_running_loop()
        await self._read_history()
        await self._producer.publish(self._context.loop.now())
        self._tasks = [
            loop.create_task(self._producer.run(self._context.loop.now, self._interval)),
            loop.create_task(self._follow_history()),
        ]

    async def refresh(self) -> None:
        """Publish a document of this moment; for a simulation that has advanced its clock."""
        await self._producer.publish(self._context.loop.now())

    def set_status(self, status: SourceStatus) -> None:
        """Report that documents are stale, or that no later one will come."""
        self._producer.status = status
        self._producer.touch()

    def current(self) -> ViewUpdate:
        return self._producer.publisher.current()

    def updates(self) -> AsyncIterator[ViewUpdate]:
        return self._producer.publisher.updates()

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._producer.close()

    def _get_known_reasons(self) -> tuple[KeepReason, ...]:
        return tuple(sorted(self._context.keep_reasons.all(), key=lambda reason: reason.node))

    async def _follow_history(self) -> None:
        while True:
            await asyncio.sleep(_HISTORY_INTERVAL.total_seconds())
            await self._read_history()

    async def _read_history(self) -> None:
        if self._list_events is not None:
            with suppress(DovetailError):  # The next attempt follows soon.
                self._producer.decisions.add_events(await self._list_events())
        self._producer.touch()
