"""Real time."""

import time
from datetime import UTC, datetime
from typing import Final

_NEVER_STOPS: Final = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
"""Where there is no such clock, the next best."""


class RealClock:
    """Counts real seconds, from an arbitrary start, and lets them pass."""

    def now(self) -> datetime:
        """Return the time of day, in UTC."""
        return datetime.now(UTC)

    def seconds(self) -> float:
        return time.perf_counter()

    def uptime(self) -> float:
        """Count seconds that never stop or go back, not even while the machine sleeps."""
        return time.clock_gettime(_NEVER_STOPS)

    def sleep(self, seconds: float) -> None:
        """Come back after a while; at once if it is over already."""
        if seconds > 0:
            time.sleep(seconds)
