"""Event loop of the controllers on asyncio."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

from dovetail.ports.event_loop import Timer

T = TypeVar("T")


class AsyncioEventLoop:
    """``ports.event_loop.EventLoop`` on the asyncio loop that is running."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._tasks: set[asyncio.Task[None]] = set()

    def now(self) -> datetime:
        return datetime.now(UTC)

    def call_at(self, moment: datetime, callback: Callable[[], None]) -> Timer:
        return self._loop.call_later(max(0.0, (moment - self.now()).total_seconds()), callback)

    def spawn(self, coroutine: Coroutine[Any, Any, None]) -> None:
        # asyncio keeps weak references only: without this one, a task may be collected.
        task = self._loop.create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._handle_done)

    async def sleep(self, delay: timedelta) -> None:
        await asyncio.sleep(delay.total_seconds())

    async def gather(self, awaitables: Sequence[Awaitable[T]]) -> list[T | Exception]:
        outcomes: list[T | Exception] = []
        for outcome in await asyncio.gather(*awaitables, return_exceptions=True):
            if isinstance(outcome, BaseException) and not isinstance(outcome, Exception):
                raise outcome  # Cancelled, or the process exits.
            outcomes.append(outcome)
        return outcomes

    async def stop(self) -> None:
        """Cancel all spawned tasks and wait for them."""
        tasks = tuple(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _handle_done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._loop.call_exception_handler({"message": "a spawned task failed", "exception": error})
