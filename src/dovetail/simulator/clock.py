"""Virtual time: a heap of events keyed (time, priority, sequence)."""

from collections.abc import Callable
from datetime import datetime, timedelta
from heapq import heappop, heappush
from itertools import count


class Appointment:
    """Something arranged for later that can still be called off."""

    __slots__ = ("_happen", "at")

    def __init__(self, at: datetime, happen: Callable[[], None]) -> None:
        self.at = at
        self._happen: Callable[[], None] | None = happen

    def cancel(self) -> None:
        """Call it off; harmless when it has already happened."""
        self._happen = None

    def keep(self) -> None:
        happen, self._happen = self._happen, None
        if happen is not None:
            happen()

    @property
    def is_due(self) -> bool:
        """Whether it is still to happen."""
        return self._happen is not None


class Engine:
    """Moves virtual time from one event to the next."""

    def __init__(self, *, start: datetime) -> None:
        self._now = start
        self._heap: list[tuple[datetime, int, int, Appointment]] = []
        self._sequence = count()

    def now(self) -> datetime:
        return self._now

    def at(self, moment: datetime, happen: Callable[[], None], *, priority: int = 0) -> Appointment:
        """Arrange for ``happen``; ties run by priority, then in the order arranged."""
        if moment < self._now:
            raise ValueError(f"{moment} has passed; it is {self._now}")
        made = Appointment(moment, happen)
        heappush(self._heap, (moment, priority, next(self._sequence), made))
        return made

    def after(
        self, delay: timedelta, happen: Callable[[], None], *, priority: int = 0
    ) -> Appointment:
        """Arrange for ``happen`` a while from now."""
        return self.at(self._now + delay, happen, priority=priority)

    def next_at(self) -> datetime | None:
        """Tell when the next event is due; None when nothing is arranged."""
        while self._heap and not self._heap[0][3].is_due:
            heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def step(self) -> bool:
        """Let the next event happen; False when there is none."""
        if self.next_at() is None:
            return False
        self._now, _, _, appointment = heappop(self._heap)
        appointment.keep()
        return True

    def run(self, *, until: datetime) -> None:
        """Let everything up to and at ``until`` happen, and stop the clock there."""
        if until < self._now:
            raise ValueError(f"{until} has passed; it is {self._now}")
        while (due := self.next_at()) is not None and due <= until:
            self.step()
        self._now = until
