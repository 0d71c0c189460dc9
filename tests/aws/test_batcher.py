"""Who asks for the same at the same time shares a call."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta

import pytest

from dovetail.aws.batcher import Batcher, Window
from dovetail.host.event_loop import AsyncioLoop

QUICK = Window(idle=timedelta(milliseconds=20), longest=timedelta(milliseconds=80), most=5)


class Kitchen:
    """Doubles numbers, a plate at a time, and remembers the plates."""

    def __init__(self, window: Window = QUICK) -> None:
        self.loop = AsyncioLoop()
        self.plates: list[tuple[str, list[int]]] = []
        self.batcher: Batcher[str, int, int] = Batcher(self._cook, window=window, loop=self.loop)

    async def _cook(self, key: str, items: Sequence[int]) -> Sequence[int | Exception]:
        self.plates.append((key, list(items)))
        if key == "fire":
            raise ValueError("burnt")
        return [ValueError("odd") if item % 2 else 2 * item for item in items]


def run(work: Callable[[Kitchen], Awaitable[None]]) -> None:
    async def cook() -> None:
        await work(Kitchen())

    asyncio.run(cook())


def test_those_under_one_key_share_a_call_and_each_gets_its_own_answer() -> None:
    async def work(kitchen: Kitchen) -> None:
        ask = kitchen.batcher.ask

        answers = await asyncio.gather(ask("a", 2), ask("b", 4), ask("a", 6))

        assert answers == [4, 8, 12]
        assert sorted(kitchen.plates) == [("a", [2, 6]), ("b", [4])]

    run(work)


def test_an_error_reaches_only_the_one_it_is_for() -> None:
    async def work(kitchen: Kitchen) -> None:
        good, bad = await kitchen.loop.together(
            [kitchen.batcher.ask("a", 2), kitchen.batcher.ask("a", 3)]
        )

        assert good == 4
        assert isinstance(bad, ValueError)

    run(work)


def test_what_the_call_raises_all_of_them_get() -> None:
    async def work(kitchen: Kitchen) -> None:
        outcomes = await kitchen.loop.together(
            [kitchen.batcher.ask("fire", number) for number in range(3)]
        )

        assert [str(one) for one in outcomes] == ["burnt"] * 3

    run(work)


def test_a_full_batch_goes_at_once_and_the_rest_follows() -> None:
    async def work(kitchen: Kitchen) -> None:
        await asyncio.gather(*(kitchen.batcher.ask("a", 2 * number) for number in range(7)))

        assert [len(items) for _, items in kitchen.plates] == [5, 2]

    run(work)


def test_a_trickle_that_never_ends_is_served_after_the_longest_wait() -> None:
    async def work(kitchen: Kitchen) -> None:
        asked = []
        for number in range(12):
            asked.append(asyncio.ensure_future(kitchen.batcher.ask("a", 2 * number)))
            await asyncio.sleep(0.01)
        await asyncio.gather(*asked)

        assert len(kitchen.plates) >= 2

    # Never full: only the longest wait can have closed the first batch.
    async def cook() -> None:
        patient = Window(idle=QUICK.idle, longest=timedelta(milliseconds=60))
        await work(Kitchen(patient))

    asyncio.run(cook())


def test_who_was_cancelled_does_not_disturb_the_others() -> None:
    async def work(kitchen: Kitchen) -> None:
        leaving = asyncio.ensure_future(kitchen.batcher.ask("a", 2))
        staying = asyncio.ensure_future(kitchen.batcher.ask("a", 4))
        await asyncio.sleep(0)
        leaving.cancel()

        assert await staying == 8
        with pytest.raises(asyncio.CancelledError):
            await leaving

    run(work)
