"""Objects in wire format that nobody can change, so that nobody need copy them."""

from typing import Any, NoReturn

Object = dict[str, Any]
"""A Kubernetes object as its JSON; all that the server returns is frozen."""


def _refuse(self: Any, *_: Any, **__: Any) -> NoReturn:
    raise TypeError("an object from the API server cannot be changed; edit thaw(it) instead")


class FrozenObject(dict[str, Any]):
    """A ``dict`` that refuses changes; made by ``freeze`` only, so frozen all the way down."""

    __slots__ = ()
    __setitem__ = __delitem__ = __ior__ = _refuse
    clear = pop = popitem = setdefault = update = _refuse

    def __deepcopy__(self, _: Any) -> dict[str, Any]:
        return {key: thaw(value) for key, value in self.items()}

    def __reduce__(self) -> Any:
        return (freeze, (thaw(self),))


class FrozenList(list[Any]):
    """A ``list`` that refuses changes; made by ``freeze`` only."""

    __slots__ = ()
    __setitem__ = __delitem__ = __iadd__ = __imul__ = _refuse
    append = extend = insert = pop = remove = clear = sort = reverse = _refuse

    def __deepcopy__(self, _: Any) -> list[Any]:
        return [thaw(value) for value in self]

    def __reduce__(self) -> Any:
        return (freeze, (thaw(self),))


_DONE = frozenset({str, int, bool, float, type(None), FrozenObject, FrozenList})


def freeze(value: Any) -> Any:
    """Return a frozen copy; parts that are frozen already are shared, not copied.

    Fields that are null go: in Kubernetes' wire format they mean the same as absent ones.
    """
    if type(value) in _DONE:
        return value
    if isinstance(value, dict):
        return FrozenObject(
            {
                key: one if type(one) in _DONE else freeze(one)
                for key, one in value.items()
                if one is not None
            }
        )
    if isinstance(value, list | tuple):
        return FrozenList([one if type(one) in _DONE else freeze(one) for one in value])
    raise TypeError(f"{value!r} is no JSON value")


def thaw(value: Any) -> Any:
    """Return a deep copy that the caller may edit."""
    if isinstance(value, dict):
        return {key: thaw(one) for key, one in value.items()}
    if isinstance(value, list):
        return [thaw(one) for one in value]
    return value


def look(value: Any, *path: str) -> Any:
    """Return what is at a path of field names; None where anything on the way is missing."""
    for name in path:
        if not isinstance(value, dict):
            return None
        value = value.get(name)
    return value
