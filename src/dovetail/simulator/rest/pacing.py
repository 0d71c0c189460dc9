"""Virtual time at the pace of a real clock, for people who look on."""

import asyncio
from collections.abc import Callable, Generator
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any, Final

from dovetail.simulator.clock import Engine

FRESH: Final = 0.05
"""Seconds after which virtual time is brought up to date at the latest."""


class Pace:
    """Lets an engine run ``speed`` virtual seconds a real second.

    ``story`` is a driver's steps: it moves the engine itself, and when it has
    ended time simply goes on.
    """

    def __init__(
        self,
        engine: Engine,
        *,
        speed: float,
        clock: Callable[[], float],
        story: Generator[datetime, None, Any] | None = None,
    ) -> None:
        self._engine = engine
        self._speed = speed
        self._clock = clock
        self._story = story
        self._started = clock()
        self._origin = engine.now()
        self._woken = asyncio.Event()

    def wake(self) -> None:
        """Let what has just been asked for happen now, not at the next look."""
        self._woken.set()

    def catch_up(self) -> None:
        """Let everything happen that is due by now."""
        passed = (self._clock() - self._started) * self._speed
        now = self._origin + timedelta(seconds=passed)
        while self._story is not None and self._engine.now() < now:
            try:
                next(self._story)
            except StopIteration:
                self._story = None
        if self._engine.now() < now:
            self._engine.run(until=now)

    async def run(self, stop: asyncio.Event) -> None:
        """Keep up with the clock until told to stop."""
        while not stop.is_set():
            self._woken.clear()
            self.catch_up()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._woken.wait(), self._delay())

    def _delay(self) -> float:
        due = self._engine.next_at()
        if due is None:
            return FRESH
        ahead = (due - self._engine.now()).total_seconds() / self._speed
        return min(FRESH, max(0.0, ahead))
