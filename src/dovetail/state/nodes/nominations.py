"""Node nominations: nodes reserved for pods for a short time, safe from disruption."""

from datetime import datetime, timedelta
from itertools import islice

NOMINATION_WINDOW = timedelta(seconds=20)
"""Twice the maximum batch duration: enough for the next scheduling of the same pods."""


class NodeNominations:
    """End of the nomination of each node, by provider ID or name."""

    def __init__(self) -> None:
        self._until: dict[str, datetime] = {}

    def nominate(self, provider_id: str, now: datetime) -> None:
        # Entries are in the order of nomination, so that expired ones come first.
        self._until.pop(provider_id, None)
        for nominated, until in tuple(islice(self._until.items(), 2)):
            if until <= now:
                del self._until[nominated]
        self._until[provider_id] = now + NOMINATION_WINDOW

    def is_nominated(self, provider_id: str, now: datetime) -> bool:
        until = self._until.get(provider_id)
        if until is None:
            return False
        if until <= now:
            del self._until[provider_id]
            return False
        return True
