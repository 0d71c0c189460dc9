"""Fields and examples of the schema of a definition."""

from collections.abc import Iterator
from typing import Any

from dovetail.codec.crds.definition import Definition

Path = tuple[str, ...]
Schema = dict[str, Any]


def schema_of(definition: Definition) -> Schema:
    version = definition.encode()["spec"]["versions"][0]
    whole: Schema = version["schema"]["openAPIV3Schema"]
    return whole


def fields(schema: Schema, at: Path = ()) -> Iterator[tuple[Path, Schema]]:
    """Yield every named field; list items and map values have the path of their parent."""
    yield at, schema
    for name, inner in schema.get("properties", {}).items():
        yield from fields(inner, (*at, name))
    for keyword in ("items", "additionalProperties"):
        if keyword in schema:
            yield from fields(schema[keyword], at)


def example(schema: Schema) -> Any:
    """Return a value that has every field of the schema."""
    if "enum" in schema:
        return schema["enum"][0]
    if "properties" in schema:
        return {name: example(inner) for name, inner in schema["properties"].items()}
    if "items" in schema:
        return [example(schema["items"])]
    if "additionalProperties" in schema:
        return {"example": example(schema["additionalProperties"])}
    of_type = {"integer": schema.get("minimum", 1), "boolean": True}
    fallback = "2026-01-01T00:00:00Z" if schema.get("format") == "date-time" else "1"
    return of_type.get(schema.get("type", ""), fallback)
