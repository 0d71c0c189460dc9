"""A window in which pods gather, so that one decision serves all of them."""

from collections.abc import Hashable
from datetime import datetime, timedelta

import msgspec


class Windows(msgspec.Struct, frozen=True, kw_only=True):
    """How long a batch waits for more: for silence, and at most."""

    idle: timedelta = timedelta(seconds=1)
    longest: timedelta = timedelta(seconds=10)
    hurried: timedelta = timedelta(milliseconds=100)
    """For pods that have been through a window already and lost what they got."""


class Batch:
    """Who asked since the last decision, and when it is time for the next one."""

    def __init__(self, windows: Windows) -> None:
        self._windows = windows
        self._members: set[Hashable] = set()
        self._opened: datetime | None = None
        self._latest: datetime | None = None
        self._hurry_to: datetime | None = None
        self._hurried: datetime | None = None

    def add(self, member: Hashable, now: datetime) -> None:
        """Join; whoever is in already does not make the others wait longer."""
        if member in self._members:
            return
        self._members.add(member)
        self._latest = now
        if self._opened is None:
            self._opened = now

    def hurry(self, member: Hashable, now: datetime) -> None:
        """Join and have the window end soon, unless that was done just now.

        Somebody for whom things go wrong at once, again and again, waits like others.
        """
        self.add(member, now)
        if self._hurried is None or self._hurried + self._windows.idle <= now:
            self._hurried = now
            self._hurry_to = now + self._windows.hurried

    def closes_at(self) -> datetime | None:
        """Tell when the window ends, if nobody else comes; None: nobody waits."""
        if self._opened is None or self._latest is None:
            return None
        ends = min(self._latest + self._windows.idle, self._opened + self._windows.longest)
        return ends if self._hurry_to is None else min(ends, self._hurry_to)

    def close(self) -> None:
        """Begin anew."""
        self._members.clear()
        self._opened = self._latest = self._hurry_to = None
