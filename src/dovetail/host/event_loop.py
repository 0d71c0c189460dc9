"""The controllers' loop on real time."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

from dovetail.ports.event_loop import Timer

T = TypeVar("T")


class AsyncioLoop:
    """``ports.event_loop.Loop`` on the asyncio loop that runs while it is made."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._tasks: set[asyncio.Task[None]] = set()

    def now(self) -> datetime:
        return datetime.now(UTC)

    def at(self, moment: datetime, happen: Callable[[], None]) -> Timer:
        return self._loop.call_later(max(0.0, (moment - self.now()).total_seconds()), happen)

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        # asyncio itself keeps no hold on tasks: without ours they could vanish half-way.
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    async def sleep(self, delay: timedelta) -> None:
        await asyncio.sleep(delay.total_seconds())

    async def together(self, works: Sequence[Awaitable[T]]) -> list[T | Exception]:
        outcomes: list[T | Exception] = []
        for outcome in await asyncio.gather(*works, return_exceptions=True):
            if isinstance(outcome, BaseException) and not isinstance(outcome, Exception):
                raise outcome  # Cancelled, or the process is told to end.
            outcomes.append(outcome)
        return outcomes

    async def stop(self) -> None:
        """End what was started here, and come back when it has ended."""
        tasks = tuple(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._loop.call_exception_handler(
                {"message": "something started on the loop failed", "exception": error}
            )
