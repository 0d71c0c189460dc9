"""Virtual time at the pace of a clock: exactly as fast, and at once where somebody waits."""

import asyncio
from collections.abc import Generator
from datetime import datetime, timedelta

import pytest

from dovetail.simulator.clock import Engine
from dovetail.simulator.rest.pacing import FRESH, Pace
from dovetail.simulator.scenario.model import Phase, Until, Wait
from dovetail.simulator.scenario_runner import Driver
from tests.support.boxes import a_box, a_story, scaled
from tests.support.cluster import START

SECOND = timedelta(seconds=1)


class Clock:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.seconds = 1000.0

    def __call__(self) -> float:
        return self.seconds


class Paced:
    """An engine, its clock, and when things happened."""

    def __init__(self, *, speed: float = 1.0) -> None:
        self.engine = Engine(start=START)
        self.clock = Clock()
        self.happened: list[float] = []
        self.pace = Pace(self.engine, speed=speed, clock=self.clock)

    def arrange(self, after: float) -> None:
        self.engine.after(timedelta(seconds=after), self._note)

    def _note(self) -> None:
        self.happened.append((self.engine.now() - START).total_seconds())

    def catch_up(self, seconds: float) -> None:
        """Let real time pass, and virtual time follow."""
        self.clock.seconds += seconds
        self.pace.catch_up()


def test_an_engine_keeps_up_with_the_clock() -> None:
    paced = Paced()
    for after in (1, 2, 3):
        paced.arrange(after)

    paced.catch_up(2.5)

    assert paced.happened == [1, 2]
    assert paced.engine.now() == START + 2.5 * SECOND


@pytest.mark.parametrize("speed", [0.5, 1, 30, 1000])
def test_a_real_second_is_as_many_virtual_ones_as_the_speed_says(speed: float) -> None:
    paced = Paced(speed=speed)

    for _ in range(10):
        paced.catch_up(0.3)

    assert (paced.engine.now() - START).total_seconds() == pytest.approx(3 * speed)


def test_nothing_happens_before_its_time() -> None:
    paced = Paced(speed=10)
    paced.arrange(1)

    paced.catch_up(0.099)
    early = list(paced.happened)
    paced.catch_up(0.001)

    assert early == []
    assert paced.happened == [1]


def test_a_clock_that_stands_still_moves_nothing() -> None:
    paced = Paced()
    paced.arrange(1)

    for _ in range(3):
        paced.catch_up(0)

    assert paced.engine.now() == START


# Stories.


def story_of(engine: Engine, *moments: float) -> Generator[datetime, None, None]:
    for moment in moments:
        engine.run(until=START + moment * SECOND)
        yield engine.now()


def test_a_story_goes_no_further_than_the_clock_and_one_step() -> None:
    engine, clock = Engine(start=START), Clock()
    pace = Pace(engine, speed=1, clock=clock, story=story_of(engine, 1, 2, 3, 4))

    clock.seconds += 1.5
    pace.catch_up()

    assert engine.now() == START + 2 * SECOND


def test_time_goes_on_when_a_story_has_ended() -> None:
    engine, clock = Engine(start=START), Clock()
    pace = Pace(engine, speed=1, clock=clock, story=story_of(engine, 1))

    clock.seconds += 10
    pace.catch_up()
    clock.seconds += 10
    pace.catch_up()

    assert engine.now() == START + 20 * SECOND


def test_a_scenario_is_played_at_the_pace_of_the_clock() -> None:
    wait = Phase(name="wait", actions=(Wait(20 * SECOND),))
    up = Phase(name="up", actions=(scaled(1),), until=Until(running=1))
    story = a_story(wait, up)
    box, clock = a_box(story), Clock()
    driver = Driver(box, story)
    start = box.engine.now()
    pace = Pace(
        box.engine, speed=10, clock=clock, story=driver.steps(every=timedelta(seconds=FRESH * 10))
    )

    phases = []
    for _ in range(40):
        clock.seconds += 0.1
        pace.catch_up()
        virtual = (box.engine.now() - start).total_seconds()
        assert -1e-6 <= virtual - 10 * (clock.seconds - 1000) <= FRESH * 10 + 1e-6
        assert driver.phase is not None
        phases.append(driver.phase.name)

    assert phases.count("wait") in (19, 20)  # A story may be one step ahead.
    assert box.chronicle.running == 1


# Running.


async def a_moment() -> None:
    """Let whatever is due in the loop happen, without time passing."""
    for _ in range(10):
        await asyncio.sleep(0)


def test_what_is_asked_for_happens_when_woken_and_not_at_the_next_look() -> None:
    paced = Paced()

    async def ask() -> tuple[list[float], list[float]]:
        stop = asyncio.Event()
        running = asyncio.create_task(paced.pace.run(stop))
        await a_moment()
        paced.arrange(0)
        paced.clock.seconds += 0.001
        await a_moment()
        unasked = list(paced.happened)
        paced.pace.wake()
        await a_moment()
        asked = list(paced.happened)
        stop.set()
        paced.pace.wake()
        await running
        return unasked, asked

    unasked, asked = asyncio.run(ask())

    assert (unasked, asked) == ([], [0])


def test_it_looks_by_itself_and_stops_when_told() -> None:
    paced = Paced(speed=100)
    paced.arrange(1)

    async def look() -> None:
        stop = asyncio.Event()
        running = asyncio.create_task(paced.pace.run(stop))
        paced.clock.seconds += 1
        while not paced.happened:
            await asyncio.sleep(0.001)
        stop.set()
        await asyncio.wait_for(running, 10)

    asyncio.run(asyncio.wait_for(look(), 10))

    assert paced.happened == [1]
