"""Check of an object against a schema, like the API server but without most CEL rules."""

import re
from collections.abc import Iterator
from typing import Any

from tests.codec.crds.schema_fields import Schema

_TYPES: dict[str, type | tuple[type, ...]] = {
    "object": dict,
    "array": list,
    "string": str,
    "integer": int,
    "boolean": bool,
}


def find_violations(value: Any, schema: Schema, at: str = "") -> Iterator[str]:
    """Yield violations of the schema, and fields that the API server would prune."""
    kind = schema.get("type")
    if kind is not None and not isinstance(value, _TYPES[kind]):
        yield f"{at} is not of type {kind}: {value!r}"
        return
    if "enum" in schema and value not in schema["enum"]:
        yield f"{at} is none of {schema['enum']}: {value!r}"
    yield from _bounds(value, schema, at)
    if isinstance(value, str):
        yield from _spelling(value, schema, at)
    if isinstance(value, list):
        for index, item in enumerate(value):
            yield from find_violations(item, schema["items"], f"{at}[{index}]")
    if isinstance(value, dict):
        yield from _inner(value, schema, at)


def _bounds(value: Any, schema: Schema, at: str) -> Iterator[str]:
    size = len(value) if isinstance(value, str | list | dict) else value
    low = [schema.get(keyword) for keyword in ("minimum", "minLength", "minItems")]
    high = [schema.get(keyword) for keyword in ("maximum", "maxLength", "maxItems", "maxProperties")]
    if isinstance(size, int):
        yield from (f"{at} is below {bound}" for bound in low if bound is not None and size < bound)
        yield from (f"{at} is above {bound}" for bound in high if bound is not None and size > bound)


def _spelling(value: str, schema: Schema, at: str) -> Iterator[str]:
    patterns = [schema["pattern"]] if "pattern" in schema else []
    for rule in schema.get("x-kubernetes-validations", ()):
        match = re.fullmatch(r"self\.matches\(r?'([^']*)'\)", rule["rule"])
        patterns += [match[1]] if match else []
    yield from (
        f"{at} is not like {pattern}: {value!r}" for pattern in patterns if not re.search(pattern, value)
    )


def _inner(value: dict[str, Any], schema: Schema, at: str) -> Iterator[str]:
    properties = schema.get("properties", {})
    yield from (f"{at}.{name} is missing" for name in schema.get("required", ()) if name not in value)
    for name, inner in value.items():
        if name in properties:
            yield from find_violations(inner, properties[name], f"{at}.{name}")
        elif "additionalProperties" in schema:
            yield from find_violations(inner, schema["additionalProperties"], f"{at}[{name}]")
        elif at and "x-kubernetes-preserve-unknown-fields" not in schema and at != ".metadata":
            yield f"{at}.{name} would be pruned"
