"""Immutable objects in wire format, shared between store, watches and clients."""

from typing import Any, NoReturn

Object = dict[str, Any]
"""A Kubernetes object as JSON; objects that the server returns are frozen."""


def _raise_immutable(self: Any, *_: Any, **__: Any) -> NoReturn:
    raise TypeError("objects of the API server cannot be changed; edit a copy from thaw()")


class FrozenObject(dict[str, Any]):
    """An immutable ``dict``; created only by ``freeze``, so deeply frozen."""

    __slots__ = ()
    __setitem__ = __delitem__ = __ior__ = _raise_immutable
    clear = pop = popitem = setdefault = update = _raise_immutable

    def __deepcopy__(self, _: Any) -> dict[str, Any]:
        return {key: thaw(value) for key, value in self.items()}

    def __reduce__(self) -> Any:
        return (freeze, (thaw(self),))


class FrozenList(list[Any]):
    """An immutable ``list``; created only by ``freeze``."""

    __slots__ = ()
    __setitem__ = __delitem__ = __iadd__ = __imul__ = _raise_immutable
    append = extend = insert = pop = remove = clear = sort = reverse = _raise_immutable

    def __deepcopy__(self, _: Any) -> list[Any]:
        return [thaw(value) for value in self]

    def __reduce__(self) -> Any:
        return (freeze, (thaw(self),))


_FROZEN_TYPES = frozenset({str, int, bool, float, type(None), FrozenObject, FrozenList})


def freeze(value: Any) -> Any:
    """Return a frozen copy; parts that are already frozen are shared, not copied.

    Drops null fields: in Kubernetes' wire format they mean the same as absent ones.
    """
    if type(value) in _FROZEN_TYPES:
        return value
    if isinstance(value, dict):
        return FrozenObject(
            {
                key: child if type(child) in _FROZEN_TYPES else freeze(child)
                for key, child in value.items()
                if child is not None
            }
        )
    if isinstance(value, list | tuple):
        return FrozenList([child if type(child) in _FROZEN_TYPES else freeze(child) for child in value])
    raise TypeError(f"{value!r} is not a JSON value")


def thaw(value: Any) -> Any:
    """Return a mutable deep copy."""
    if isinstance(value, dict):
        return {key: thaw(child) for key, child in value.items()}
    if isinstance(value, list):
        return [thaw(child) for child in value]
    return value


def get_field(value: Any, *path: str) -> Any:
    """Return the field at a path of names; None if it or a parent is missing."""
    for name in path:
        if not isinstance(value, dict):
            return None
        value = value.get(name)
    return value
