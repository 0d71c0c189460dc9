"""Result of a conversion: v1 objects, and notes for the user."""

from typing import Any

import msgspec

from dovetail.codec.text.field_path import FieldPath

RawObjectValue = dict[str, Any]
ConversionNote = tuple[FieldPath, str]
"""(field path, note for the user)."""


class ConvertedObject(msgspec.Struct, frozen=True, kw_only=True):
    """A v1 object converted from an object of an older version."""

    value: RawObjectValue
    old_paths: tuple[tuple[FieldPath, FieldPath], ...] = ()
    """New path prefix → old path prefix, longest first: errors refer to the user's file."""
    notes: tuple[ConversionNote, ...] = ()
    """Changes of meaning, by paths in the new object."""

    def old_path(self, path: FieldPath) -> FieldPath:
        """Return the path in the old object for a path in the new object."""
        for new, old in self.old_paths:
            if path[: len(new)] == new:
                return old + path[len(new) :]
        return path


class LegacyKubelet(msgspec.Struct, frozen=True):
    """Kubelet settings of an old NodePool, which belong to the EC2NodeClass in v1."""

    settings: RawObjectValue
    path: FieldPath
    """Path in the old NodePool."""


class Conversion(msgspec.Struct, frozen=True):
    """The v1 objects converted from one old object, and errors."""

    objects: tuple[ConvertedObject, ...]
    kubelet: LegacyKubelet | None = None
    errors: tuple[ConversionNote, ...] = ()
    """By paths in the old object; if there are any, the objects are unusable."""


def copy_map(value: Any) -> RawObjectValue:
    """Return a mutable copy of a map; any other value gives an empty map."""
    return dict(value) if isinstance(value, dict) else {}


def v1_object(
    api_version: str, kind: str, raw: RawObjectValue, spec: RawObjectValue, *, status: bool = False
) -> RawObjectValue:
    """Return a v1 object with the metadata of the old object."""
    meta = copy_map(raw.get("metadata"))
    converted: RawObjectValue = {"apiVersion": api_version, "kind": kind, "metadata": meta, "spec": spec}
    if raw.get("name") and not meta.get("name"):
        converted["name"] = raw["name"]  # The decoder reports it.
    if status and raw.get("status"):
        converted["status"] = raw["status"]
    return converted


def note_dropped_fields(
    spec: RawObjectValue, old_fields: tuple[str, ...], path: FieldPath, version: str
) -> list[ConversionNote]:
    """Return a note for each field that the old version does not define."""
    return [
        (path, f"{key} was left out: {version} has no such field, so it had no effect.")
        for key in spec
        if key not in old_fields
    ]
