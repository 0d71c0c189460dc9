"""Server-side apply, and who owns which field of an object."""

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from dovetail.ports.api_resources import Resource
from dovetail.ports.kube_errors import Conflict
from dovetail.simulator.apiserver.patch.json_patch import same_json
from dovetail.simulator.apiserver.patch.list_merge_keys import apply_keys, is_set
from dovetail.simulator.apiserver.patch.managed_fields import (
    FieldSet,
    Path,
    decode,
    encode,
    item_step,
    leaves,
    member_step,
)
from dovetail.simulator.apiserver.storage.frozen_object import Object, thaw


class Manager(NamedTuple):
    """Who writes, how, and through which subresource; each has its own set of fields."""

    name: str
    operation: str
    subresource: str = ""


class Owned(NamedTuple):
    """The fields of one manager and when they last changed."""

    fields: FieldSet
    since: str


Ownership = dict[Manager, Owned]

FIRST_APPLY = Manager("before-first-apply", "Update")
"""Stands for everyone who wrote an object before ownership was kept."""


def ownership_of(obj: Mapping[str, Any]) -> Ownership:
    """Read managedFields."""
    return {
        Manager(one["manager"], one["operation"], one.get("subresource", "")): Owned(
            decode(one.get("fieldsV1") or {}), one.get("time", "")
        )
        for one in obj["metadata"].get("managedFields") or ()
    }


def managed_fields(resource: Resource, ownership: Ownership) -> list[dict[str, Any]]:
    """Write managedFields; managers without fields are left out."""
    entries = []
    for manager, owned in sorted(ownership.items(), key=lambda one: (one[1].since, one[0])):
        if not owned.fields:
            continue
        entry: dict[str, Any] = {
            "manager": manager.name,
            "operation": manager.operation,
            "apiVersion": resource.api_version,
            "time": owned.since,
            "fieldsType": "FieldsV1",
            "fieldsV1": encode(owned.fields),
        }
        if manager.subresource:
            entry["subresource"] = manager.subresource
        entries.append(entry)
    return entries


def apply(
    resource: Resource,
    live: Object,
    config: Mapping[str, Any],
    manager: Manager,
    *,
    force: bool,
    now: str,
) -> dict[str, Any]:
    """Return ``live`` with a manager's configuration applied and ownership brought up to date.

    Fields the manager applied before and has now left out go away unless
    someone else owns them too.
    """
    ownership = ownership_of(live)
    if not ownership:
        ownership[FIRST_APPLY] = Owned(frozenset(leaves(resource, live)), now)
    wanted = leaves(resource, config)
    before = ownership.pop(manager, Owned(frozenset(), now))
    _settle_conflicts(resource, live, wanted, ownership, force=force)

    merged = _merge(resource, thaw(live), config)
    others = frozenset[Path]().union(*(one.fields for one in ownership.values()))
    abandoned = before.fields - frozenset(wanted) - others
    # Items before their fields: without its key field an item could not be found.
    for path in sorted(abandoned, key=lambda path: (len(path), path)):
        if not _is_key(path) and not _covers_owned(path, others | frozenset(wanted)):
            _remove(resource, merged, path)

    fields = frozenset(wanted)
    ownership[manager] = before if fields == before.fields else Owned(fields, now)
    merged["metadata"]["managedFields"] = managed_fields(resource, ownership)
    return merged


def track_update(
    resource: Resource, old: Object | None, new: Mapping[str, Any], manager: Manager, *, now: str
) -> list[dict[str, Any]]:
    """Return the managedFields after an ordinary write: what it changed is the writer's now."""
    ownership = ownership_of(old) if old is not None else {}
    before = leaves(resource, old) if old is not None else {}
    after = leaves(resource, new)
    changed = {
        path
        for path, value in after.items()
        if path not in before or not same_json(before[path], value)
    }
    for other, owned in ownership.items():
        kept = frozenset(
            path
            for path in owned.fields
            if path in after and (other == manager or path not in changed)
        )
        ownership[other] = owned._replace(fields=kept)
    mine = ownership.get(manager, Owned(frozenset(), now))
    if not changed <= mine.fields:
        mine = Owned(mine.fields | changed, now)
    ownership[manager] = mine
    return managed_fields(resource, ownership)


def _settle_conflicts(
    resource: Resource,
    live: Object,
    wanted: Mapping[Path, Any],
    ownership: Ownership,
    *,
    force: bool,
) -> None:
    current = leaves(resource, live)
    contested = frozenset(path for path, value in wanted.items() if _differs(path, value, current))
    conflicts: dict[str, list[str]] = {}
    for other, owned in list(ownership.items()):
        lost = contested & owned.fields
        if force:
            ownership[other] = owned._replace(fields=owned.fields - lost)
        elif lost:
            conflicts[_told(resource, other)] = [_dotted(path) for path in sorted(lost)]
    if conflicts:
        raise _refusal(conflicts)


