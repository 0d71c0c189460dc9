"""The controllers' loop on virtual time, and what is left of a process that is killed."""

import gc
from datetime import timedelta

from dovetail.simulator.clock import Engine
from dovetail.simulator.event_loop import VirtualLoop
from tests.support.cluster import START

SECOND = timedelta(seconds=1)


class Place:
    """An engine, a loop on it, and what came to pass."""

    def __init__(self) -> None:
        self.engine = Engine(start=START)
        self.loop = VirtualLoop(self.engine)
        self.done: list[str] = []

    def wait(self, seconds: float) -> None:
        self.engine.run(until=self.engine.now() + timedelta(seconds=seconds))

    async def work(self, name: str, seconds: float = 1) -> str:
        await self.loop.sleep(timedelta(seconds=seconds))
        self.done.append(name)
        return name

    async def fail(self) -> str:
        await self.loop.sleep(SECOND)
        raise ValueError("no")

    async def all_of(self, *names: str) -> None:
        await self.loop.together([self.work(name) for name in names])
        self.done.append("all")

    async def die_and_go_on(self) -> str:
        self.loop.stop()
        await self.loop.sleep(timedelta())
        self.done.append("a ghost")
        return ""


def test_what_is_started_goes_on_beside_what_started_it() -> None:
    place = Place()

    place.loop.spawn(place.work("slow", 2))
    place.loop.spawn(place.work("quick", 1))
    place.wait(2)

    assert place.done == ["quick", "slow"]


def test_what_is_done_together_returns_results_and_errors_in_order() -> None:
    place = Place()
    found: list[str | Exception] = []

    async def both() -> None:
        found.extend(await place.loop.together([place.work("late", 3), place.fail()]))

    place.loop.spawn(both())
    place.wait(3)

    assert found[0] == "late"
    assert isinstance(found[1], ValueError)


def test_nothing_together_is_done_at_once() -> None:
    place = Place()

    place.loop.spawn(place.all_of())

    assert place.done == ["all"]


def test_a_killed_process_takes_no_further_step() -> None:
    place = Place()
    place.loop.spawn(place.all_of("one", "two"))
    place.loop.spawn(place.work("three"))
    place.loop.at(START + SECOND, lambda: place.done.append("timer"))

    place.loop.stop()
    place.wait(10)
    gc.collect()

    assert place.done == []


def test_a_process_that_dies_in_the_middle_of_its_work_takes_the_rest_of_it_along() -> None:
    place = Place()

    async def several() -> None:
        await place.loop.together([place.die_and_go_on(), place.work("never begun")])
        place.done.append("another ghost")

    place.loop.spawn(several())
    place.wait(10)
    gc.collect()

    assert place.done == []
