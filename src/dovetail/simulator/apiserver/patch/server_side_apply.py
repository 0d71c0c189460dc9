"""Server-side apply and the ownership of fields (managedFields).

Every field manager owns the fields that it applied or updated. An apply raises
Conflict where another manager owns a field with another value, unless it is forced.
It removes fields that the manager no longer applies and no other manager owns.
"""

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from dovetail.ports.api_resources import Resource
from dovetail.ports.kube_errors import Conflict
from dovetail.simulator.apiserver.patch.json_patch import json_equal
from dovetail.simulator.apiserver.patch.list_merge_keys import is_set_list, list_map_keys
from dovetail.simulator.apiserver.patch.managed_fields import (
    FieldSet,
    Path,
    decode_fields_v1,
    encode_fields_v1,
    field_values,
    key_path_element,
    part_values,
    value_path_element,
)
from dovetail.simulator.apiserver.storage.frozen_object import Object, thaw


class FieldManager(NamedTuple):
    """Name, operation (Apply or Update) and subresource; each owns a set of fields."""

    name: str
    operation: str
    subresource: str = ""


class OwnedFields(NamedTuple):
    """Fields of a manager, and the time of their last change."""

    fields: FieldSet
    time: str


Ownership = dict[FieldManager, OwnedFields]

BEFORE_FIRST_APPLY = FieldManager("before-first-apply", "Update")
"""Owner of all fields of an object that was written without managedFields."""


def decode_managed_fields(obj: Mapping[str, Any]) -> Ownership:
    """Decode the managedFields of an object."""
    return {
        manager: OwnedFields(decode_fields_v1(entry.get("fieldsV1") or {}), entry.get("time", ""))
        for manager, entry in _find_entries(obj).items()
    }


def _find_entries(obj: Mapping[str, Any]) -> dict[FieldManager, Object]:
    return {
        FieldManager(entry["manager"], entry["operation"], entry.get("subresource", "")): entry
        for entry in obj["metadata"].get("managedFields") or ()
    }


def encode_managed_fields(
    resource: Resource, ownership: Ownership, old: Object | None = None
) -> list[dict[str, Any]]:
    """Encode managedFields; managers without fields are omitted.

    Equal entries of ``old`` are shared.
    """
    entries = []
    earlier = {} if old is None else _find_entries(old)
    for manager, owned in sorted(ownership.items(), key=lambda item: (item[1].time, item[0])):
        if not owned.fields:
            continue
        known = earlier.get(manager)
        if (
            known is not None
            and known.get("apiVersion") == resource.api_version
            and known.get("time") == owned.time
            and decode_fields_v1(known.get("fieldsV1") or {}) == owned.fields
        ):
            entries.append(known)
            continue
        entry: dict[str, Any] = {
            "manager": manager.name,
            "operation": manager.operation,
            "apiVersion": resource.api_version,
            "time": owned.time,
            "fieldsType": "FieldsV1",
            "fieldsV1": encode_fields_v1(owned.fields),
        }
        if manager.subresource:
            entry["subresource"] = manager.subresource
        entries.append(entry)
    return entries


def apply_configuration(
    resource: Resource,
    live: Object,
    config: Mapping[str, Any],
    manager: FieldManager,
    *,
    force: bool,
    now: str,
) -> dict[str, Any]:
    """Return ``live`` with a manager's configuration and updated managedFields.

    Fields that the manager applied before and now omits are removed, unless another
    manager owns them too. Raises Conflict unless ``force``.
    """
    ownership = decode_managed_fields(live)
    if not ownership:
        ownership[BEFORE_FIRST_APPLY] = OwnedFields(frozenset(field_values(resource, live)), now)
    applied = field_values(resource, config)
    before = ownership.pop(manager, OwnedFields(frozenset(), now))
    _resolve_conflicts(resource, live, applied, ownership, force=force)

    merged = _merge(resource, thaw(live), config)
    fields = frozenset(applied)
    others = frozenset[Path]().union(*(owned.fields for owned in ownership.values()))
    abandoned = before.fields - fields - others
    # Items before their fields: an item without its key fields could not be found.
    for path in sorted(abandoned, key=lambda path: (len(path), path)):
        if not _is_key_field(path) and not _has_descendant(path, others | fields):
            _remove(resource, merged, path)

    ownership[manager] = before if fields == before.fields else OwnedFields(fields, now)
    merged["metadata"]["managedFields"] = encode_managed_fields(resource, ownership)
    return merged


def update_managed_fields(
    resource: Resource, old: Object | None, new: Mapping[str, Any], manager: FieldManager, *, now: str
) -> list[dict[str, Any]]:
    """Return the managedFields after an update: the manager owns the changed fields."""
    before = old or {}
    ownership = decode_managed_fields(old) if old is not None else {}
    present: set[Path] = set()
    changed: set[Path] = set()
    for name, value in new.items():
        after = part_values(resource, name, value)
        present.update(after)
        if name not in before:
            changed.update(after)
        elif before[name] is not value:  # Parts that were not written are shared.
            part = part_values(resource, name, before[name])
            changed.update(
                path for path, field in after.items() if path not in part or not json_equal(part[path], field)
            )
    for owner, owned in ownership.items():
        remaining = owned.fields & present
        ownership[owner] = owned._replace(fields=remaining if owner == manager else remaining - changed)
    own = ownership.get(manager, OwnedFields(frozenset(), now))
    if not changed <= own.fields:
        own = OwnedFields(own.fields | changed, now)
    ownership[manager] = own
    return encode_managed_fields(resource, ownership, old)


