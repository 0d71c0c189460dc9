"""Real time."""

import time
from datetime import UTC, datetime


class RealClock:
    """Counts real seconds, from an arbitrary start, and lets them pass."""

    def now(self) -> datetime:
        """Return the time of day, in UTC."""
        return datetime.now(UTC)

    def seconds(self) -> float:
        return time.perf_counter()

    def sleep(self, seconds: float) -> None:
        """Come back after a while; at once if it is over already."""
        if seconds > 0:
            time.sleep(seconds)
