"""How often the whole cluster is thought over: not for every pod that comes or goes."""

from datetime import datetime, timedelta
from typing import Final

LEAST: Final = timedelta(seconds=10)
MOST: Final = timedelta(minutes=5)
"""Prices, and what is sold out, change without anybody telling: it is looked again by then."""
_EACH: Final = timedelta(milliseconds=10)
"""Between two looks for every node: a look takes up to half a millisecond of a core for each."""
_SETTLING: Final = timedelta(milliseconds=15)
"""For every node, after something was found: pods that move keep a cluster busy."""
_RARER: Final = 3
"""How many times longer than usual it is waited while one look after the other is in vain."""


class Pace:
    """When a method that looks at everything may look next.

    Not before something has changed since it last did. A cluster in which pods
    come and go all the time is looked at ever more rarely while nothing is found.
    """

    def __init__(self) -> None:
        self._changed = True
        self._fruitless = 0
        self._not_before: datetime | None = None
        self._at_latest: datetime | None = None

    def touch(self) -> bool:
        """Note that something changed; tell whether nobody knew of any change before."""
        news = not self._changed
        self._changed = True
        return news

    def hurry(self) -> None:
        """Have it look at once: something has changed that people wait for."""
        self._changed, self._not_before, self._fruitless = True, None, 0

    def due(self, now: datetime) -> datetime:
        """Tell when to look next; a moment that has passed means now."""
        if self._changed or self._at_latest is None:
            return self._not_before or now
        return self._at_latest

    def looks(self) -> None:
        """Note that a look begins: what changes from here on is news."""
        self._changed = False

    def looked(
        self, now: datetime, *, nodes: int, found: bool, again: datetime | None = None
    ) -> None:
        """Note what a look came to; ``again`` is when time alone may change the answer."""
        self._fruitless = 0 if found else self._fruitless + 1
        usual = min(max(_EACH * nodes, LEAST), MOST)
        wait = min(usual * min(max(self._fruitless, 1), _RARER), MOST)
        # What was found keeps nodes busy for a while; what budgets held back does not wait long.
        self._not_before = now + (min(_SETTLING * nodes, usual) if found else wait)
        latest = now + MOST if again is None else min(now + MOST, again)
        self._at_latest = max(latest, self._not_before) if nodes else latest
        self._changed = self._changed or found
