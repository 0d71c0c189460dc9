"""A burst goes through at once; what follows keeps the pace."""

import asyncio

from hypothesis import given
from hypothesis import strategies as st

from dovetail.kube.rate_limit import RateLimiter


class Time:
    """Clock that advances only by sleeps."""

    def __init__(self) -> None:
        self.now = 0.0
        self.slept: list[float] = []

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)


def test_a_burst_does_not_wait_and_later_requests_follow_the_rate() -> None:
    time = Time()
    limit = RateLimiter(clock=lambda: time.now, qps=200, burst=300, sleep=time.sleep)

    async def run() -> None:
        for _ in range(400):
            await limit.wait()

    asyncio.run(run())

    assert len(time.slept) == 100
    assert time.slept[0] == 1 / 200
    assert time.slept[-1] == 0.5


@given(st.lists(st.floats(0, 3), min_size=1, max_size=200), st.integers(1, 20), st.integers(1, 50))
def test_requests_never_exceed_burst_and_rate(gaps: list[float], qps: int, burst: int) -> None:
    time = Time()
    limit = RateLimiter(clock=lambda: time.now, qps=qps, burst=burst, sleep=time.sleep)
    passed: list[float] = []

    async def run() -> None:
        for gap in gaps:
            time.now += gap
            before = len(time.slept)
            await limit.wait()
            waited = time.slept[-1] if len(time.slept) > before else 0.0
            passed.append(time.now + waited)

    asyncio.run(run())

    passed.sort()
    for first, start in enumerate(passed):
        for last in range(first, len(passed)):
            allowed = burst + (passed[last] - start) * qps
            assert last - first + 1 <= allowed + 1 + 1e-6
