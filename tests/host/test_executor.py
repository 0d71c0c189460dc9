import asyncio
from threading import Barrier, Event, get_ident

import pytest

from dovetail.host.clock import RealClock
from dovetail.host.executor import ThreadOffload, Unawaited
from dovetail.host.randomness import RealChance


def test_work_is_done_in_as_many_threads_as_given_while_the_loop_goes_on() -> None:
    meeting = Barrier(3)

    def meet() -> int:
        meeting.wait(timeout=5)
        return get_ident()

    async def run() -> set[int]:
        offload = ThreadOffload(3)
        threads = await asyncio.gather(*(offload.run(meet) for _ in range(3)))
        offload.close()
        return set(threads)

    threads = asyncio.run(run())

    assert len(threads) == 3
    assert get_ident() not in threads


def test_an_error_in_the_thread_reaches_the_one_who_waits() -> None:
    def fail() -> None:
        raise ValueError("from afar")

    async def run() -> None:
        offload = ThreadOffload(1)
        try:
            await offload.run(fail)
        finally:
            offload.close()

    with pytest.raises(ValueError, match="from afar"):
        asyncio.run(run())


def test_real_dice_fall_within_their_bounds_and_differ() -> None:
    chance = RealChance()

    assert all(0 <= chance.fraction() < 1 for _ in range(100))
    assert len({chance.letters(5) for _ in range(50)}) > 40
    assert {len(chance.letters(7)) for _ in range(5)} == {7}


def test_a_loop_ends_although_a_thread_of_its_own_still_waits() -> None:
    answered = Event()

    async def look_up() -> None:
        asyncio.get_running_loop().set_default_executor(Unawaited())
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await asyncio.to_thread(answered.wait, 30)

    clock = RealClock()
    began = clock.seconds()
    asyncio.run(look_up())
    took = clock.seconds() - began
    answered.set()

    assert took < 15
