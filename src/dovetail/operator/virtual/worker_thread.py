"""Simulated actors at work in real time, in a thread of their own where waiting is allowed."""

from collections import deque
from collections.abc import Callable
from datetime import datetime, timedelta
from heapq import heappop, heappush
from itertools import count
from threading import Condition, Thread
from typing import Final

from dovetail.errors import DovetailError
from dovetail.ports.event_loop import Clock
from dovetail.ports.telemetry import Log
from dovetail.simulator.clock import Appointment, Engine

_LONGEST_NAP: Final = 1.0
_GOODBYE: Final = 0.5


class RealTimeEngine(Engine):
    """An engine whose clock is the real one: what is late happens late."""

    def __init__(self, clock: Clock) -> None:
        super().__init__(start=clock.now())
        self._clock = clock
        self._due: list[tuple[datetime, int, int, Appointment]] = []
        self._order = count()

    def now(self) -> datetime:
        return self._clock.now()

    def at(self, moment: datetime, happen: Callable[[], None], *, priority: int = 0) -> Appointment:
        """Arrange for ``happen``; a moment that has passed means as soon as possible."""
        made = Appointment(moment, happen)
        heappush(self._due, (moment, priority, next(self._order), made))
        return made

    def after(
        self, delay: timedelta, happen: Callable[[], None], *, priority: int = 0
    ) -> Appointment:
        return self.at(self.now() + delay, happen, priority=priority)

    def next_at(self) -> datetime | None:
        while self._due and not self._due[0][3].is_due:
            heappop(self._due)
        return self._due[0][0] if self._due else None

    def step(self) -> bool:
        """Let the next event happen if it is due by now."""
        due = self.next_at()
        if due is None or due > self.now():
            return False
        heappop(self._due)[3].keep()
        return True


class Pump:
    """Runs what is due, and what others ask for, one after the other in one thread.

    All that actors have belongs to that thread: whoever else wants something of
    them has it done there, with ``post``.
    """

    def __init__(self, clock: Clock, *, log: Log) -> None:
        self.engine = RealTimeEngine(clock)
        self._log = log
        self._inbox: deque[Callable[[], None]] = deque()
        self._changed = Condition()
        self._is_stopped = False
        self._thread = Thread(target=self._run, name="kubelets", daemon=True)

    @property
    def is_stopped(self) -> bool:
        return self._is_stopped

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Begin nothing more."""
        self._is_stopped = True
        self.post(lambda: None)

    def join(self) -> None:
        """Come back when the thread has ended, or soon."""
        self._thread.join(_GOODBYE)

    def post(self, work: Callable[[], None]) -> None:
        """Have something done in the thread, in the order posted."""
        with self._changed:
            self._inbox.append(work)
            self._changed.notify()

    def _run(self) -> None:
        while not self._is_stopped:
            while self._inbox and not self._is_stopped:
                self._do(self._inbox.popleft())
            moved = True
            # News goes first: what is due may have been overtaken by it.
            while moved and not self._inbox and not self._is_stopped:
                moved = self._step()
            self._nap()

    def _step(self) -> bool:
        try:
            return self.engine.step()
        except DovetailError as error:
            self._complain(error)
            return True

    def _do(self, work: Callable[[], None]) -> None:
        try:
            work()
        except DovetailError as error:
            self._complain(error)

    def _complain(self, error: DovetailError) -> None:
        if not self._is_stopped:
            self._log.error("a virtual kubelet failed to do something", error=str(error))

    def _nap(self) -> None:
        due = self.engine.next_at()
        seconds = _LONGEST_NAP
        if due is not None:
            seconds = min(seconds, (due - self.engine.now()).total_seconds())
        with self._changed:
            if not self._inbox and seconds > 0:
                self._changed.wait(seconds)
