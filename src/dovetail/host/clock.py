"""System clock."""

import time
from datetime import UTC, datetime
from typing import Final

_UPTIME_CLOCK: Final = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
"""Fallback for systems without CLOCK_BOOTTIME, such as macOS."""


class SystemClock:
    """Wall clock, monotonic clocks and sleep."""

    def now(self) -> datetime:
        """Return the current time, in UTC."""
        return datetime.now(UTC)

    def seconds(self) -> float:
        return time.perf_counter()

    def uptime(self) -> float:
        """Return monotonic seconds that include time in suspend."""
        return time.clock_gettime(_UPTIME_CLOCK)

    def sleep(self, seconds: float) -> None:
        """Sleep; return at once for a negative duration."""
        if seconds > 0:
            time.sleep(seconds)
