"""How many requests a second the API server is asked at most."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

QPS: Final = 200.0
BURST: Final = 300


class RateLimit:
    """A bucket that fills steadily; who finds it empty waits in turn."""

    def __init__(
        self,
        *,
        clock: Callable[[], float],
        qps: float = QPS,
        burst: int = BURST,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        """``clock`` counts seconds and never goes back."""
        self._clock = clock
        self._sleep = sleep
        self._qps = qps
        self._burst = float(burst)
        self._left = float(burst)
        self._filled = clock()

    async def wait(self) -> None:
        """Come back when one more request may be made."""
        now = self._clock()
        self._left = min(self._burst, self._left + (now - self._filled) * self._qps)
        self._filled = now
        # What is taken beyond the bucket is a place in the queue: the next waits longer.
        self._left -= 1
        if self._left < 0:
            await self._sleep(-self._left / self._qps)
