"""Sets of field paths, and their ``fieldsV1`` encoding in managedFields."""

import json
from collections.abc import Iterable, Mapping
from typing import Any, Final

from dovetail.ports.api_resources import Resource
from dovetail.simulator.apiserver.patch.list_merge_keys import is_set_list, key_values, list_map_keys

PathElement = str
"""As in fieldsV1: ``f:name``, ``k:{"name":"a"}`` for a list item, ``v:"a"`` for a set value."""
Path = tuple[PathElement, ...]
FieldSet = frozenset[Path]

_SERVER_METADATA: Final = frozenset(
    "f:name f:generateName f:namespace f:uid f:resourceVersion f:generation f:creationTimestamp"
    " f:deletionTimestamp f:deletionGracePeriodSeconds f:managedFields f:selfLink".split()
)


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
        _collect_values(resource, (f"f:{name}",), name, value, values)
    return {path: value for path, value in values.items() if is_ownable(path)}


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
    paths: set[Path] = set()
    _collect_paths(tree, (), paths)
    return frozenset(paths)


def _collect_paths(tree: Mapping[str, Any], path: Path, paths: set[Path]) -> None:
    if path and (not tree or "." in tree):
        paths.add(path)
    for element, subtree in tree.items():
        if element != ".":
            _collect_paths(subtree, (*path, element), paths)
