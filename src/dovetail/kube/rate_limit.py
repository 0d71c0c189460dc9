"""Client-side rate limit: a token bucket, as in client-go's flowcontrol."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

DEFAULT_QPS: Final = 200.0
DEFAULT_BURST: Final = 300


class RateLimiter:
    """Token bucket: ``qps`` tokens a second, at most ``burst``. Waiters queue in order."""

    def __init__(
        self,
        *,
        clock: Callable[[], float],
        qps: float = DEFAULT_QPS,
        burst: int = DEFAULT_BURST,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        """``clock`` returns monotonic seconds."""
        self._clock = clock
        self._sleep = sleep
        self._qps = qps
        self._burst = float(burst)
        self._tokens = float(burst)
        self._refilled_at = clock()

    async def wait(self) -> None:
        """Take a token; return when it is available."""
        now = self._clock()
        self._tokens = min(self._burst, self._tokens + (now - self._refilled_at) * self._qps)
        self._refilled_at = now
        # A negative balance is a place in the queue: the next caller waits longer.
        self._tokens -= 1
        if self._tokens < 0:
            await self._sleep(-self._tokens / self._qps)