def _differs(path: Path, wanted: Any, current: Mapping[Path, Any]) -> bool:
    if path in current:
        return not same_json(current[path], wanted)
    # An empty map or list is stored as none. Whoever applies one differs from that, but
    # not from a map with something in it: the two are merged.
    return wanted not in ({}, []) or not _covers_owned(path, frozenset(current))


def _refusal(conflicts: Mapping[str, list[str]]) -> Conflict:
    """Name every field that someone else has a different idea of, by owner."""
    causes = [
        {"reason": "FieldManagerConflict", "message": f"conflict with {owner}", "field": field}
        for owner, fields in conflicts.items()
        for field in fields
    ]
    if len(causes) == 1:
        told = f"1 conflict: {causes[0]['message']}: {causes[0]['field']}"
    else:
        lines = [
            line
            for owner, fields in sorted(conflicts.items())
            for line in (f"conflicts with {owner}:", *(f"- {field}" for field in fields))
        ]
        told = f"{len(causes)} conflicts: " + "\n".join(lines)
    return Conflict(f"Apply failed with {told}", causes=causes)


def _told(resource: Resource, manager: Manager) -> str:
    door = f' with subresource "{manager.subresource}"' if manager.subresource else ""
    version = f" using {resource.api_version}" if manager.operation == "Update" else ""
    return f'"{manager.name}"{door}{version}'


def _dotted(path: Path) -> str:
    return "".join("." + step[2:] if step[0] == "f" else f"[{step[2:]}]" for step in path)


def _merge(resource: Resource, target: dict[str, Any], config: Mapping[str, Any]) -> dict[str, Any]:
    for name, value in config.items():
        current = target.get(name)
        if isinstance(value, dict) and isinstance(current, dict):
            target[name] = _merge(resource, current, value)
        elif isinstance(value, list) and isinstance(current, list):
            target[name] = _merge_list(resource, name, current, value)
        else:
            target[name] = thaw(value)
    return target


def _merge_list(resource: Resource, field: str, live: list[Any], config: list[Any]) -> list[Any]:
    if is_set(resource, field):
        return [*live, *(one for one in config if one not in live)]
    keys = apply_keys(resource, field)
    if keys is None:
        return [thaw(one) for one in config]
    places = {item_step(one, keys): at for at, one in enumerate(live)}
    items = list(live)
    for one in config:
        at = places.get(item_step(one, keys))
        if at is None:
            items.append(thaw(one))
        else:
            items[at] = _merge(resource, items[at], one)
    return items


def _is_key(path: Path) -> bool:
    """Tell whether a field is what its item is found by; it goes with the item only."""
    if len(path) < 2 or not path[-2].startswith("k:"):
        return False
    return path[-1][2:] in json.loads(path[-2][2:])


def _covers_owned(path: Path, owned: FieldSet) -> bool:
    return any(len(one) > len(path) and one[: len(path)] == path for one in owned)


def _remove(resource: Resource, obj: dict[str, Any], path: Path) -> None:
    at: Any = obj
    field = ""
    for step in path[:-1]:
        at, field = _below(resource, at, field, step)
        if at is None:
            return
    last = path[-1]
    if last.startswith("f:"):
        at.pop(last[2:], None)
    elif last.startswith("v:"):
        at[:] = [one for one in at if member_step(one) != last]
    else:
        keys = apply_keys(resource, field) or ()
        at[:] = [one for one in at if item_step(one, keys) != last]
    _drop_empty(resource, obj, path[:-1])


def _drop_empty(resource: Resource, obj: dict[str, Any], path: Path) -> None:
    """Take away the maps and lists that a removal has left empty."""
    while len(path) > 1 and path[-1].startswith("f:"):
        at: Any = obj
        field = ""
        for step in path[:-1]:
            at, field = _below(resource, at, field, step)
            if at is None:
                return
        name = path[-1][2:]
        if not isinstance(at, dict) or at.get(name) not in ({}, []):
            return
        del at[name]
        path = path[:-1]


def _below(resource: Resource, at: Any, field: str, step: str) -> tuple[Any, str]:
    if step.startswith("f:"):
        name = step[2:]
        return (at.get(name) if isinstance(at, dict) else None), name
    keys = apply_keys(resource, field) or ()
    found = (one for one in at if item_step(one, keys) == step) if isinstance(at, list) else ()
    return next(iter(found), None), field
