"""Telling what others changed in an object from what a controller wrote itself."""

from typing import Any, Final

from dovetail.simulator.apiserver.storage.frozen_object import Object
from dovetail.simulator.apiserver.storage.index import Key
from dovetail.simulator.apiserver.storage.store import key_of

_TOLD: Final = (
    "uid",
    "generation",
    "deletionTimestamp",
    "labels",
    "annotations",
    "ownerReferences",
)


class News:
    """Remembers all of an object but its status, which its controller alone writes."""

    def __init__(self) -> None:
        self._seen: dict[Key, tuple[Any, ...]] = {}

    def is_new(self, obj: Object) -> bool:
        """Tell whether anything but the status has changed since the last call."""
        key, get = key_of(obj), obj["metadata"].get
        now = tuple(get(name) for name in _TOLD)
        if self._seen.get(key) == now:
            return False
        self._seen[key] = now
        return True

    def forget(self, key: Key) -> None:
        self._seen.pop(key, None)
