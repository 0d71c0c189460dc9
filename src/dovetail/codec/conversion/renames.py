"""Renames of labels, annotations and taints between Karpenter versions."""

from collections.abc import Iterator
from typing import Any

from dovetail.codec.conversion.converted_object import ConversionNote, RawObjectValue
from dovetail.codec.text.field_path import FieldPath
from dovetail.model import labels as keys

OLD_POOL_LABEL = "karpenter.sh/provisioner-name"
OLD_TAINT, NEW_TAINT = "karpenter.sh/disruption", "karpenter.sh/disrupted"
_RENAMED_KEYS = {
    OLD_POOL_LABEL: keys.NODEPOOL,
    "karpenter.sh/do-not-evict": keys.DO_NOT_DISRUPT,
    "karpenter.sh/do-not-consolidate": keys.DO_NOT_DISRUPT,
}
_KEY_FIELDS = ("key", "topologyKey")
"""Fields whose value is a label key."""


class KeyRenames:
    """An object with the v1 names, notes about renames, and errors."""

    def __init__(self, value: RawObjectValue) -> None:
        self.notes: list[ConversionNote] = []
        self.errors: list[ConversionNote] = []
        renamed: RawObjectValue = self._walk(value, ())
        self.value = renamed
        """The original object itself if nothing was renamed."""

    def _walk(self, value: Any, path: FieldPath) -> Any:
        if isinstance(value, dict):
            return self._map(value, path)
        if isinstance(value, list):
            walked = [self._walk(item, (*path, index)) for index, item in enumerate(value)]
            return value if all(map(_is_same, walked, value)) else walked
        return value

    def _map(self, value: RawObjectValue, path: FieldPath) -> RawObjectValue:
        if value.get("key") == OLD_TAINT:
            return self._taint(value, path)
        entries = list(self._entries(value, path))
        same_length = len(entries) == len(value)
        if same_length and all(_is_same(value.get(key, value), inner) for key, inner in entries):
            return value
        return dict(entries)

    def _entries(self, value: RawObjectValue, path: FieldPath) -> Iterator[tuple[str, Any]]:
        for key, inner in value.items():
            for label in (key, inner if key in _KEY_FIELDS else None):
                if isinstance(label, str) and label in keys.REMOVED_LABELS:
                    self.errors.append(((*path, key), f"{label!r} {keys.REMOVED_LABELS[label]}"))
            new_key = _RENAMED_KEYS.get(key, key)
            if new_key != key and new_key in value:
                self.notes.append((path, f"{key} was left out: {new_key} already exists."))
                continue
            if new_key != key:
                self.notes.append(((*path, new_key), _rename_note(key)))
            elif key in _KEY_FIELDS and isinstance(inner, str) and inner in _RENAMED_KEYS:
                self.notes.append(((*path, key), _rename_note(inner)))
                inner = _RENAMED_KEYS[inner]
            yield new_key, self._walk(inner, (*path, new_key))

    def _taint(self, value: RawObjectValue, path: FieldPath) -> RawObjectValue:
        self.notes.append(((*path, "key"), f"Was {OLD_TAINT}; the v1 taint has no value."))
        return {**{key: inner for key, inner in value.items() if key != "value"}, "key": NEW_TAINT}


def _rename_note(key: str) -> str:
    if _RENAMED_KEYS[key] == keys.DO_NOT_DISRUPT:
        return f"Was {key}; the v1 annotation blocks every voluntary disruption."
    return f"Was {key}."


def _is_same(left: Any, right: Any) -> bool:
    return left is right
