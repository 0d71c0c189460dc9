"""Unknown fields of Karpenter's objects: misspelt or moved ones are errors, others may be newer."""

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any, Final

from dovetail.codec.crds.definitions import DEFINITIONS
from dovetail.codec.crds.schema import Schema
from dovetail.codec.fields import Field
from dovetail.codec.text.suggestions import nearest_match

_ROOT: Final = frozenset({"apiVersion", "kind", "metadata", "spec", "status"})
_KINDS: Final = ("NodePool", "EC2NodeClass")
"""Kinds between which fields have moved."""
_SPECS: Final = {definition.kind: definition.spec for definition in DEFINITIONS}


def check_unknown_fields(root: Field, kind: str) -> None:
    """Add an error for each misspelt or moved field of a kind, a note for others.

    Status does not count. A field that resembles no other may be one of a newer Karpenter.
    Fields with an error keep it: decoders describe some mistakes better.
    """
    reported = {path for path, _ in root.context.errors}
    for key in root.mapping():
        if key not in _ROOT and root[key].path not in reported:
            root[key].add_error("no such field")
    for field, siblings in _find_unknown(root["spec"], _SPECS[kind]):
        if field.path in reported:
            continue
        suggestion = _suggest(field, siblings, kind)
        if suggestion:
            field.add_error(f"no such field; {suggestion}")
        else:
            field.context.add_note(field.path, "no such field in Karpenter 1.14; it is ignored")


def _find_unknown(field: Field, schema: Schema) -> Iterator[tuple[Field, Mapping[str, Schema]]]:
    """Yield unknown fields with the known fields of the same map."""
    value, fields = field.value, schema.get("properties")
    if isinstance(value, dict):
        for key in value:
            inner = schema.get("additionalProperties") if fields is None else fields.get(key)
            if isinstance(inner, dict):
                yield from _find_unknown(field[key], inner)
            elif fields is not None and not schema.get("x-kubernetes-preserve-unknown-fields"):
                yield field[key], fields
    elif isinstance(value, list) and isinstance(schema.get("items"), dict):
        for item in field.items():
            yield from _find_unknown(item, schema["items"])


def _suggest(field: Field, siblings: Mapping[str, Schema], kind: str) -> str:
    name = str(field.key)
    present: Any = field.parent.value if field.parent is not None else {}
    if name in _find_places(kind):
        return f"it belongs to {_find_places(kind)[name]}"
    nearest = nearest_match(name, siblings)
    if nearest is not None:
        return f"{nearest!r} is there as well" if nearest in present else f"did you mean {nearest!r}?"
    places = _find_places(kind)
    match = nearest_match(name, places, cutoff=0.85)
    return "" if match is None else f"{match!r} belongs to {places[match]}"


@lru_cache
def _find_places(kind: str) -> dict[str, str]:
    """Return field → the only map of the kind that has it, or the spec of one to which fields moved."""
    others = [other for other in _KINDS if other != kind]
    places = {name: f"spec of the {other}" for other in others for name in _SPECS[other]["properties"]}
    paths: dict[str, list[str]] = {}
    _collect_paths("spec", _SPECS[kind], paths)
    return places | {name: parents[0] for name, parents in paths.items() if len(parents) == 1}


def _collect_paths(path: str, schema: Schema, paths: dict[str, list[str]]) -> None:
    """Add field → paths of the maps that have it; items of lists do not count."""
    for name, inner in schema.get("properties", {}).items():
        paths.setdefault(name, []).append(path)
        _collect_paths(f"{path}.{name}", inner, paths)
