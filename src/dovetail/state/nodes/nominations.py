"""Nodes that pods were sent to lately: nobody may take those away just now."""

from datetime import datetime, timedelta
from itertools import islice

WINDOW = timedelta(seconds=20)
"""Twice the longest batching window: time enough for the next look at the same pods."""


class Nominations:
    """Until when each node (by provider id, or name) is spoken for."""

    def __init__(self) -> None:
        self._until: dict[str, datetime] = {}

    def nominate(self, identity: str, now: datetime) -> None:
        # In the order nominated: those that have run out come first.
        self._until.pop(identity, None)
        for known, until in tuple(islice(self._until.items(), 2)):
            if until <= now:
                del self._until[known]
        self._until[identity] = now + WINDOW

    def nominated(self, identity: str, now: datetime) -> bool:
        until = self._until.get(identity)
        if until is None:
            return False
        if until <= now:
            del self._until[identity]
            return False
        return True
