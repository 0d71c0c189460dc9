"""Many who ask for the same at about the same time, served by one call."""

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Sequence
from datetime import datetime, timedelta
from typing import Final, Generic, TypeVar

import msgspec

from dovetail.ports.event_loop import Loop, Timer
from dovetail.ports.telemetry import UNTOLD, Metrics

Item = TypeVar("Item")
Answer = TypeVar("Answer")
Key = TypeVar("Key", bound=Hashable)


class Window(msgspec.Struct, frozen=True, kw_only=True):
    """How long a call waits for company."""

    idle: timedelta
    """Since the last who came."""
    longest: timedelta = timedelta(seconds=1)
    """Since the first who came."""
    most: int = 500
    """With so many it waits no longer."""


FLEETS: Final = Window(idle=timedelta(milliseconds=35), most=200)
"""EC2 would take more; but the claims' names must fit in the tags of one instance."""
LOOKS: Final = Window(idle=timedelta(milliseconds=100))
ENDINGS: Final = Window(idle=timedelta(milliseconds=100))


class _Batch(Generic[Item, Answer]):
    """Those who wait for the same call."""

    def __init__(self, since: datetime) -> None:
        self.since = since
        self.items: list[Item] = []
        self.waiting: list[asyncio.Future[Answer]] = []
        self.closing: Timer | None = None
        self.at_latest: Timer | None = None


class Batcher(Generic[Key, Item, Answer]):
    """Gathers items under keys and has each gathering handled at once.

    ``handle`` returns one answer or error for each item, in their order; what it
    raises, all of them get.
    """

    def __init__(
        self,
        handle: Callable[[Key, Sequence[Item]], Awaitable[Sequence[Answer | Exception]]],
        *,
        window: Window,
        loop: Loop,
        name: str = "",
        metrics: Metrics = UNTOLD,
    ) -> None:
        """``name`` is what metrics call it."""
        self._name = name
        self._metrics = metrics
        self._handle = handle
        self._window = window
        self._loop = loop
        self._open: dict[Key, _Batch[Item, Answer]] = {}

    async def ask(self, key: Key, item: Item) -> Answer:
        """Join those who ask under the same key, and return the answer for this item."""
        batch = self._open.get(key)
        if batch is None:
            batch = self._open[key] = _Batch(self._loop.now())
            batch.at_latest = self._loop.at(
                self._loop.now() + self._window.longest, lambda: self._close(key, batch)
            )
        batch.items.append(item)
        answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        batch.waiting.append(answer)
        if len(batch.items) >= self._window.most:
            self._close(key, batch)
        else:
            self._wait_a_little(key, batch)
        return await answer

    def _wait_a_little(self, key: Key, batch: _Batch[Item, Answer]) -> None:
        if batch.closing is not None:
            batch.closing.cancel()
        batch.closing = self._loop.at(
            self._loop.now() + self._window.idle, lambda: self._close(key, batch)
        )

    def _close(self, key: Key, batch: _Batch[Item, Answer]) -> None:
        for timer in (batch.closing, batch.at_latest):
            if timer is not None:
                timer.cancel()
        if self._open.get(key) is batch:
            del self._open[key]
            waited = (self._loop.now() - batch.since).total_seconds()
            for what, value in (("size", len(batch.items)), ("time_seconds", waited)):
                self._metrics.observe(
                    f"karpenter_cloudprovider_batcher_batch_{what}", value, batcher=self._name
                )
            self._loop.spawn(self._serve(key, batch))

    async def _serve(self, key: Key, batch: _Batch[Item, Answer]) -> None:
        answers: Sequence[Answer | Exception]
        try:
            answers = await self._handle(key, batch.items)
        except Exception as error:  # noqa: BLE001 - handed to those who wait
            answers = [error] * len(batch.items)
        for waiting, answer in zip(batch.waiting, answers, strict=True):
            # Whoever was cancelled meanwhile waits no longer.
            if waiting.done():
                continue
            if isinstance(answer, Exception):
                waiting.set_exception(answer)
            else:
                waiting.set_result(answer)
