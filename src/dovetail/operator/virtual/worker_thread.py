"""Worker thread: runs simulated kubelets in real time, where blocking is allowed."""

from collections import deque
from collections.abc import Callable
from datetime import datetime
from threading import Condition, Thread
from typing import Final

from dovetail.errors import DovetailError
from dovetail.ports.event_loop import Clock
from dovetail.ports.telemetry import Log
from dovetail.simulator.clock import ScheduledCall, VirtualClock

_MAX_WAIT: Final = 1.0
"""Seconds."""
_JOIN_TIMEOUT: Final = 0.5
"""Seconds."""


class RealTimeClock(VirtualClock):
    """Virtual clock that follows the real one: late calls run late."""

    def __init__(self, clock: Clock) -> None:
        super().__init__(start=clock.now())
        self._clock = clock

    def now(self) -> datetime:
        return self._clock.now()

    def call_at(self, moment: datetime, callback: Callable[[], None], *, priority: int = 0) -> ScheduledCall:
        """Schedule a call; one in the past runs as soon as possible."""
        return super().call_at(max(moment, self._now), callback, priority=priority)

    def step(self) -> bool:
        """Run the next call if it is due; return False if none is."""
        due = self.next_due()
        return due is not None and due <= self.now() and super().step()


class WorkerThread:
    """Runs scheduled calls and posted work sequentially in one thread.

    All state of kubelets belongs to that thread; other threads use ``post``.
    """

    def __init__(self, clock: Clock, *, log: Log) -> None:
        self.clock = RealTimeClock(clock)
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
        """Start nothing new."""
        self._is_stopped = True
        self.post(lambda: None)

    def join(self) -> None:
        """Wait for the thread to end, for a short time."""
        self._thread.join(_JOIN_TIMEOUT)

    def post(self, work: Callable[[], None]) -> None:
        """Run work in the thread, in the order of posting."""
        with self._changed:
            self._inbox.append(work)
            self._changed.notify()

    def _run(self) -> None:
        while not self._is_stopped:
            while self._inbox and not self._is_stopped:
                self._run_work(self._inbox.popleft())
            has_run = True
            # Posted watch events come first: they may cancel what is due.
            while has_run and not self._inbox and not self._is_stopped:
                has_run = self._step()
            self._wait()

    def _step(self) -> bool:
        try:
            return self.clock.step()
        except DovetailError as error:
            self._log_error(error)
            return True

    def _run_work(self, work: Callable[[], None]) -> None:
        try:
            work()
        except DovetailError as error:
            self._log_error(error)

    def _log_error(self, error: DovetailError) -> None:
        if not self._is_stopped:
            self._log.error("virtual kubelet failed", error=str(error))

    def _wait(self) -> None:
        due = self.clock.next_due()
        seconds = _MAX_WAIT
        if due is not None:
            seconds = min(seconds, (due - self.clock.now()).total_seconds())
        with self._changed:
            if not self._inbox and seconds > 0:
                self._changed.wait(seconds)