def _resolve_conflicts(
    resource: Resource, live: Object, applied: Mapping[Path, Any], ownership: Ownership, *, force: bool
) -> None:
    """Raise Conflict for fields of other managers, or take them over if forced."""
    current = field_values(resource, live)
    differing = frozenset(path for path, value in applied.items() if _is_different(path, value, current))
    conflicts: dict[str, list[str]] = {}
    for owner, owned in list(ownership.items()):
        conflicting = differing & owned.fields
        if force:
            ownership[owner] = owned._replace(fields=owned.fields - conflicting)
        elif conflicting:
            conflicts[_format_manager(resource, owner)] = [_format_path(path) for path in sorted(conflicting)]
    if conflicts:
        raise _conflict_error(conflicts)


def _is_different(path: Path, applied: Any, current: Mapping[Path, Any]) -> bool:
    if path in current:
        return not json_equal(current[path], applied)
    # An empty map or list is not stored. Applying one differs from an absent field, but
    # not from a map with entries: the two are merged.
    return applied not in ({}, []) or not _has_descendant(path, frozenset(current))


def _conflict_error(conflicts: Mapping[str, list[str]]) -> Conflict:
    """Return the Conflict with a cause for each field, grouped by owner."""
    causes = [
        {"reason": "FieldManagerConflict", "message": f"conflict with {owner}", "field": field}
        for owner, fields in conflicts.items()
        for field in fields
    ]
    if len(causes) == 1:
        summary = f"1 conflict: {causes[0]['message']}: {causes[0]['field']}"
    else:
        lines = [
            line
            for owner, fields in sorted(conflicts.items())
            for line in (f"conflicts with {owner}:", *(f"- {field}" for field in fields))
        ]
        summary = f"{len(causes)} conflicts: " + "\n".join(lines)
    return Conflict(f"Apply failed with {summary}", causes=causes)


def _format_manager(resource: Resource, manager: FieldManager) -> str:
    subresource = f' with subresource "{manager.subresource}"' if manager.subresource else ""
    version = f" using {resource.api_version}" if manager.operation == "Update" else ""
    return f'"{manager.name}"{subresource}{version}'


def _format_path(path: Path) -> str:
    return "".join("." + element[2:] if element[0] == "f" else f"[{element[2:]}]" for element in path)


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
    if is_set_list(resource, field):
        return [*live, *(value for value in config if value not in live)]
    keys = list_map_keys(resource, field)
    if keys is None:
        return [thaw(item) for item in config]
    indexes = {key_path_element(item, keys): index for index, item in enumerate(live)}
    items = list(live)
    for item in config:
        index = indexes.get(key_path_element(item, keys))
        if index is None:
            items.append(thaw(item))
        else:
            items[index] = _merge(resource, items[index], item)
    return items


def _is_key_field(path: Path) -> bool:
    """Return True for a key field of a list item; it is removed only with its item."""
    if len(path) < 2 or not path[-2].startswith("k:"):
        return False
    return path[-1][2:] in json.loads(path[-2][2:])


def _has_descendant(path: Path, paths: FieldSet) -> bool:
    return any(len(other) > len(path) and other[: len(path)] == path for other in paths)


def _remove(resource: Resource, obj: dict[str, Any], path: Path) -> None:
    node: Any = obj
    field = ""
    for element in path[:-1]:
        node, field = _descend(resource, node, field, element)
        if node is None:
            return
    last = path[-1]
    if last.startswith("f:"):
        node.pop(last[2:], None)
    elif last.startswith("v:"):
        node[:] = [value for value in node if value_path_element(value) != last]
    else:
        keys = list_map_keys(resource, field) or ()
        node[:] = [item for item in node if key_path_element(item, keys) != last]
    _drop_empty_parents(resource, obj, path[:-1])


def _drop_empty_parents(resource: Resource, obj: dict[str, Any], path: Path) -> None:
    """Remove maps and lists that a removal has left empty."""
    while len(path) > 1 and path[-1].startswith("f:"):
        node: Any = obj
        field = ""
        for element in path[:-1]:
            node, field = _descend(resource, node, field, element)
            if node is None:
                return
        name = path[-1][2:]
        if not isinstance(node, dict) or node.get(name) not in ({}, []):
            return
        del node[name]
        path = path[:-1]


def _descend(resource: Resource, node: Any, field: str, element: str) -> tuple[Any, str]:
    """Return the child of a node (None if missing), and the field that it is in."""
    if element.startswith("f:"):
        name = element[2:]
        return (node.get(name) if isinstance(node, dict) else None), name
    keys = list_map_keys(resource, field) or ()
    items = node if isinstance(node, list) else ()
    return next((item for item in items if key_path_element(item, keys) == element), None), field
