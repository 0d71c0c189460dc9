"""Replacements that failed lately: who tries again waits longer every time."""

from datetime import datetime, timedelta
from typing import Final

import msgspec

FIRST: Final = timedelta(minutes=1)
MOST: Final = timedelta(hours=1)


class _Setback(msgspec.Struct, frozen=True):
    failures: int
    until: datetime


class Setbacks:
    """Until when each pool, or node, is left alone after its replacements did not come."""

    def __init__(self) -> None:
        self._known: dict[str, _Setback] = {}

    def failed(self, key: str, now: datetime) -> None:
        """Note a failure; several at about the same time count as one."""
        known = self._known.get(key)
        if known is not None and now < known.until:
            return
        failures = 1 if known is None else known.failures + 1
        wait = min(FIRST * (1 << min(failures - 1, 10)), MOST)
        self._known[key] = _Setback(failures, now + wait)

    def succeeded(self, key: str) -> None:
        self._known.pop(key, None)

    def until(self, key: str, now: datetime) -> datetime | None:
        """Tell until when to wait; None: not at all."""
        known = self._known.get(key)
        return known.until if known is not None and now < known.until else None
