"""An object against a schema: all that an API server checks of it but rules in CEL."""

import re
from collections.abc import Iterator
from typing import Any

from tests.codec.crds.walking import Schema

_TYPES: dict[str, type | tuple[type, ...]] = {
    "object": dict,
    "array": list,
    "string": str,
    "integer": int,
    "boolean": bool,
}


def problems(value: Any, schema: Schema, at: str = "") -> Iterator[str]:
    """Tell what is wrong with a value, and what would be thrown away."""
    kind = schema.get("type")
    if kind is not None and not isinstance(value, _TYPES[kind]):
        yield f"{at} is no {kind}: {value!r}"
        return
    if "enum" in schema and value not in schema["enum"]:
        yield f"{at} is none of {schema['enum']}: {value!r}"
    yield from _bounds(value, schema, at)
    if isinstance(value, str):
        yield from _spelling(value, schema, at)
    if isinstance(value, list):
        for index, one in enumerate(value):
            yield from problems(one, schema["items"], f"{at}[{index}]")
    if isinstance(value, dict):
        yield from _inner(value, schema, at)


def _bounds(value: Any, schema: Schema, at: str) -> Iterator[str]:
    size = len(value) if isinstance(value, str | list | dict) else value
    low = [schema.get(one) for one in ("minimum", "minLength", "minItems")]
    high = [schema.get(one) for one in ("maximum", "maxLength", "maxItems", "maxProperties")]
    if isinstance(size, int):
        yield from (f"{at} is below {one}" for one in low if one is not None and size < one)
        yield from (f"{at} is above {one}" for one in high if one is not None and size > one)


def _spelling(value: str, schema: Schema, at: str) -> Iterator[str]:
    patterns = [schema["pattern"]] if "pattern" in schema else []
    for one in schema.get("x-kubernetes-validations", ()):
        found = re.fullmatch(r"self\.matches\(r?'([^']*)'\)", one["rule"])
        patterns += [found[1]] if found else []
    yield from (
        f"{at} is not like {one}: {value!r}" for one in patterns if not re.search(one, value)
    )


def _inner(value: dict[str, Any], schema: Schema, at: str) -> Iterator[str]:
    known = schema.get("properties", {})
    yield from (
        f"{at}.{name} is missing" for name in schema.get("required", ()) if name not in value
    )
    for name, one in value.items():
        if name in known:
            yield from problems(one, known[name], f"{at}.{name}")
        elif "additionalProperties" in schema:
            yield from problems(one, schema["additionalProperties"], f"{at}[{name}]")
        elif at and "x-kubernetes-preserve-unknown-fields" not in schema and at != ".metadata":
            yield f"{at}.{name} would be thrown away"
