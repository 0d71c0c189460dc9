"""Virtual clock: a priority queue of callbacks, ordered by time.

Time stands still while a callback runs and then jumps to the next one. The
queue is a heap keyed (time, priority, sequence), so equal runs have equal order.
"""

from collections.abc import Callable
from datetime import datetime, timedelta
from heapq import heappop, heappush
from itertools import count


class ScheduledCall:
    """A callback scheduled for a virtual time, which can still be cancelled."""

    __slots__ = ("_callback", "at")

    def __init__(self, at: datetime, callback: Callable[[], None]) -> None:
        self.at = at
        self._callback: Callable[[], None] | None = callback

    def cancel(self) -> None:
        """Cancel the call; does nothing if it has already run."""
        self._callback = None

    def run(self) -> None:
        """Run the callback, at most once."""
        callback, self._callback = self._callback, None
        if callback is not None:
            callback()

    @property
    def is_pending(self) -> bool:
        """True until the call runs or is cancelled."""
        return self._callback is not None


class VirtualClock:
    """Virtual time, advanced from one scheduled call to the next."""

    def __init__(self, *, start: datetime) -> None:
        self._now = start
        self.on_error: Callable[[Exception], None] | None = None
        """Called with the exception of a callback, which otherwise ends the run."""
        self._heap: list[tuple[datetime, int, int, ScheduledCall]] = []
        self._sequence = count()

    def now(self) -> datetime:
        return self._now

    def call_at(self, moment: datetime, callback: Callable[[], None], *, priority: int = 0) -> ScheduledCall:
        """Schedule ``callback``; ties run by priority, then in the order scheduled."""
        if moment < self._now:
            raise ValueError(f"{moment} has passed; it is {self._now}")
        call = ScheduledCall(moment, callback)
        heappush(self._heap, (moment, priority, next(self._sequence), call))
        return call

    def call_later(
        self, delay: timedelta, callback: Callable[[], None], *, priority: int = 0
    ) -> ScheduledCall:
        """Schedule ``callback`` after a delay."""
        return self.call_at(self.now() + delay, callback, priority=priority)

    def next_due(self) -> datetime | None:
        """Return the time of the next call; None if nothing is scheduled."""
        while self._heap and not self._heap[0][3].is_pending:
            heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def step(self) -> bool:
        """Advance to the next call and run it; return False if there is none."""
        if self.next_due() is None:
            return False
        self._now, _, _, call = heappop(self._heap)
        self._run(call)
        return True

    def run(self, *, until: datetime) -> None:
        """Run every call up to and including ``until``, then set the clock to it."""
        if until < self._now:
            raise ValueError(f"{until} has passed; it is {self._now}")
        heap = self._heap
        while heap and heap[0][0] <= until:
            moment, _, _, call = heappop(heap)
            if call.is_pending:
                self._now = moment
                self._run(call)
        self._now = until

    def _run(self, call: ScheduledCall) -> None:
        if self.on_error is None:
            call.run()
            return
        try:
            call.run()
        except Exception as error:  # noqa: BLE001 - the owner of the clock decides
            self.on_error(error)
