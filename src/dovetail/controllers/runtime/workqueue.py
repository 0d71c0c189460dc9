"""Work queue of a controller: deduplicated keys with due times and backoff."""

from collections.abc import Hashable
from datetime import datetime, timedelta
from heapq import heappop, heappush
from itertools import count
from typing import Generic, TypeVar

import msgspec

Key = TypeVar("Key", bound=Hashable)


class Backoff(msgspec.Struct, frozen=True):
    """Exponential backoff of failed keys: doubles from ``first`` up to ``limit``."""

    first: timedelta = timedelta(milliseconds=100)
    limit: timedelta = timedelta(seconds=10)

    def after(self, failures: int) -> timedelta:
        """Return the delay after a number of consecutive failures."""
        # 2**40 times any delay is beyond every limit; a larger exponent would overflow.
        return min(self.first * (1 << min(failures - 1, 40)), self.limit)


class WorkQueue(Generic[Key]):
    """Keys to reconcile, each with the time at which it is due.

    A key is never handed out twice at the same time: if it is added while it is
    being processed, it becomes due again when processing ends. The queue has no
    clock; callers pass ``now``.
    """

    def __init__(self, backoff: Backoff) -> None:
        self._backoff = backoff
        self._due: dict[Key, datetime] = {}
        self._heap: list[tuple[datetime, int, Key]] = []
        self._sequence = count()
        self._processing: set[Key] = set()
        self._dirty: dict[Key, datetime] = {}
        """Keys added while they were being processed, with their due time."""
        self._failures: dict[Key, int] = {}

    def add(self, key: Key, at: datetime) -> None:
        """Add a key; if it is queued already, the earlier due time wins."""
        if key in self._processing:
            self._dirty[key] = min(at, self._dirty.get(key, at))
            return
        due = self._due.get(key)
        if due is None or at < due:
            self._due[key] = at
            heappush(self._heap, (at, next(self._sequence), key))

    def get(self, now: datetime) -> Key | None:
        """Return a due key, which the caller owns until it is done or requeued."""
        due = self.next_at()
        if due is None or due > now:
            return None
        _, _, key = heappop(self._heap)
        del self._due[key]
        self._processing.add(key)
        return key

    def next_at(self) -> datetime | None:
        """Return the due time of the next key, None if the queue is empty."""
        while self._heap and self._due.get(self._heap[0][2]) != self._heap[0][0]:
            heappop(self._heap)  # Stale entry: the key was moved to an earlier time.
        return self._heap[0][0] if self._heap else None

    def done(self, key: Key, *, requeue_at: datetime | None = None) -> None:
        """Finish a key after success; ``requeue_at`` makes it due again."""
        self._failures.pop(key, None)
        self._release(key, requeue_at)

    def requeue_with_backoff(self, key: Key, now: datetime) -> timedelta:
        """Requeue a failed key after its backoff, and return the backoff."""
        failures = self._failures[key] = self._failures.get(key, 0) + 1
        delay = self._backoff.after(failures)
        # A watch event does not shorten the backoff: it may be the cause of the failure.
        self._dirty.pop(key, None)
        self._release(key, now + delay)
        return delay

    def _release(self, key: Key, requeue_at: datetime | None) -> None:
        self._processing.discard(key)
        added_at = self._dirty.pop(key, None)
        for at in (added_at, requeue_at):
            if at is not None:
                self.add(key, at)

    def count_due(self, now: datetime) -> int:
        """Return the number of keys that are due and not being processed."""
        return sum(at <= now for at in self._due.values())

    def __len__(self) -> int:
        return len(self._due) + len(self._processing)
