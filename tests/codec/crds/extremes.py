"""Every field of every CRD at its extremes, in an object that is valid otherwise."""

from collections.abc import Iterator
from copy import deepcopy
from typing import Any, NamedTuple

from dovetail.codec.crds.definition import Definition
from dovetail.codec.crds.definitions import DEFINITIONS
from tests.codec.crds.accepted import ACCEPTED
from tests.codec.crds.objects import Object
from tests.codec.crds.schema_fields import Schema, schema_of

Location = tuple[str | int, ...]
INT32, INT64 = 2**31, 2**63
_TEXTS = ("", " ", "a", "-", "é", "a\nb", "\u0000", "0", "-1", "1.5", "1e3", "1e400", "100%", "101%", "Never")
_TEXTS += (
    "0s",
    "-1s",
    "1h1h",
    "9999999h",
    "1d",
    "@daily",
    "* * * * *",
    "61 * * * *",
    "1Ki",
    "1ki",
    "9E",
    "1n",
)
_TEXTS += ("a/b", "a/b/c", "a" * 63, "a" * 64, "a" * 253, "a" * 254, "a=b", "*", "x" * 5000)
_WRONG_TYPES: tuple[Any, ...] = (None, True, 1, 1.5, "text", [], {})


class Extreme(NamedTuple):
    """A value at the extreme of a field, in an object."""

    description: str
    object: Object
    value: Any


UNREADABLE = (None, "9999999h", "1e400", "1" * 256, "1" * 2048)
"""Accepted by the server, but errors for us: null and what no client can decode."""


def extremes() -> list[Extreme]:
    """Return all extremes, each field in the first valid object that has it."""
    return [extreme for definition in DEFINITIONS for extreme in _of_definition(definition)]


def _of_definition(definition: Definition) -> Iterator[Extreme]:
    schema = schema_of(definition)["properties"]["spec"]
    valid = [obj for _, obj in ACCEPTED if obj["kind"] == definition.kind]
    seen: set[str] = set()
    for obj in valid:
        for location, inner in _fields(obj["spec"], schema, ("spec",)):
            name = ".".join(str(step) for step in location if isinstance(step, str))
            if name in seen or name.endswith(".timeAdded"):
                continue  # Users do not set timeAdded, and it is not read.
            seen.add(name)
            current = _get(obj, location)
            for number, value in enumerate(_values(inner, current)):
                description = f"{definition.kind} {name} #{number}: {str(value)[:40]!r}"
                yield Extreme(description, _with(obj, location, value), value)


def _fields(value: Any, schema: Schema, at: Location) -> Iterator[tuple[Location, Schema]]:
    """Yield the fields that a value has, and those that it could have."""
    yield at, schema
    if isinstance(value, dict):
        for name, inner in schema.get("properties", {}).items():
            yield from _fields(value.get(name), inner, (*at, name))
        if "additionalProperties" in schema:
            for key, item in list(value.items())[:1]:
                yield from _fields(item, schema["additionalProperties"], (*at, key))
    elif isinstance(value, list) and value and "items" in schema:
        yield from _fields(value[0], schema["items"], (*at, 0))


def _values(schema: Schema, current: Any) -> Iterator[Any]:
    yield from _WRONG_TYPES
    kind = schema.get("type")
    if kind == "integer":
        bounds = {0, 1, -1, schema.get("minimum", 0), schema.get("maximum", 0), INT32 - 1, -INT32, INT64 - 1}
        yield from sorted({number + step for number in bounds for step in (-1, 0, 1)})
    elif kind == "string" or schema.get("x-kubernetes-int-or-string"):
        longest = schema.get("maxLength", 256)
        yield from (*_TEXTS, "a" * longest, "a" * (longest + 1), "1" * longest, *schema.get("enum", ()))
    elif kind == "array":
        items = current if isinstance(current, list) and current else []
        most = min(schema.get("maxItems", 100), 200)
        yield from ([item, item] for item in items[:1])
        yield from ([deepcopy(items[0]) for _ in range(most + 1)] for _ in items[:1])
    elif "additionalProperties" in schema:
        example = next(iter(current.values()), "1") if isinstance(current, dict) and current else "1"
        yield from (
            {key: example} for key in ("", "a", "a" * 64, "a/b", "a/b/c", "A_b.c-d", "é", "kubernetes.io/x")
        )
        yield {f"key-{number}": example for number in range(min(schema.get("maxProperties", 100), 200) + 1)}


def _get(obj: Any, location: Location) -> Any:
    for step in location:
        obj = obj.get(step) if isinstance(obj, dict) else obj[step]
    return obj


def _with(obj: Object, location: Location, value: Any) -> Object:
    changed = deepcopy(obj)
    parent: Any = changed
    for step in location[:-1]:
        parent = parent[step]
    parent[location[-1]] = value
    return changed
