"""Sets of field paths, and the ``fieldsV1`` form in which managedFields keeps them."""

import json
from collections.abc import Iterable, Mapping
from typing import Any, Final

from dovetail.ports.api_resources import Resource
from dovetail.simulator.apiserver.patch.list_merge_keys import apply_keys, is_set, key_values

Step = str
"""As in fieldsV1: ``f:name``, ``k:{"name":"a"}`` for an item, ``v:"a"`` for a set's member."""
Path = tuple[Step, ...]
FieldSet = frozenset[Path]

_SERVERS_OWN: Final = frozenset(
    {
        "f:name",
        "f:generateName",
        "f:namespace",
        "f:uid",
        "f:resourceVersion",
        "f:generation",
        "f:creationTimestamp",
        "f:deletionTimestamp",
        "f:deletionGracePeriodSeconds",
        "f:managedFields",
        "f:selfLink",
    }
)


def is_owned(path: Path) -> bool:
    """Tell whether a path can belong to a writer, rather than to the server."""
    if path[0] in ("f:apiVersion", "f:kind"):
        return False
    return not (path[0] == "f:metadata" and len(path) > 1 and path[1] in _SERVERS_OWN)


def item_step(item: Mapping[str, Any], keys: tuple[str, ...]) -> Step:
    """Return the step to an item of a keyed list."""
    named = dict(zip(keys, key_values(item, keys), strict=True))
    return "k:" + json.dumps(named, sort_keys=True, separators=(",", ":"))


def member_step(value: Any) -> Step:
    """Return the step to a member of a set."""
    return "v:" + json.dumps(value, separators=(",", ":"))


def leaves(resource: Resource, obj: Mapping[str, Any]) -> dict[Path, Any]:
    """Return every field that can have an owner, with its value.

    Items of keyed lists are fields of their own too, with None as their value:
    who owns an item keeps it in the list.
    """
    found: dict[Path, Any] = {}
    for name, value in obj.items():
        _gather(resource, (f"f:{name}",), name, value, found)
    return {path: value for path, value in found.items() if is_owned(path)}


def _gather(resource: Resource, path: Path, field: str, value: Any, found: dict[Path, Any]) -> None:
    if isinstance(value, dict) and value:
        for name, one in value.items():
            _gather(resource, (*path, f"f:{name}"), name, one, found)
    elif isinstance(value, list) and value and is_set(resource, field):
        found.update(((*path, member_step(one)), one) for one in value)
    elif _has_items(value) and (keys := apply_keys(resource, field)):
        for item in value:
            step = (*path, item_step(item, keys))
            found[step] = None
            for name, one in item.items():
                _gather(resource, (*step, f"f:{name}"), name, one, found)
    else:
        found[path] = value


def _has_items(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(one, dict) for one in value)


def encode(paths: Iterable[Path]) -> dict[str, Any]:
    """Write a set of paths as fieldsV1."""
    tree: dict[str, Any] = {}
    for path in sorted(paths):
        at = tree
        for step in path:
            at = at.setdefault(step, {})
        if path[-1].startswith("k:"):
            at["."] = {}
    return tree


def decode(tree: Mapping[str, Any]) -> FieldSet:
    """Read fieldsV1."""
    found: set[Path] = set()
    _walk(tree, (), found)
    return frozenset(found)


def _walk(tree: Mapping[str, Any], path: Path, found: set[Path]) -> None:
    if path and (not tree or "." in tree):
        found.add(path)
    for step, below in tree.items():
        if step != ".":
            _walk(below, (*path, step), found)
