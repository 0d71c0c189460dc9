"""The virtual clock at the speed of a real clock, and wake-ups after writes."""

import asyncio
from collections.abc import Generator
from datetime import datetime, timedelta

import pytest

from dovetail.simulator.clock import VirtualClock
from dovetail.simulator.rest.real_time import MAX_SLEEP, RealTimeRunner
from dovetail.simulator.scenario.model import Phase, Until, Wait
from dovetail.simulator.scenario_runner import ScenarioRunner
from tests.support.simulator.api_server import START
from tests.support.simulator.clusters import build_cluster, build_scenario, scaled

SECOND = timedelta(seconds=1)


class Clock:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.seconds = 1000.0

    def __call__(self) -> float:
        return self.seconds


class RunnerHarness:
    """A virtual clock, its real clock, and the times at which timers fired."""

    def __init__(self, *, speed: float = 1.0) -> None:
        self.virtual_clock = VirtualClock(start=START)
        self.clock = Clock()
        self.fired_at: list[float] = []
        self.runner = RealTimeRunner(self.virtual_clock, speed=speed, clock=self.clock)

    def set_timer(self, after: float) -> None:
        self.virtual_clock.call_later(timedelta(seconds=after), self._record)

    def _record(self) -> None:
        self.fired_at.append((self.virtual_clock.now() - START).total_seconds())

    def catch_up(self, seconds: float) -> None:
        """Advance the real clock, and the virtual clock with it."""
        self.clock.seconds += seconds
        self.runner.catch_up()


def test_the_virtual_clock_follows_the_real_clock() -> None:
    harness = RunnerHarness()
    for after in (1, 2, 3):
        harness.set_timer(after)

    harness.catch_up(2.5)

    assert harness.fired_at == [1, 2]
    assert harness.virtual_clock.now() == START + 2.5 * SECOND


@pytest.mark.parametrize("speed", [0.5, 1, 30, 1000])
def test_the_speed_is_the_number_of_virtual_seconds_per_second(speed: float) -> None:
    harness = RunnerHarness(speed=speed)

    for _ in range(10):
        harness.catch_up(0.3)

    assert (harness.virtual_clock.now() - START).total_seconds() == pytest.approx(3 * speed)


def test_no_timer_fires_early() -> None:
    harness = RunnerHarness(speed=10)
    harness.set_timer(1)

    harness.catch_up(0.099)
    early = list(harness.fired_at)
    harness.catch_up(0.001)

    assert early == []
    assert harness.fired_at == [1]


def test_a_stopped_clock_advances_nothing() -> None:
    harness = RunnerHarness()
    harness.set_timer(1)

    for _ in range(3):
        harness.catch_up(0)

    assert harness.virtual_clock.now() == START


# Scenarios.


def scenario_steps(virtual_clock: VirtualClock, *times: float) -> Generator[datetime, None, None]:
    for time in times:
        virtual_clock.run(until=START + time * SECOND)
        yield virtual_clock.now()


def test_a_scenario_is_at_most_one_step_ahead_of_the_clock() -> None:
    virtual_clock, clock = VirtualClock(start=START), Clock()
    runner = RealTimeRunner(
        virtual_clock, speed=1, clock=clock, scenario_steps=scenario_steps(virtual_clock, 1, 2, 3, 4)
    )

    clock.seconds += 1.5
    runner.catch_up()

    assert virtual_clock.now() == START + 2 * SECOND


def test_the_clock_runs_on_after_the_scenario() -> None:
    virtual_clock, clock = VirtualClock(start=START), Clock()
    runner = RealTimeRunner(
        virtual_clock, speed=1, clock=clock, scenario_steps=scenario_steps(virtual_clock, 1)
    )

    clock.seconds += 10
    runner.catch_up()
    clock.seconds += 10
    runner.catch_up()

    assert virtual_clock.now() == START + 20 * SECOND


def test_a_scenario_runs_at_the_speed_of_the_clock() -> None:
    wait = Phase(name="wait", actions=(Wait(20 * SECOND),))
    up = Phase(name="up", actions=(scaled(1),), until=Until(running=1))
    scenario = build_scenario(wait, up)
    cluster, clock = build_cluster(scenario), Clock()
    scenario_runner = ScenarioRunner(cluster, scenario)
    start = cluster.clock.now()
    runner = RealTimeRunner(
        cluster.clock,
        speed=10,
        clock=clock,
        scenario_steps=scenario_runner.steps(every=timedelta(seconds=MAX_SLEEP * 10)),
    )

    phases = []
    for _ in range(40):
        clock.seconds += 0.1
        runner.catch_up()
        virtual = (cluster.clock.now() - start).total_seconds()
        assert -1e-6 <= virtual - 10 * (clock.seconds - 1000) <= MAX_SLEEP * 10 + 1e-6
        assert scenario_runner.phase is not None
        phases.append(scenario_runner.phase.name)

    assert phases.count("wait") in (19, 20)  # A scenario may be one step ahead.
    assert cluster.recorder.running == 1


# Running.


async def run_due_callbacks() -> None:
    """Run the callbacks that are due in the event loop, without time passing."""
    for _ in range(10):
        await asyncio.sleep(0)


def test_wake_runs_due_timers_before_the_sleep_ends() -> None:
    harness = RunnerHarness()

    async def run() -> tuple[list[float], list[float]]:
        stop = asyncio.Event()
        running = asyncio.create_task(harness.runner.run(stop))
        await run_due_callbacks()
        harness.set_timer(0)
        harness.clock.seconds += 0.001
        await run_due_callbacks()
        before_wake = list(harness.fired_at)
        harness.runner.wake()
        await run_due_callbacks()
        after_wake = list(harness.fired_at)
        stop.set()
        harness.runner.wake()
        await running
        return before_wake, after_wake

    before_wake, after_wake = asyncio.run(run())

    assert (before_wake, after_wake) == ([], [0])


def test_it_runs_timers_until_it_is_stopped() -> None:
    harness = RunnerHarness(speed=100)
    harness.set_timer(1)

    async def run() -> None:
        stop = asyncio.Event()
        running = asyncio.create_task(harness.runner.run(stop))
        harness.clock.seconds += 1
        while not harness.fired_at:
            await asyncio.sleep(0.001)
        stop.set()
        await asyncio.wait_for(running, 10)

    asyncio.run(asyncio.wait_for(run(), 10))

    assert harness.fired_at == [1]
