"""Time, and doing things in it: the one place where controllers wait."""

from collections.abc import Awaitable, Callable, Coroutine, Sequence
from datetime import datetime, timedelta
from typing import Any, Protocol, TypeVar

T = TypeVar("T")


class Timer(Protocol):
    """Something arranged for later."""

    def cancel(self) -> None:
        """Call it off; harmless when it has already happened."""


class Clock(Protocol):
    """Tells the time, in UTC."""

    def now(self) -> datetime: ...


class Loop(Clock, Protocol):
    """Runs what controllers start.

    The real one is an asyncio loop. The simulated one runs on virtual time, so
    code above the ports must wait through this port and never through asyncio.
    """

    def at(self, moment: datetime, happen: Callable[[], None]) -> Timer:
        """Arrange for ``happen``; a moment that has passed means as soon as possible."""

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Start something that goes on beside the caller; it handles its own errors."""

    async def sleep(self, delay: timedelta) -> None:
        """Come back after a while."""

    async def together(self, works: Sequence[Awaitable[T]]) -> list[T | Exception]:
        """Do all at once; return results and errors in the order given."""
