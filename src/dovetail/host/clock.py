"""Real time."""

import time


class RealClock:
    """Counts real seconds, from an arbitrary start, and lets them pass."""

    def seconds(self) -> float:
        return time.perf_counter()

    def sleep(self, seconds: float) -> None:
        """Come back after a while; at once if it is over already."""
        if seconds > 0:
            time.sleep(seconds)
