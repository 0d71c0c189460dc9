"""Event loop on virtual time: runs coroutines without asyncio.

Implements ``ports.event_loop.EventLoop``. Coroutines wait on ``VirtualFuture``;
callbacks of the ``VirtualClock`` resume them::

    VirtualClock -- callback --> VirtualFuture.set_done --> task.step
         ^                                                      |
         +------------------ sleep, call_at <-------------------+

All tasks of one loop belong to one simulated process, which can be killed.
"""

from collections.abc import Awaitable, Callable, Coroutine, Generator, Sequence
from datetime import datetime, timedelta
from typing import Any, Generic, TypeVar

from dovetail.ports.event_loop import Timer
from dovetail.simulator.clock import ScheduledCall, VirtualClock

T = TypeVar("T")


class VirtualFuture:
    """Awaitable that suspends a coroutine until ``set_done``."""

    __slots__ = ("_callback", "_done")

    def __init__(self) -> None:
        self._done = False
        self._callback: Callable[[], None] | None = None

    def __await__(self) -> Generator["VirtualFuture", None, None]:
        if not self._done:
            yield self

    def set_done(self) -> None:
        """Resume the waiting coroutine at once."""
        self._done = True
        if self._callback is not None:
            self._callback()

    def set_callback(self, callback: Callable[[], None]) -> None:
        self._callback = callback


class _Process:
    """Tasks that wait and timers that are not due; they end when it is killed."""

    def __init__(self) -> None:
        self.killed = False
        self.tasks: dict[_Task[Any], None] = {}
        self.timers: set[_ProcessTimer] = set()

    def kill(self) -> None:
        self.killed = True
        for task in tuple(self.tasks):
            task.close()
        # The clock would keep the callbacks, and all that they refer to, until they are due.
        for timer in tuple(self.timers):
            timer.cancel()


class _ProcessTimer:
    """A timer that does not outlive its process."""

    __slots__ = ("_call", "_callback", "_process")

    def __init__(self, callback: Callable[[], None], process: _Process) -> None:
        self._callback = callback
        self._process = process
        self._call: ScheduledCall | None = None

    def schedule(self, clock: VirtualClock, moment: datetime) -> None:
        self._call = clock.call_at(moment, self._run)
        self._process.timers.add(self)

    def cancel(self) -> None:
        self._process.timers.discard(self)
        if self._call is not None:
            self._call.cancel()

    def _run(self) -> None:
        self._process.timers.discard(self)
        self._callback()


class _Task(Generic[T]):
    """A coroutine, driven from one future to the next while its process lives."""

    def __init__(self, work: Awaitable[T], on_done: Callable[["_Task[T]"], None], process: _Process) -> None:
        self._steps: Generator[VirtualFuture, None, T] = work.__await__()
        self._on_done = on_done
        self._process = process
        self._running = False
        self.outcome: T | Exception

    def step(self) -> None:
        if self._process.killed:
            # The future that resumes the task does not know that its process died.
            self.close()
            return
        self._running = True
        try:
            future = self._steps.send(None)
        except StopIteration as stop:
            self._finish(stop.value)
        except Exception as error:  # noqa: BLE001 - re-raised where the task is awaited
            self._finish(error)
        else:
            self._running = False
            if self._process.killed:
                self.close()
            else:
                # Most coroutines end in their first step: only others need to be closed with the process.
                self._process.tasks[self] = None
                future.set_callback(self.step)

    def close(self) -> None:
        """Close the coroutine.

        Left to the garbage collector, coroutines that wait for each other would
        be closed in arbitrary order, and some of them raise warnings then.
        """
        if not self._running:
            self._process.tasks.pop(self, None)
            self._steps.close()

    def _finish(self, outcome: T | Exception) -> None:
        self._process.tasks.pop(self, None)
        self.outcome = outcome
        self._on_done(self)


class VirtualEventLoop:
    """``ports.event_loop.EventLoop`` on a virtual clock; one per simulated process."""

    def __init__(self, clock: VirtualClock) -> None:
        self._clock = clock
        self._process = _Process()
        self.now = clock.now

    def call_at(self, moment: datetime, callback: Callable[[], None]) -> Timer:
        timer = _ProcessTimer(callback, self._process)
        if not self._process.killed:
            timer.schedule(self._clock, max(moment, self.now()))
        return timer

    def spawn(self, coroutine: Coroutine[Any, Any, None]) -> None:
        _Task(coroutine, _raise_if_failed, self._process).step()

    async def sleep(self, delay: timedelta) -> None:
        future = VirtualFuture()
        self.call_at(self.now() + delay, future.set_done)
        await future

    async def gather(self, awaitables: Sequence[Awaitable[T]]) -> list[T | Exception]:
        remaining = len(awaitables)
        all_done = VirtualFuture()

        def count_down(_: "_Task[T]") -> None:
            nonlocal remaining
            remaining -= 1
            if remaining == 0:
                all_done.set_done()

        tasks = [_Task(awaitable, count_down, self._process) for awaitable in awaitables]
        for task in tasks:
            task.step()
        if tasks:
            await all_done
        return [task.outcome for task in tasks]

    def stop(self) -> None:
        """Kill the process: no task or timer started here continues."""
        self._process.kill()


def _raise_if_failed(task: _Task[None]) -> None:
    if isinstance(task.outcome, Exception):
        raise task.outcome
