"""Event loop on virtual time, and tasks of a killed process."""

import gc
import weakref
from datetime import timedelta

from dovetail.simulator.clock import VirtualClock
from dovetail.simulator.event_loop import VirtualEventLoop
from tests.support.simulator.api_server import START

SECOND = timedelta(seconds=1)


class Referent:
    """Something that a callback refers to."""

    def act(self) -> None: ...


class LoopHarness:
    """A clock, an event loop on it, and a log of what ran."""

    def __init__(self) -> None:
        self.clock = VirtualClock(start=START)
        self.loop = VirtualEventLoop(self.clock)
        self.done: list[str] = []

    def wait(self, seconds: float) -> None:
        self.clock.run(until=self.clock.now() + timedelta(seconds=seconds))

    async def work(self, name: str, seconds: float = 1) -> str:
        await self.loop.sleep(timedelta(seconds=seconds))
        self.done.append(name)
        return name

    async def fail(self) -> str:
        await self.loop.sleep(SECOND)
        raise ValueError("no")

    async def all_of(self, *names: str) -> None:
        await self.loop.gather([self.work(name) for name in names])
        self.done.append("all")

    async def die_and_go_on(self) -> str:
        self.loop.stop()
        await self.loop.sleep(timedelta())
        self.done.append("a ghost")
        return ""


def test_a_spawned_task_runs_beside_its_caller() -> None:
    harness = LoopHarness()

    harness.loop.spawn(harness.work("slow", 2))
    harness.loop.spawn(harness.work("quick", 1))
    harness.wait(2)

    assert harness.done == ["quick", "slow"]


def test_gather_returns_results_and_errors_in_order() -> None:
    harness = LoopHarness()
    outcomes: list[str | Exception] = []

    async def both() -> None:
        outcomes.extend(await harness.loop.gather([harness.work("late", 3), harness.fail()]))

    harness.loop.spawn(both())
    harness.wait(3)

    assert outcomes[0] == "late"
    assert isinstance(outcomes[1], ValueError)


def test_gather_of_nothing_returns_at_once() -> None:
    harness = LoopHarness()

    harness.loop.spawn(harness.all_of())

    assert harness.done == ["all"]


def test_tasks_of_a_killed_process_take_no_further_step() -> None:
    harness = LoopHarness()
    harness.loop.spawn(harness.all_of("one", "two"))
    harness.loop.spawn(harness.work("three"))
    harness.loop.call_at(START + SECOND, lambda: harness.done.append("timer"))

    harness.loop.stop()
    harness.wait(10)
    gc.collect()

    assert harness.done == []


def test_a_process_killed_by_its_own_task_ends_all_of_its_tasks() -> None:
    harness = LoopHarness()

    async def several() -> None:
        await harness.loop.gather([harness.die_and_go_on(), harness.work("never begun")])
        harness.done.append("another ghost")

    harness.loop.spawn(several())
    harness.wait(10)
    gc.collect()

    assert harness.done == []


def test_a_killed_process_frees_what_its_timers_and_tasks_refer_to() -> None:
    harness = LoopHarness()
    kept, waited_for, cancelled = Referent(), Referent(), Referent()
    referents = [weakref.ref(referent) for referent in (kept, waited_for, cancelled)]

    async def wait_with(referent: Referent) -> None:
        await harness.loop.sleep(timedelta(days=1))
        referent.act()

    harness.loop.call_at(START + timedelta(days=1), kept.act)
    harness.loop.spawn(wait_with(waited_for))
    harness.loop.call_at(START + timedelta(days=1), cancelled.act).cancel()
    del kept, waited_for, cancelled

    harness.loop.stop()
    gc.collect()

    assert [referent() for referent in referents] == [None, None, None]
    assert harness.clock.next_due() is None


def test_a_killed_process_schedules_nothing_more() -> None:
    harness = LoopHarness()
    harness.loop.stop()

    timer = harness.loop.call_at(START + SECOND, lambda: harness.done.append("timer"))
    harness.wait(10)
    timer.cancel()

    assert harness.done == []
