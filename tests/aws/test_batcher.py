"""Batcher: concurrent requests share a call."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta

import pytest

from dovetail.aws.batcher import Batcher, BatchWindow
from dovetail.host.event_loop import AsyncioEventLoop

QUICK = BatchWindow(idle_timeout=timedelta(milliseconds=20), max_wait=timedelta(milliseconds=80), max_items=5)


class Kitchen:
    """Doubles numbers, a plate at a time, and remembers the plates."""

    def __init__(self, window: BatchWindow = QUICK) -> None:
        self.loop = AsyncioEventLoop()
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


def test_items_of_one_key_share_a_call_and_each_gets_its_result() -> None:
    async def work(kitchen: Kitchen) -> None:
        ask = kitchen.batcher.submit

        answers = await asyncio.gather(ask("a", 2), ask("b", 4), ask("a", 6))

        assert answers == [4, 8, 12]
        assert sorted(kitchen.plates) == [("a", [2, 6]), ("b", [4])]

    run(work)


def test_an_error_result_goes_to_its_item_only() -> None:
    async def work(kitchen: Kitchen) -> None:
        good, bad = await kitchen.loop.gather(
            [kitchen.batcher.submit("a", 2), kitchen.batcher.submit("a", 3)]
        )

        assert good == 4
        assert isinstance(bad, ValueError)

    run(work)


def test_an_exception_goes_to_every_item() -> None:
    async def work(kitchen: Kitchen) -> None:
        outcomes = await kitchen.loop.gather([kitchen.batcher.submit("fire", number) for number in range(3)])

        assert [str(result) for result in outcomes] == ["burnt"] * 3

    run(work)


def test_a_full_batch_closes_at_once() -> None:
    async def work(kitchen: Kitchen) -> None:
        await asyncio.gather(*(kitchen.batcher.submit("a", 2 * number) for number in range(7)))

        assert [len(items) for _, items in kitchen.plates] == [5, 2]

    run(work)


def test_a_steady_trickle_closes_the_batch_after_the_maximum_wait() -> None:
    async def work(kitchen: Kitchen) -> None:
        request = []
        for number in range(12):
            request.append(asyncio.ensure_future(kitchen.batcher.submit("a", 2 * number)))
            await asyncio.sleep(0.01)
        await asyncio.gather(*request)

        assert len(kitchen.plates) >= 2

    # Never full: only the longest wait can have closed the first batch.
    async def cook() -> None:
        slow = BatchWindow(idle_timeout=QUICK.idle_timeout, max_wait=timedelta(milliseconds=60))
        await work(Kitchen(slow))

    asyncio.run(cook())


def test_a_cancelled_caller_does_not_affect_the_others() -> None:
    async def work(kitchen: Kitchen) -> None:
        leaving = asyncio.ensure_future(kitchen.batcher.submit("a", 2))
        staying = asyncio.ensure_future(kitchen.batcher.submit("a", 4))
        await asyncio.sleep(0)
        leaving.cancel()

        assert await staying == 8
        with pytest.raises(asyncio.CancelledError):
            await leaving

    run(work)
