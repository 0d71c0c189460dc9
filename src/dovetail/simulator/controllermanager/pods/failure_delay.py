"""A moment's wait after a pod that failed, without which virtual time could stand still."""

from collections.abc import Hashable
from datetime import datetime, timedelta
from typing import Final, Generic, TypeVar

from dovetail.simulator.apiserver.storage.frozen_object import Object, look
from dovetail.simulator.clock import Engine

Key = TypeVar("Key", bound=Hashable)

_MOMENT: Final = timedelta(seconds=1)


class Patience(Generic[Key]):
    """Who must wait, and how much longer.

    A kubelet can refuse a pod at the very instant it is bound. A real controller
    that replaces it at once is slowed down by the world; a simulated one would
    go on for ever. Forgotten, the next pod comes a second sooner.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._until: dict[Key, datetime] = {}

    def note(self, key: Key, old: Object | None, new: Object | None) -> None:
        """Have ``key`` wait if this change is a pod's failure."""
        if _has_failed(new) and not _has_failed(old):
            self._until[key] = self._engine.now() + _MOMENT

    def left(self, key: Key) -> timedelta:
        """Return how much longer to wait; nothing, or less, when it is over."""
        until = self._until.get(key)
        if until is None:
            return timedelta()
        left = until - self._engine.now()
        if left <= timedelta():
            del self._until[key]
        return left


def _has_failed(pod: Object | None) -> bool:
    return bool(look(pod, "status", "phase") == "Failed")
