"""Finding objects by a value of theirs without looking at all of them."""

from collections.abc import Callable, Iterable

from dovetail.simulator.apiserver.storage.frozen_object import Object

Key = tuple[str, str]
"""Namespace and name; the namespace of a cluster-wide object is empty."""


class Index:
    """The keys of objects by what ``read`` sees in them; None is not indexed."""

    def __init__(self, read: Callable[[Object], str | None]) -> None:
        self._read = read
        self._keys: dict[str, dict[Key, None]] = {}

    def record(self, key: Key, old: Object | None, new: Object | None) -> None:
        """Take over a change of one object."""
        before = None if old is None else self._read(old)
        after = None if new is None else self._read(new)
        if before == after:
            return
        if before is not None:
            keys = self._keys[before]
            del keys[key]
            if not keys:
                del self._keys[before]
        if after is not None:
            self._keys.setdefault(after, {})[key] = None

    def count(self, values: Iterable[str]) -> int:
        """Return how many objects have one of some values."""
        return sum(len(self._keys.get(one, ())) for one in values)

    def find(self, values: Iterable[str]) -> list[Key]:
        """Return the keys of the objects that have one of some values, in order."""
        return sorted(key for one in values for key in self._keys.get(one, ()))
