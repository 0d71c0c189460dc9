"""Event loop and clock: the only way in which controllers wait or read the time."""

from collections.abc import Awaitable, Callable, Coroutine, Sequence
from datetime import datetime, timedelta
from typing import Any, Protocol, TypeVar

T = TypeVar("T")


class Timer(Protocol):
    """A scheduled callback."""

    def cancel(self) -> None:
        """Cancel the callback; no effect if it has already run."""


class Clock(Protocol):
    """Current time in UTC."""

    def now(self) -> datetime: ...


class EventLoop(Clock, Protocol):
    """Runs coroutines and callbacks of the controllers.

    ``host.event_loop`` uses asyncio, ``simulator.event_loop`` virtual time. Code
    above the ports must wait through this port and never through asyncio.
    """

    def call_at(self, moment: datetime, callback: Callable[[], None]) -> Timer:
        """Schedule ``callback``; a time in the past means as soon as possible."""

    def spawn(self, coroutine: Coroutine[Any, Any, None]) -> None:
        """Run a coroutine in the background; it must handle its own errors."""

    async def sleep(self, delay: timedelta) -> None:
        """Wait for ``delay``."""

    async def gather(self, awaitables: Sequence[Awaitable[T]]) -> list[T | Exception]:
        """Run all concurrently; return results and exceptions in the order given."""
