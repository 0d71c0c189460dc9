"""Differences between a desired and an observed resource, property by property."""

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from dovetail.eks.plan.references import Lookup, UnresolvedReferenceError, resolve_references
from dovetail.eks.plan.resource import FILE_TAGS_TAG, DesiredResource, ObservedResource
from dovetail.eks.plan.resource_kinds import KINDS, ResourceKind

KNOWN_LATER: Final = "(known after create)"
"""Stands for a value that depends on a resource which does not exist yet."""
ABSENT: Final = "(not set)"


class PropertyChange(msgspec.Struct, frozen=True):
    """A property whose observed value differs from the desired one."""

    path: tuple[str, ...]
    before: Any
    after: Any
    forces_replacement: bool = False
    """The property cannot be updated in place."""

    @property
    def property(self) -> str:
        return self.path[0]

    def __str__(self) -> str:
        return f"{'.'.join(self.path)}: {_shorten(self.before)} → {_shorten(self.after)}"


def diff_resource(
    desired: DesiredResource, observed: ObservedResource, lookup: Lookup
) -> tuple[PropertyChange, ...]:
    """Return the properties to change; empty if the resource is as desired.

    Only desired properties, keys and tags are compared: what others added stays,
    except in properties that we manage fully (``ResourceKind.fully_managed``).
    Properties that the handler could not read are not compared.
    """
    kind = KINDS[desired.kind]
    changes: list[PropertyChange] = []
    for name, value in desired.properties.items():
        if name in observed.properties:
            changes.extend(_diff_property(kind, name, value, observed.properties[name], lookup))
    if "*" in kind.fully_managed:
        changes.extend(
            PropertyChange((name,), value, ABSENT)
            for name, value in observed.properties.items()
            if name not in desired.properties
        )
    if kind.taggable:
        for key, value in desired.tags.items():
            before = observed.tags.get(key, ABSENT)
            if before != value:
                changes.append(PropertyChange(("Tags", key), before, value))
        changes.extend(
            PropertyChange(("Tags", key), observed.tags[key], ABSENT)
            for key in removed_tags(desired, observed)
        )
    return tuple(changes)


def removed_tags(desired: DesiredResource, observed: ObservedResource) -> list[str]:
    """Return the keys of tags that the file had before; foreign tags are not among them."""
    recorded = observed.tags.get(FILE_TAGS_TAG)
    keys = [*recorded.split(), FILE_TAGS_TAG] if recorded is not None else []
    return [key for key in keys if key in observed.tags and key not in desired.tags]


def _diff_property(
    kind: ResourceKind, name: str, value: Any, before: Any, lookup: Lookup
) -> Iterator[PropertyChange]:
    forces_replacement = name in kind.immutable
    try:
        after = resolve_references(value, lookup)
    except UnresolvedReferenceError:
        yield PropertyChange((name,), before, KNOWN_LATER, forces_replacement)
        return
    if name in kind.json_text:
        before, after = _parse_json(before), _parse_json(after)
    exact = name in kind.fully_managed or "*" in kind.fully_managed
    for path, old, new in _diff_values((name,), before, after, kind.unordered, exact):
        yield PropertyChange(path, old, new, forces_replacement)


def _diff_values(
    path: tuple[str, ...], before: Any, after: Any, unordered: frozenset[str], exact: bool
) -> Iterator[tuple[tuple[str, ...], Any, Any]]:
    if isinstance(after, Mapping) and isinstance(before, Mapping):
        for key, inner in after.items():
            old = before.get(key, ABSENT)
            if old == ABSENT and inner == []:
                continue  # AWS does not return empty lists.
            yield from _diff_values((*path, key), old, inner, unordered, exact)
        if exact:
            yield from (((*path, key), before[key], ABSENT) for key in before if key not in after)
        return
    if path[-1] in unordered and isinstance(after, list) and isinstance(before, list | tuple):
        if _as_set(before) != _as_set(after):
            yield path, before, after
        return
    if before != after:
        yield path, before, after


def _as_set(values: Any) -> list[str]:
    return sorted({json.dumps(value, sort_keys=True) for value in values})


def _parse_json(text: Any) -> Any:
    try:
        return json.loads(text)
    except (TypeError, ValueError):
        return text


def _shorten(value: Any) -> str:
    if isinstance(value, str):
        return value
    text = json.dumps(value, sort_keys=True)
    return text if len(text) <= 60 else f"{text[:57]}…"
