"""How what is wanted differs from what is there, property by property."""

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import msgspec

from dovetail.eks.plan.references import Reference, Unresolved, resolved
from dovetail.eks.plan.resource import Existing, Resource
from dovetail.eks.plan.resource_kinds import KINDS, KindFacts

LATER: Final = "(known once it is made)"
"""Stands for a value that depends on something which is not there yet."""
ABSENT: Final = "(not set)"


class Change(msgspec.Struct, frozen=True):
    """One property that is not as it should be."""

    path: tuple[str, ...]
    before: Any
    after: Any
    replaces: bool = False
    """It cannot be changed in place."""

    @property
    def property(self) -> str:
        return self.path[0]

    def __str__(self) -> str:
        where = ".".join(self.path)
        return f"{where}: {_shown(self.before)} → {_shown(self.after)}"


def changes(
    wanted: Resource, existing: Existing, look_up: Callable[[Reference], Any]
) -> tuple[Change, ...]:
    """Return what would have to change; nothing when all is as wanted.

    Only what is wanted is compared: properties, keys and tags that somebody
    else added stay, except in what is wholly ours (``KindFacts.exact``). What
    the reader did not see is not compared either.
    """
    facts = KINDS[wanted.kind]
    found: list[Change] = []
    for name, value in wanted.properties.items():
        if name in existing.properties:
            found.extend(_property(facts, name, value, existing.properties[name], look_up))
    if "*" in facts.exact:
        found.extend(
            Change((name,), value, ABSENT)
            for name, value in existing.properties.items()
            if name not in wanted.properties
        )
    if facts.tagged:
        for key, value in wanted.tags.items():
            before = existing.tags.get(key, ABSENT)
            if before != value:
                found.append(Change(("Tags", key), before, value))
    return tuple(found)


def _property(
    facts: KindFacts, name: str, value: Any, before: Any, look_up: Callable[[Reference], Any]
) -> Iterator[Change]:
    replaces = name in facts.fixed
    try:
        after = resolved(value, look_up)
    except Unresolved:
        yield Change((name,), before, LATER, replaces)
        return
    if name in facts.json_text:
        before, after = _parsed(before), _parsed(after)
    exact = name in facts.exact or "*" in facts.exact
    for path, old, new in _differences((name,), before, after, facts.unordered, exact):
        yield Change(path, old, new, replaces)


def _differences(
    path: tuple[str, ...], before: Any, after: Any, unordered: frozenset[str], exact: bool
) -> Iterator[tuple[tuple[str, ...], Any, Any]]:
    if isinstance(after, Mapping) and isinstance(before, Mapping):
        for key, inner in after.items():
            old = before.get(key, ABSENT)
            yield from _differences((*path, key), old, inner, unordered, exact)
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
    return sorted({json.dumps(one, sort_keys=True) for one in values})


def _parsed(text: Any) -> Any:
    try:
        return json.loads(text)
    except (TypeError, ValueError):
        return text


def _shown(value: Any) -> str:
    if isinstance(value, str):
        return value
    text = json.dumps(value, sort_keys=True)
    return text if len(text) <= 60 else f"{text[:57]}…"
