"""A work queue: keys that wait, each once, with back-off for those that fail."""

from collections.abc import Hashable
from datetime import datetime, timedelta
from heapq import heappop, heappush
from itertools import count
from typing import Generic, TypeVar

import msgspec

Key = TypeVar("Key", bound=Hashable)


class Backoff(msgspec.Struct, frozen=True):
    """How long a key that failed waits: doubling from ``first`` up to ``most``."""

    first: timedelta = timedelta(milliseconds=100)
    most: timedelta = timedelta(seconds=10)

    def after(self, failures: int) -> timedelta:
        """Return the wait after so many failures in a row."""
        # 2**40 times any wait is beyond every limit; more would overflow.
        return min(self.first * (1 << min(failures - 1, 40)), self.most)


class WorkQueue(Generic[Key]):
    """What is to be looked at, and when.

    A key is never in two hands: asked for while somebody works on it, it comes
    again afterwards. Takes ``now`` from its caller and keeps no clock.
    """

    def __init__(self, backoff: Backoff) -> None:
        self._backoff = backoff
        self._due: dict[Key, datetime] = {}
        self._heap: list[tuple[datetime, int, Key]] = []
        self._sequence = count()
        self._working: set[Key] = set()
        self._again: dict[Key, datetime] = {}
        self._failures: dict[Key, int] = {}

    def add(self, key: Key, at: datetime) -> None:
        """Have a key looked at; of two requests the earlier stands."""
        if key in self._working:
            self._again[key] = min(at, self._again.get(key, at))
            return
        known = self._due.get(key)
        if known is None or at < known:
            self._due[key] = at
            heappush(self._heap, (at, next(self._sequence), key))

    def take(self, now: datetime) -> Key | None:
        """Return a key that is due and hold it until ``done`` or ``failed``."""
        due = self.next_at()
        if due is None or due > now:
            return None
        _, _, key = heappop(self._heap)
        del self._due[key]
        self._working.add(key)
        return key

    def next_at(self) -> datetime | None:
        """Tell when the next key is due."""
        while self._heap and self._due.get(self._heap[0][2]) != self._heap[0][0]:
            heappop(self._heap)  # Moved to an earlier time since.
        return self._heap[0][0] if self._heap else None

    def done(self, key: Key, *, again_at: datetime | None = None) -> None:
        """Put a key away after success; ``again_at`` for another look."""
        self._failures.pop(key, None)
        self._release(key, again_at)

    def failed(self, key: Key, now: datetime) -> timedelta:
        """Have a key tried again after its back-off, which is returned."""
        failures = self._failures[key] = self._failures.get(key, 0) + 1
        wait = self._backoff.after(failures)
        # News of the object does not shorten the wait: it may be why it failed.
        self._again.pop(key, None)
        self._release(key, now + wait)
        return wait

    def _release(self, key: Key, again_at: datetime | None) -> None:
        self._working.discard(key)
        asked = self._again.pop(key, None)
        for at in (asked, again_at):
            if at is not None:
                self.add(key, at)

    def overdue(self, now: datetime) -> int:
        """Tell how many keys could be worked on now, if there were hands for them."""
        return sum(at <= now for at in self._due.values())

    def __len__(self) -> int:
        return len(self._due) + len(self._working)
