"""Sets of field paths, and their ``fieldsV1`` encoding in managedFields."""

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, Generic, TypeVar

from dovetail.ports.api_resources import Resource
from dovetail.simulator.apiserver.patch.list_merge_keys import is_set_list, key_values, list_map_keys
from dovetail.simulator.apiserver.storage.frozen_object import FrozenObject

PathElement = str
"""As in fieldsV1: ``f:name``, ``k:{"name":"a"}`` for a list item, ``v:"a"`` for a set value."""
Path = tuple[PathElement, ...]
FieldSet = frozenset[Path]

_SERVER_METADATA: Final = frozenset(
    "f:name f:generateName f:namespace f:uid f:resourceVersion f:generation f:creationTimestamp"
    " f:deletionTimestamp f:deletionGracePeriodSeconds f:managedFields f:selfLink".split()
)


_MAX_CACHED: Final = 1000
V = TypeVar("V")


class _FrozenCache(Generic[V]):
    """Values computed from frozen parts of objects, by identity.

    Most writes leave most parts as they are: every pod that starts changes the status of its
    Deployment, and nothing else of it.
    """

    def __init__(self) -> None:
        self._values: dict[tuple[int, Any], tuple[FrozenObject, V]] = {}

    def get(self, key: Any, part: Any, compute: Callable[[], V]) -> V:
        known = self._values.get((id(part), key))
        if known is not None and known[0] is part:
            return known[1]
        value = compute()
        if isinstance(part, FrozenObject):
            if len(self._values) >= _MAX_CACHED:
                self._values.clear()
            self._values[id(part), key] = (part, value)  # The reference keeps the identity unique.
        return value


_VALUES: Final[_FrozenCache[dict[Path, Any]]] = _FrozenCache()
_PATHS: Final[_FrozenCache[FieldSet]] = _FrozenCache()


def is_ownable(path: Path) -> bool:
    """Return True if a field manager can own a path; the server owns the others."""
    if path[0] in ("f:apiVersion", "f:kind"):
        return False
    return not (path[0] == "f:metadata" and len(path) > 1 and path[1] in _SERVER_METADATA)


def key_path_element(item: Mapping[str, Any], keys: tuple[str, ...]) -> PathElement:
    """Return the path element of an item of a keyed list."""
    values = dict(zip(keys, key_values(item, keys), strict=True))
    return "k:" + json.dumps(values, sort_keys=True, separators=(",", ":"))


def value_path_element(value: Any) -> PathElement:
    """Return the path element of a value of a set."""
    return "v:" + json.dumps(value, separators=(",", ":"))


def field_values(resource: Resource, obj: Mapping[str, Any]) -> dict[Path, Any]:
    """Return all fields that can have an owner, with their values.

    An item of a keyed list is a field of its own, with the value None: its owners
    keep it in the list.
    """
    values: dict[Path, Any] = {}
    for name, value in obj.items():
        values.update(part_values(resource, name, value))
    return values


def part_values(resource: Resource, name: str, value: Any) -> Mapping[Path, Any]:
    """Return the fields of a part of an object, such as its spec, with their values."""

    def collect() -> dict[Path, Any]:
        values: dict[Path, Any] = {}
        if isinstance(value, dict) and value:
            for child_name, child in value.items():
                if isinstance(child, FrozenObject):
                    values.update(_child_values(resource, (name, child_name), child))
                else:
                    child_path = (f"f:{name}", f"f:{child_name}")
                    _collect_values(resource, child_path, child_name, child, values)
        else:
            _collect_values(resource, (f"f:{name}",), name, value, values)
        return {path: field for path, field in values.items() if is_ownable(path)}

    return _VALUES.get((resource, name), value, collect)


def _child_values(resource: Resource, names: tuple[str, str], value: Any) -> Mapping[Path, Any]:
    """Return the fields of a part of a part: scaling a workload leaves its template as it is."""

    def collect() -> dict[Path, Any]:
        values: dict[Path, Any] = {}
        _collect_values(resource, tuple(f"f:{name}" for name in names), names[1], value, values)
        return values

    return _VALUES.get((resource, names), value, collect)


def _collect_values(resource: Resource, path: Path, field: str, value: Any, values: dict[Path, Any]) -> None:
    if isinstance(value, dict) and value:
        for name, child in value.items():
            _collect_values(resource, (*path, f"f:{name}"), name, child, values)
    elif isinstance(value, list) and value and is_set_list(resource, field):
        values.update(((*path, value_path_element(member)), member) for member in value)
    elif _is_list_of_objects(value) and (keys := list_map_keys(resource, field)):
        for item in value:
            item_path = (*path, key_path_element(item, keys))
            values[item_path] = None
            for name, child in item.items():
                _collect_values(resource, (*item_path, f"f:{name}"), name, child, values)
    else:
        values[path] = value


def _is_list_of_objects(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(item, dict) for item in value)


def encode_fields_v1(paths: Iterable[Path]) -> dict[str, Any]:
    """Encode a set of paths as fieldsV1."""
    tree: dict[str, Any] = {}
    for path in sorted(paths):
        node = tree
        for element in path:
            node = node.setdefault(element, {})
        if path[-1].startswith("k:"):
            # "." says that the item itself is owned, not only fields of it.
            node["."] = {}
    return tree


def decode_fields_v1(tree: Mapping[str, Any]) -> FieldSet:
    """Decode fieldsV1 as a set of paths."""

    def collect() -> FieldSet:
        paths: set[Path] = set()
        _collect_paths(tree, (), paths)
        return frozenset(paths)

    return _PATHS.get("", tree, collect)


def _collect_paths(tree: Mapping[str, Any], path: Path, paths: set[Path]) -> None:
    if path and (not tree or "." in tree):
        paths.add(path)
    for element, subtree in tree.items():
        if element != ".":
            _collect_paths(subtree, (*path, element), paths)
