"""Immutable, hashable dictionary, for frozen structs and cache keys."""

from collections.abc import Mapping
from typing import Any, NoReturn, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class FrozenDict(dict[K, V]):
    """An immutable, hashable ``dict``; look-ups and comparison run at C speed.

    The hash is not cached: labels and requests have few entries, and computing
    it is faster than the check for a cached value.
    """

    __slots__ = ("__weakref__",)

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(frozenset(self.items()))

    def _raise_immutable(self, *_: Any, **__: Any) -> NoReturn:
        raise TypeError(f"{type(self).__name__} cannot be changed")

    __setitem__ = _raise_immutable
    __delitem__ = _raise_immutable
    __ior__ = _raise_immutable
    clear = _raise_immutable
    pop = _raise_immutable
    popitem = _raise_immutable
    setdefault = _raise_immutable
    update = _raise_immutable

    def __reduce__(self) -> tuple[type["FrozenDict[K, V]"], tuple[dict[K, V]]]:
        return (type(self), (dict(self),))

    def with_items(self, more: Mapping[K, V]) -> "FrozenDict[K, V]":
        """Return a copy updated with ``more``."""
        return FrozenDict({**self, **more})


EMPTY: FrozenDict[str, str] = FrozenDict()
"""Shared empty map of strings: most map fields of most pods are empty."""
