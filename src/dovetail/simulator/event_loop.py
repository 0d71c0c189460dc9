"""The controllers' loop on virtual time: coroutines without an event loop."""

from collections.abc import Awaitable, Callable, Coroutine, Generator, Sequence
from datetime import datetime, timedelta
from typing import Any, Generic, TypeVar

from dovetail.ports.event_loop import Timer
from dovetail.simulator.clock import Engine

T = TypeVar("T")


class Pause:
    """What a coroutine on virtual time waits for."""

    __slots__ = ("_done", "_resume")

    def __init__(self) -> None:
        self._done = False
        self._resume: Callable[[], None] | None = None

    def __await__(self) -> Generator["Pause", None, None]:
        if not self._done:
            yield self

    def end(self) -> None:
        """Let whoever waits go on, at once."""
        self._done = True
        if self._resume is not None:
            self._resume()

    def then(self, resume: Callable[[], None]) -> None:
        self._resume = resume


class _Process:
    """What was started and has not ended."""

    def __init__(self) -> None:
        self.dead = False
        self.jobs: dict[_Job[Any], None] = {}

    def die(self) -> None:
        self.dead = True
        for job in tuple(self.jobs):
            job.end()


class _Job(Generic[T]):
    """One coroutine, driven from pause to pause as long as its process lives."""

    def __init__(
        self, work: Awaitable[T], done: Callable[["_Job[T]"], None], process: _Process
    ) -> None:
        self._steps: Generator[Pause, None, T] = work.__await__()
        self._done = done
        self._process = process
        self._running = False
        self.outcome: T | Exception
        process.jobs[self] = None

    def go_on(self) -> None:
        if self._process.dead:
            # Whoever wakes it does not know that.
            self.end()
            return
        self._running = True
        try:
            pause = self._steps.send(None)
        except StopIteration as stop:
            self._finish(stop.value)
        except Exception as error:  # noqa: BLE001 - handed to whoever waits for the job
            self._finish(error)
        else:
            self._running = False
            if self._process.dead:
                self.end()
            else:
                pause.then(self.go_on)

    def end(self) -> None:
        """Take no further step.

        Left to the collector of garbage, coroutines that wait for each other
        would be closed in any order, which some of them complain about.
        """
        if not self._running:
            self._process.jobs.pop(self, None)
            self._steps.close()

    def _finish(self, outcome: T | Exception) -> None:
        self._process.jobs.pop(self, None)
        self.outcome = outcome
        self._done(self)


class VirtualLoop:
    """``ports.event_loop.Loop`` on an engine."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._process = _Process()

    def now(self) -> datetime:
        return self._engine.now()

    def at(self, moment: datetime, happen: Callable[[], None]) -> Timer:
        def unless_dead() -> None:
            if not self._process.dead:
                happen()

        return self._engine.at(max(moment, self._engine.now()), unless_dead)

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        _Job(work, _raise_if_failed, self._process).go_on()

    async def sleep(self, delay: timedelta) -> None:
        pause = Pause()
        self.at(self.now() + delay, pause.end)
        await pause

    async def together(self, works: Sequence[Awaitable[T]]) -> list[T | Exception]:
        left = len(works)
        all_done = Pause()

        def one_done(_: "_Job[T]") -> None:
            nonlocal left
            left -= 1
            if left == 0:
                all_done.end()

        jobs = [_Job(work, one_done, self._process) for work in works]
        for job in jobs:
            job.go_on()
        if jobs:
            await all_done
        return [job.outcome for job in jobs]

    def stop(self) -> None:
        """Let nothing that was started here go on: the process is dead."""
        self._process.die()


def _raise_if_failed(job: _Job[None]) -> None:
    if isinstance(job.outcome, Exception):
        raise job.outcome
