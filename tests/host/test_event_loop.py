"""The asyncio event loop behaves as the simulated one, in real time."""

import asyncio
from datetime import timedelta
from typing import Any

from dovetail.host.event_loop import AsyncioEventLoop

SOON = timedelta(milliseconds=10)


def test_timers_fire_in_order_and_not_after_cancellation() -> None:
    async def run() -> list[str]:
        loop, seen = AsyncioEventLoop(), list[str]()
        loop.call_at(loop.now() + 2 * SOON, lambda: seen.append("later"))
        loop.call_at(loop.now() + SOON, lambda: seen.append("sooner"))
        loop.call_at(loop.now() - SOON, lambda: seen.append("at once"))
        loop.call_at(loop.now() + SOON, lambda: seen.append("never")).cancel()
        await loop.sleep(5 * SOON)
        return seen

    assert asyncio.run(run()) == ["at once", "sooner", "later"]


def test_gather_returns_results_and_errors_in_order() -> None:
    async def wait(delay: timedelta, loop: AsyncioEventLoop) -> str:
        await loop.sleep(delay)
        if delay:
            return "slow"
        raise ValueError("quick")

    async def run() -> list[Any]:
        loop = AsyncioEventLoop()
        return list(await loop.gather([wait(SOON, loop), wait(0 * SOON, loop)]))

    slow, quick = asyncio.run(run())

    assert slow == "slow"
    assert isinstance(quick, ValueError)


def test_spawned_tasks_run_until_the_loop_stops() -> None:
    async def run() -> list[str]:
        loop, seen = AsyncioEventLoop(), list[str]()

        async def tick() -> None:
            while True:
                seen.append("tick")
                await loop.sleep(SOON)

        loop.spawn(tick())
        assert seen == []
        while len(seen) < 2:  # Independent of load.
            await loop.sleep(SOON)
        await loop.stop()
        ticked = len(seen)
        await loop.sleep(3 * SOON)
        return seen[ticked:]

    assert asyncio.run(run()) == []


def test_errors_of_spawned_tasks_reach_the_exception_handler() -> None:
    reported: list[Any] = []

    async def fail() -> None:
        raise ValueError("lost otherwise")

    async def run() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.append(context))
        loop = AsyncioEventLoop()
        loop.spawn(fail())
        await loop.sleep(SOON)

    asyncio.run(run())

    assert [str(context["exception"]) for context in reported] == ["lost otherwise"]
