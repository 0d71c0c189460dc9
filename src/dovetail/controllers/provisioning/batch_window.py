"""Batch window: collects pending pods, so that one simulation schedules all of them."""

from collections.abc import Hashable
from datetime import datetime

from dovetail.model.settings import BatchSettings


class Batch:
    """Items since the last scheduling simulation, and when the next one runs."""

    def __init__(self, settings: BatchSettings) -> None:
        self._settings = settings
        self._items: set[Hashable] = set()
        self._opened_at: datetime | None = None
        self._latest_at: datetime | None = None
        self._expedited_end: datetime | None = None
        self._expedited_at: datetime | None = None

    def add(self, item: Hashable, now: datetime) -> None:
        """Add an item; a known item does not extend the window."""
        if item in self._items:
            return
        self._items.add(item)
        self._latest_at = now
        if self._opened_at is None:
            self._opened_at = now

    def expedite(self, item: Hashable, now: datetime) -> None:
        """Add an item and close the window soon, at most once per idle duration.

        NodeClaims that fail at once, again and again, wait for the usual window.
        """
        self.add(item, now)
        idle = self._settings.idle_duration
        if self._expedited_at is None or self._expedited_at + idle <= now:
            self._expedited_at = now
            self._expedited_end = now + self._settings.expedited_duration

    def closes_at(self) -> datetime | None:
        """Return when the window closes if no item arrives; None if it is not open."""
        if self._opened_at is None or self._latest_at is None:
            return None
        idle_end = self._latest_at + self._settings.idle_duration
        end = min(idle_end, self._opened_at + self._settings.max_duration)
        return end if self._expedited_end is None else min(end, self._expedited_end)

    def close(self) -> None:
        """Start an empty batch."""
        self._items.clear()
        self._opened_at = self._latest_at = self._expedited_end = None
