"""Runs the virtual clock at the speed of a real clock."""

import asyncio
from collections.abc import Callable, Generator
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any, Final

from dovetail.simulator.clock import VirtualClock

MAX_SLEEP: Final = 0.05
"""Seconds: the longest time between two updates of the virtual clock."""


class RealTimeRunner:
    """Runs a virtual clock ``speed`` times as fast as a real one.

    ``scenario_steps`` are the steps of a scenario runner, which advances the virtual
    clock itself. After its last step the clock runs on.
    """

    def __init__(
        self,
        virtual_clock: VirtualClock,
        *,
        speed: float,
        clock: Callable[[], float],
        scenario_steps: Generator[datetime, None, Any] | None = None,
    ) -> None:
        self._virtual_clock = virtual_clock
        self._speed = speed
        self._clock = clock
        self._scenario_steps = scenario_steps
        self._started = clock()
        self._origin = virtual_clock.now()
        self._woken = asyncio.Event()

    def wake(self) -> None:
        """Run what is due now instead of after the current sleep."""
        self._woken.set()

    def catch_up(self) -> None:
        """Run everything that is due by now."""
        elapsed = (self._clock() - self._started) * self._speed
        now = self._origin + timedelta(seconds=elapsed)
        while self._scenario_steps is not None and self._virtual_clock.now() < now:
            try:
                next(self._scenario_steps)
            except StopIteration:
                self._scenario_steps = None
        if self._virtual_clock.now() < now:
            self._virtual_clock.run(until=now)

    async def run(self, stop: asyncio.Event) -> None:
        """Follow the real clock until ``stop`` is set."""
        while not stop.is_set():
            self._woken.clear()
            self.catch_up()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._woken.wait(), self._delay())

    def _delay(self) -> float:
        due = self._virtual_clock.next_due()
        if due is None:
            return MAX_SLEEP
        delay = (due - self._virtual_clock.now()).total_seconds() / self._speed
        return min(MAX_SLEEP, max(0.0, delay))
