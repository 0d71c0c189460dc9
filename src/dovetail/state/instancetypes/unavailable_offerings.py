"""Offerings that could not be had lately, and until when to leave them alone."""

from collections.abc import Iterable
from datetime import datetime, timedelta
from heapq import heappop, heappush
from itertools import product
from typing import Final

import msgspec

TTL: Final = timedelta(minutes=3)
ANY: Final = ""


class Scarce(msgspec.Struct, frozen=True, cache_hash=True, kw_only=True, order=True):
    """What ran out: one pool, or all pools that agree with the fields that are set."""

    capacity_type: str = ANY
    instance_type: str = ANY
    zone: str = ANY

    @property
    def concerns_all_types(self) -> bool:
        return self.instance_type == ANY


class Scarcity:
    """Marks that go by themselves after ``TTL``; marking again prolongs.

    Every method that takes ``now`` first lets go of what has expired, so nobody
    needs to sweep.
    """

    def __init__(self) -> None:
        self._until: dict[Scarce, datetime] = {}
        self._expiries: list[tuple[datetime, Scarce]] = []
        self._version = 0
        self._shared: frozenset[Scarce] | None = frozenset()

    def mark(self, many: Iterable[Scarce], *, now: datetime) -> None:
        """Leave these alone for a while."""
        self._let_go(now)
        until = now + TTL
        for one in many:
            if one not in self._until:
                self._changed()
            self._until[one] = until
            heappush(self._expiries, (until, one))

    def lift(self, many: Iterable[Scarce]) -> None:
        """Have these be as if they had never been marked."""
        for one in many:
            if self._until.pop(one, None) is not None:
                self._changed()

    def version(self, now: datetime) -> int:
        """Return a number that is another one whenever the picture is."""
        self._let_go(now)
        return self._version

    def marks(self, now: datetime) -> frozenset[Scarce]:
        """Return what is scarce: the same object until it changes."""
        self._let_go(now)
        if self._shared is None:
            self._shared = frozenset(self._until)
        return self._shared

    def _let_go(self, now: datetime) -> None:
        """Drop marks that have expired, and entries of marks that were prolonged."""
        while self._expiries:
            at, one = self._expiries[0]
            prolonged = self._until[one] != at if one in self._until else True
            if at > now and not prolonged:
                return
            heappop(self._expiries)
            if not prolonged:
                del self._until[one]
                self._changed()

    def _changed(self) -> None:
        self._version += 1
        self._shared = None


def is_scarce(
    marks: frozenset[Scarce], *, capacity_type: str, instance_type: str, zone: str
) -> bool:
    """Tell whether any mark covers this pool."""
    return any(
        Scarce(capacity_type=kind, instance_type=name, zone=where) in marks
        for kind, name, where in product((capacity_type, ANY), (instance_type, ANY), (zone, ANY))
    )
