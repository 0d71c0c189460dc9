"""Defaults that an API server sets from a schema."""

from typing import Any

from tests.codec.crds.schema_fields import Schema


def with_defaults(value: Any, schema: Schema) -> Any:
    """Return a value with all defaults of the schema, recursively."""
    if isinstance(value, list):
        return [with_defaults(item, schema["items"]) for item in value]
    if not isinstance(value, dict):
        return value
    properties = schema.get("properties", {})
    others = schema.get("additionalProperties", {})
    whole = {name: inner["default"] for name, inner in properties.items() if "default" in inner} | value
    return {name: with_defaults(inner, properties.get(name, others)) for name, inner in whole.items()}
