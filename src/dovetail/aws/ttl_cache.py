"""Answers that hold for a while."""

from collections.abc import Callable, Hashable
from datetime import datetime, timedelta
from typing import Generic, TypeVar

T = TypeVar("T")


class Remembered(Generic[T]):
    """Keeps values under keys until they are too old; losing them costs calls only."""

    def __init__(self, now: Callable[[], datetime]) -> None:
        self._now = now
        self._kept: dict[Hashable, tuple[datetime, datetime, T]] = {}

    def get(self, key: Hashable) -> T | None:
        """Return what is kept and not too old."""
        found = self._kept.get(key)
        return found[2] if found is not None and self._now() < found[1] else None

    def put(self, key: Hashable, value: T, *, lasting: timedelta) -> None:
        now = self._now()
        if len(self._kept) >= 1000:
            self._kept = {name: one for name, one in self._kept.items() if now < one[1]}
        self._kept[key] = (now, now + lasting, value)

    def age(self, key: Hashable) -> timedelta:
        """Return how long ago a value was put there; nothing for one that is not."""
        found = self._kept.get(key)
        return timedelta() if found is None else self._now() - found[0]

    def drop(self, key: Hashable) -> None:
        self._kept.pop(key, None)

    def drop_if(self, concerned: Callable[[Hashable], bool]) -> None:
        for key in [key for key in self._kept if concerned(key)]:
            del self._kept[key]
