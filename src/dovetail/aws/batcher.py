"""Batcher: merges requests made at about the same time into one AWS call.

    submit(key, a) ──┐
    submit(key, b) ──┼── window closes ──> handle(key, [a, b, c]) ──> one result each
    submit(key, c) ──┘

EC2 throttles calls, not instances: one CreateFleet or TerminateInstances for many
claims is much cheaper than one for each.
"""

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Sequence
from datetime import datetime, timedelta
from typing import Final, Generic, TypeVar

import msgspec

from dovetail.ports.event_loop import EventLoop, Timer
from dovetail.ports.metrics import CLOUDPROVIDER_BATCH_DURATION, CLOUDPROVIDER_BATCH_SIZE, BatcherLabels
from dovetail.ports.telemetry import NO_METRICS, Metrics

Item = TypeVar("Item")
Result = TypeVar("Result")
Key = TypeVar("Key", bound=Hashable)


class BatchWindow(msgspec.Struct, frozen=True, kw_only=True):
    """Conditions that close a batch; the first one that is met does."""

    idle_timeout: timedelta
    """Since the last item."""
    max_wait: timedelta = timedelta(seconds=1)
    """Since the first item."""
    max_items: int = 500


CREATE_FLEET_WINDOW: Final = BatchWindow(idle_timeout=timedelta(milliseconds=35), max_items=200)
"""EC2 accepts more, but the names of the claims must fit in the tags of an instance."""
DESCRIBE_INSTANCES_WINDOW: Final = BatchWindow(idle_timeout=timedelta(milliseconds=100))
TERMINATE_INSTANCES_WINDOW: Final = BatchWindow(idle_timeout=timedelta(milliseconds=100))


class _Batch(Generic[Item, Result]):
    """An open batch: items, and a future for each."""

    def __init__(self, opened: datetime) -> None:
        self.opened = opened
        self.items: list[Item] = []
        self.futures: list[asyncio.Future[Result]] = []
        self.idle_timer: Timer | None = None
        self.wait_timer: Timer | None = None


class Batcher(Generic[Key, Item, Result]):
    """Collects items by key, and handles each batch with one call.

    ``handle`` returns a result or an exception for each item, in order. An
    exception that it raises goes to every item of the batch.
    """

    def __init__(
        self,
        handle: Callable[[Key, Sequence[Item]], Awaitable[Sequence[Result | Exception]]],
        *,
        window: BatchWindow,
        loop: EventLoop,
        name: str = "",
        metrics: Metrics = NO_METRICS,
    ) -> None:
        """``name`` is the value of the ``batcher`` label of metrics."""
        self._name = name
        self._metrics = metrics
        self._handle = handle
        self._window = window
        self._loop = loop
        self._open: dict[Key, _Batch[Item, Result]] = {}

    async def submit(self, key: Key, item: Item) -> Result:
        """Add an item to the open batch of its key, and return its result."""
        batch = self._open.get(key)
        if batch is None:
            batch = self._open[key] = _Batch(self._loop.now())
            batch.wait_timer = self._loop.call_at(
                self._loop.now() + self._window.max_wait, lambda: self._close(key, batch)
            )
        batch.items.append(item)
        future: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
        batch.futures.append(future)
        if len(batch.items) >= self._window.max_items:
            self._close(key, batch)
        else:
            self._restart_idle_timer(key, batch)
        return await future

    def _restart_idle_timer(self, key: Key, batch: _Batch[Item, Result]) -> None:
        if batch.idle_timer is not None:
            batch.idle_timer.cancel()
        batch.idle_timer = self._loop.call_at(
            self._loop.now() + self._window.idle_timeout, lambda: self._close(key, batch)
        )

    def _close(self, key: Key, batch: _Batch[Item, Result]) -> None:
        for timer in (batch.idle_timer, batch.wait_timer):
            if timer is not None:
                timer.cancel()
        if self._open.get(key) is batch:
            del self._open[key]
            waited = (self._loop.now() - batch.opened).total_seconds()
            labels = BatcherLabels(batcher=self._name)
            self._metrics.observe(CLOUDPROVIDER_BATCH_SIZE, len(batch.items), labels)
            self._metrics.observe(CLOUDPROVIDER_BATCH_DURATION, waited, labels)
            self._loop.spawn(self._run(key, batch))

    async def _run(self, key: Key, batch: _Batch[Item, Result]) -> None:
        results: Sequence[Result | Exception]
        try:
            results = await self._handle(key, batch.items)
        except Exception as error:  # noqa: BLE001 - goes to the callers of submit
            results = [error] * len(batch.items)
        for future, result in zip(batch.futures, results, strict=True):
            if future.done():  # Its caller was cancelled.
                continue
            if isinstance(result, Exception):
                future.set_exception(result)
            else:
                future.set_result(result)
