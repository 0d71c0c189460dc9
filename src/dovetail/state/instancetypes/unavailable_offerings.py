"""Unavailable offerings: offerings with a recent capacity error, excluded for a while."""

from collections.abc import Iterable
from datetime import datetime, timedelta
from heapq import heappop, heappush
from itertools import product
from typing import Final

import msgspec

TTL: Final = timedelta(minutes=3)
ANY: Final = ""


class UnavailableOffering(msgspec.Struct, frozen=True, cache_hash=True, kw_only=True, order=True):
    """One offering, or all offerings that match the fields that are set."""

    capacity_type: str = ANY
    instance_type: str = ANY
    zone: str = ANY

    @property
    def covers_all_types(self) -> bool:
        return self.instance_type == ANY


class UnavailableOfferings:
    """Unavailable offerings that expire after ``TTL``; marking again prolongs it.

    Every method with a parameter ``now`` removes expired entries first, so that no
    periodic cleanup is needed.
    """

    def __init__(self) -> None:
        self._until: dict[UnavailableOffering, datetime] = {}
        self._expirations: list[tuple[datetime, UnavailableOffering]] = []
        self._version = 0
        self._current: frozenset[UnavailableOffering] | None = frozenset()

    def mark_unavailable(self, offerings: Iterable[UnavailableOffering], *, now: datetime) -> None:
        """Mark offerings as unavailable for ``TTL``."""
        self._expire(now)
        until = now + TTL
        for offering in offerings:
            if offering not in self._until:
                self._invalidate()
            self._until[offering] = until
            heappush(self._expirations, (until, offering))

    def clear(self, offerings: Iterable[UnavailableOffering]) -> None:
        """Make offerings available again."""
        for offering in offerings:
            if self._until.pop(offering, None) is not None:
                self._invalidate()

    def version(self, now: datetime) -> int:
        """Return a number that changes whenever the set of unavailable offerings does."""
        self._expire(now)
        return self._version

    def get(self, now: datetime) -> frozenset[UnavailableOffering]:
        """Return all unavailable offerings; the same object until they change."""
        self._expire(now)
        if self._current is None:
            self._current = frozenset(self._until)
        return self._current

    def _expire(self, now: datetime) -> None:
        """Remove expired offerings, and heap entries of prolonged ones."""
        while self._expirations:
            at, offering = self._expirations[0]
            prolonged = self._until[offering] != at if offering in self._until else True
            if at > now and not prolonged:
                return
            heappop(self._expirations)
            if not prolonged:
                del self._until[offering]
                self._invalidate()

    def _invalidate(self) -> None:
        self._version += 1
        self._current = None


def is_unavailable(
    unavailable: frozenset[UnavailableOffering], *, capacity_type: str, instance_type: str, zone: str
) -> bool:
    """Return True if any entry covers an offering."""
    return any(
        UnavailableOffering(capacity_type=kind, instance_type=name, zone=where) in unavailable
        for kind, name, where in product((capacity_type, ANY), (instance_type, ANY), (zone, ANY))
    )
