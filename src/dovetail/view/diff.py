"""Patches between two documents of the view, as the browser applies them.

    {"at": …, "set": {"totals": {"nodes": 3}},
     "collections": {"nodes": {"set": {"default-x7k2p": {"state": "draining"}}, "remove": ["default-8dwqq"]}}}

A known entry gets the changed fields, a new one all fields. Values are as in the JSON.
"""

from datetime import datetime
from typing import Any, Final, TypeVar

import msgspec

from dovetail.view.document import VERSION, View

_Struct = TypeVar("_Struct", bound=msgspec.Struct)
_PARTS: Final = ("cluster", "totals", "savings")
_COLLECTIONS: Final = (
    "node_pools",
    "nodes",
    "pending_pods",
    "node_claims",
    "decisions",
    "blockers",
    "notices",
)
_FIELDS: Final = {field.name: field for field in msgspec.structs.fields(View)}


class CollectionPatch(msgspec.Struct, frozen=True, kw_only=True):
    """Changes of one collection; ``set`` before ``remove``, which have no key in common."""

    set: dict[str, dict[str, Any]] = {}
    """Key → changed fields."""
    remove: tuple[str, ...] = ()


class Patch(msgspec.Struct, frozen=True, kw_only=True):
    """Changes from one document to a later one."""

    version: int = VERSION
    at: datetime
    set: dict[str, dict[str, Any]] = {}
    """``cluster``, ``totals`` or ``savings`` → changed fields."""
    collections: dict[str, CollectionPatch] = {}

    @property
    def is_empty(self) -> bool:
        """True if nothing but the time differs."""
        return not self.set and not self.collections


def diff(old: View, new: View) -> Patch:
    """Return the patch from ``old`` to ``new``; entries that are the same object cost nothing."""
    parts: dict[str, dict[str, Any]] = {}
    for name in _PARTS:
        changed = _diff_struct(getattr(old, name), getattr(new, name))
        if changed:
            parts[name] = changed
    collections: dict[str, CollectionPatch] = {}
    for name in _COLLECTIONS:
        patch = _diff_collection(getattr(old, name), getattr(new, name))
        if patch is not None:
            collections[_FIELDS[name].encode_name] = patch
    return Patch(at=new.at, set=parts, collections=collections)


def apply(patch: Patch, view: View) -> View:
    """Return the document after a patch."""
    changes: dict[str, Any] = {"at": patch.at}
    for name, fields in patch.set.items():
        changes[name] = _apply_struct(getattr(view, name), fields)
    for name in _COLLECTIONS:
        collection_patch = patch.collections.get(_FIELDS[name].encode_name)
        if collection_patch is not None:
            entry_type = _FIELDS[name].type.__args__[1]
            changes[name] = _apply_collection(getattr(view, name), collection_patch, entry_type)
    return msgspec.structs.replace(view, **changes)


def _diff_collection(
    old: dict[str, msgspec.Struct], new: dict[str, msgspec.Struct]
) -> CollectionPatch | None:
    if old is new:
        return None
    changed: dict[str, dict[str, Any]] = {}
    for key, entry in new.items():
        before = old.get(key)
        if before is entry:
            continue
        fields = msgspec.to_builtins(entry) if before is None else _diff_struct(before, entry)
        if fields:
            changed[key] = fields
    removed = tuple(sorted(old.keys() - new.keys()))
    return CollectionPatch(set=changed, remove=removed) if changed or removed else None


def _diff_struct(old: msgspec.Struct, new: msgspec.Struct) -> dict[str, Any]:
    """Return the fields that differ, by their names in JSON."""
    if old is new:
        return {}
    return {
        encoded: msgspec.to_builtins(value)
        for name, encoded in zip(new.__struct_fields__, new.__struct_encode_fields__, strict=True)
        if getattr(old, name) != (value := getattr(new, name))
    }


def _apply_struct(old: _Struct, fields: dict[str, Any]) -> _Struct:
    return msgspec.convert({**msgspec.to_builtins(old), **fields}, type(old))


def _apply_collection(
    old: dict[str, _Struct], patch: CollectionPatch, entry_type: type[_Struct]
) -> dict[str, _Struct]:
    removed = set(patch.remove)
    entries = {key: entry for key, entry in old.items() if key not in removed}
    for key, fields in patch.set.items():
        before = entries.get(key)
        entries[key] = (
            msgspec.convert(fields, entry_type) if before is None else _apply_struct(before, fields)
        )
    return entries
