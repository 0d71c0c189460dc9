"""The real loop does what the simulated one does, in real time."""

import asyncio
from datetime import timedelta
from typing import Any

from dovetail.host.event_loop import AsyncioLoop

SOON = timedelta(milliseconds=10)


def test_things_arranged_happen_in_the_order_of_their_moments_and_not_when_called_off() -> None:
    async def run() -> list[str]:
        loop, seen = AsyncioLoop(), list[str]()
        loop.at(loop.now() + 2 * SOON, lambda: seen.append("later"))
        loop.at(loop.now() + SOON, lambda: seen.append("sooner"))
        loop.at(loop.now() - SOON, lambda: seen.append("at once"))
        loop.at(loop.now() + SOON, lambda: seen.append("never")).cancel()
        await loop.sleep(5 * SOON)
        return seen

    assert asyncio.run(run()) == ["at once", "sooner", "later"]


def test_together_returns_results_and_errors_in_the_order_given() -> None:
    async def one(delay: timedelta, loop: AsyncioLoop) -> str:
        await loop.sleep(delay)
        if delay:
            return "slow"
        raise ValueError("quick")

    async def run() -> list[Any]:
        loop = AsyncioLoop()
        return list(await loop.together([one(SOON, loop), one(0 * SOON, loop)]))

    slow, quick = asyncio.run(run())

    assert slow == "slow"
    assert isinstance(quick, ValueError)


def test_what_was_started_goes_on_beside_and_ends_with_the_loop() -> None:
    async def run() -> list[str]:
        loop, seen = AsyncioLoop(), list[str]()

        async def tick() -> None:
            while True:
                seen.append("tick")
                await loop.sleep(SOON)

        loop.spawn(tick())
        assert seen == []
        while len(seen) < 2:  # However busy the machine is.
            await loop.sleep(SOON)
        await loop.stop()
        ticked = len(seen)
        await loop.sleep(3 * SOON)
        return seen[ticked:]

    assert asyncio.run(run()) == []


def test_what_fails_beside_is_told_to_the_loops_own_handler() -> None:
    told: list[Any] = []

    async def fail() -> None:
        raise ValueError("lost otherwise")

    async def run() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context))
        loop = AsyncioLoop()
        loop.spawn(fail())
        await loop.sleep(SOON)

    asyncio.run(run())

    assert [str(one["exception"]) for one in told] == ["lost otherwise"]
