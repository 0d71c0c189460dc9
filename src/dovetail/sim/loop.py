"""The controllers' loop on virtual time: coroutines without an event loop."""

from collections.abc import Awaitable, Callable, Coroutine, Generator, Sequence
from datetime import datetime, timedelta
from typing import Any, Generic, TypeVar

from dovetail.ports.loop import Timer
from dovetail.sim.engine import Engine

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


class _Job(Generic[T]):
    """One coroutine, driven from pause to pause."""

    def __init__(
        self, work: Awaitable[T], done: Callable[["_Job[T]"], None], *, alive: Callable[[], bool]
    ) -> None:
        # Not wrapped in a generator of ours: what a killed process left is collected from the
        # outside in, and a second thing to close would find the coroutine closing already.
        self._steps: Generator[Pause, None, T] = work.__await__()
        self._done = done
        self._alive = alive
        self._begun = False
        self.outcome: T | Exception

    def go_on(self) -> None:
        if not self._alive():
            # Whoever wakes it does not know that its process is dead.
            if not self._begun:
                self._steps.close()
            return
        self._begun = True
        try:
            pause = self._steps.send(None)
        except StopIteration as stop:
            self.outcome = stop.value
            self._done(self)
        except Exception as error:  # noqa: BLE001 - handed to whoever waits for the job
            self.outcome = error
            self._done(self)
        else:
            pause.then(self.go_on)


class VirtualLoop:
    """``ports.loop.Loop`` on an engine."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._stopped = False

    def now(self) -> datetime:
        return self._engine.now()

    def at(self, moment: datetime, happen: Callable[[], None]) -> Timer:
        def unless_stopped() -> None:
            if not self._stopped:
                happen()

        return self._engine.at(max(moment, self._engine.now()), unless_stopped)

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        _Job(work, _raise_if_failed, alive=self._is_alive).go_on()

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

        jobs = [_Job(work, one_done, alive=self._is_alive) for work in works]
        for job in jobs:
            job.go_on()
        if jobs:
            await all_done
        return [job.outcome for job in jobs]

    def stop(self) -> None:
        """Let nothing that was started here go on: the process is dead."""
        self._stopped = True

    def _is_alive(self) -> bool:
        return not self._stopped


def _raise_if_failed(job: _Job[None]) -> None:
    if isinstance(job.outcome, Exception):
        raise job.outcome
