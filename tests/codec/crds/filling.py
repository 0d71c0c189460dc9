"""What an API server fills in by the defaults of a schema."""

from typing import Any

from tests.codec.crds.walking import Schema


def filled(value: Any, schema: Schema) -> Any:
    """Return a value with all defaults; those of what is missing are completed as well."""
    if isinstance(value, list):
        return [filled(one, schema["items"]) for one in value]
    if not isinstance(value, dict):
        return value
    known = schema.get("properties", {})
    others = schema.get("additionalProperties", {})
    whole = {name: one["default"] for name, one in known.items() if "default" in one} | value
    return {name: filled(one, known.get(name, others)) for name, one in whole.items()}
