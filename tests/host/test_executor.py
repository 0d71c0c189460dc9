"""Thread executors and random numbers."""

import asyncio
from threading import Barrier, Event, get_ident

import pytest

from dovetail.host.clock import SystemClock
from dovetail.host.executor import DetachedThreadPool, ThreadExecutor
from dovetail.host.randomness import SystemRandomSource


def test_the_executor_has_the_given_number_of_threads() -> None:
    barrier = Barrier(3)

    def wait_for_others() -> int:
        barrier.wait(timeout=5)
        return get_ident()

    async def run() -> set[int]:
        executor = ThreadExecutor(3)
        threads = await asyncio.gather(*(executor.run(wait_for_others) for _ in range(3)))
        executor.close()
        return set(threads)

    threads = asyncio.run(run())

    assert len(threads) == 3
    assert get_ident() not in threads


def test_an_error_in_a_thread_reaches_the_caller() -> None:
    def fail() -> None:
        raise ValueError("from the thread")

    async def run() -> None:
        executor = ThreadExecutor(1)
        try:
            await executor.run(fail)
        finally:
            executor.close()

    with pytest.raises(ValueError, match="from the thread"):
        asyncio.run(run())


def test_random_values_are_within_bounds_and_differ() -> None:
    random = SystemRandomSource()

    assert all(0 <= random.random() < 1 for _ in range(100))
    assert len({random.alphanumeric(5) for _ in range(50)}) > 40
    assert {len(random.alphanumeric(7)) for _ in range(5)} == {7}


def test_a_loop_stops_while_a_detached_thread_still_waits() -> None:
    released = Event()

    async def block() -> None:
        asyncio.get_running_loop().set_default_executor(DetachedThreadPool())
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await asyncio.to_thread(released.wait, 30)

    clock = SystemClock()
    started = clock.seconds()
    asyncio.run(block())
    elapsed = clock.seconds() - started
    released.set()

    assert elapsed < 15
