"""Cache whose entries expire."""

from collections.abc import Callable, Hashable
from datetime import datetime, timedelta
from typing import Final, Generic, TypeVar

import msgspec

T = TypeVar("T")
_SWEEP_SIZE: Final = 1000
"""At this size, expired entries are removed before an entry is added."""


class _Entry(msgspec.Struct, Generic[T]):
    stored_at: datetime
    expires_at: datetime
    value: T


class TtlCache(Generic[T]):
    """Values by key, each with a time to live. Losing an entry costs an API call."""

    def __init__(self, now: Callable[[], datetime]) -> None:
        self._now = now
        self._entries: dict[Hashable, _Entry[T]] = {}

    def get(self, key: Hashable) -> T | None:
        """Return the value of a key; None if it is missing or expired."""
        entry = self._entries.get(key)
        return entry.value if entry is not None and self._now() < entry.expires_at else None

    def put(self, key: Hashable, value: T, *, ttl: timedelta) -> None:
        """Store a value for ``ttl``."""
        now = self._now()
        if len(self._entries) >= _SWEEP_SIZE:
            self._entries = {other: entry for other, entry in self._entries.items() if now < entry.expires_at}
        self._entries[key] = _Entry(now, now + ttl, value)

    def age(self, key: Hashable) -> timedelta:
        """Return the time since a value was stored; zero if there is none."""
        entry = self._entries.get(key)
        return timedelta() if entry is None else self._now() - entry.stored_at

    def discard(self, key: Hashable) -> None:
        """Remove a key if present."""
        self._entries.pop(key, None)

    def discard_if(self, condition: Callable[[Hashable], bool]) -> None:
        """Remove all keys that a condition holds for."""
        for key in [key for key in self._entries if condition(key)]:
            del self._entries[key]
