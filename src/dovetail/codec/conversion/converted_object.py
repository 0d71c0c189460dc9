"""What an older object becomes today, and what a reader should know about it."""

from typing import Any

import msgspec

from dovetail.codec.text.field_path import Path

Raw = dict[str, Any]
Remark = tuple[Path, str]
"""A place in an object, and a sentence about it."""


class Successor(msgspec.Struct, frozen=True, kw_only=True):
    """One v1 object that an older one becomes."""

    value: Raw
    old_paths: tuple[tuple[Path, Path], ...] = ()
    """New prefix → old prefix, longest first: a mistake is shown where the user wrote it."""
    remarks: tuple[Remark, ...] = ()
    """What changed its meaning on the way, by places in the new object."""

    def old_path(self, path: Path) -> Path:
        """Return where the value at a new path stood in the old object."""
        for new, old in self.old_paths:
            if path[: len(new)] == new:
                return old + path[len(new) :]
        return path


class OldKubelet(msgspec.Struct, frozen=True):
    """Kubelet settings of a pool; they belong to its node class today."""

    settings: Raw
    path: Path
    """Where they stood in the pool."""


class Converted(msgspec.Struct, frozen=True):
    """The v1 objects that an old one becomes, and what stands in the way."""

    objects: tuple[Successor, ...]
    kubelet: OldKubelet | None = None
    problems: tuple[Remark, ...] = ()
    """By places in the old object; with any, the new ones are of no use."""


def mapping(value: Any) -> Raw:
    """Return a copy of a map that may be changed; anything else counts as empty."""
    return dict(value) if isinstance(value, dict) else {}


def successor_object(
    api_version: str, kind: str, raw: Raw, spec: Raw, *, status: bool = False
) -> Raw:
    """Return a v1 object with the metadata of an older one."""
    meta = mapping(raw.get("metadata"))
    changed: Raw = {"apiVersion": api_version, "kind": kind, "metadata": meta, "spec": spec}
    if status and raw.get("status"):
        changed["status"] = raw["status"]
    return changed


def left_out(spec: Raw, known: tuple[str, ...], path: Path, version: str) -> list[Remark]:
    """Return a remark on each field that the older version did not have either."""
    return [
        (path, f"{key} was left out: {version} has no such field, so it meant nothing before.")
        for key in spec
        if key not in known
    ]
