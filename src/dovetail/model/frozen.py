"""A dictionary that cannot change, so that it can be part of a key."""

from collections.abc import Mapping
from typing import Any, NoReturn, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class FrozenDict(dict[K, V]):
    """An immutable, hashable ``dict``; look-ups and comparison run at C speed.

    The hash is not kept: for the few entries that labels and requests have,
    computing it is quicker than finding out whether it is known.
    """

    __slots__ = ()

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(frozenset(self.items()))

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        raise TypeError(f"{type(self).__name__} cannot be changed")

    __setitem__ = _refuse
    __delitem__ = _refuse
    __ior__ = _refuse
    clear = _refuse
    pop = _refuse
    popitem = _refuse
    setdefault = _refuse
    update = _refuse

    def __reduce__(self) -> tuple[type["FrozenDict[K, V]"], tuple[dict[K, V]]]:
        return (type(self), (dict(self),))

    def with_items(self, more: Mapping[K, V]) -> "FrozenDict[K, V]":
        """Return a copy in which ``more`` wins."""
        return FrozenDict({**self, **more})


EMPTY: FrozenDict[str, str] = FrozenDict()
"""The map most pods have for most of their fields."""
