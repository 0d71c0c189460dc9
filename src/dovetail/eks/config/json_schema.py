"""JSON schema of cluster.yaml, for editors and for "did you mean" hints."""

from collections.abc import Iterator
from functools import cache
from typing import Any, Final

from dovetail.codec.text.field_path import FieldPath
from dovetail.eks.config.cluster import ClusterConfig

_ALTERNATIVES: Final = ("anyOf", "oneOf", "allOf")


@cache
def json_schema() -> dict[str, Any]:
    """Return the schema, as JSON Schema 2020-12."""
    schema = ClusterConfig.model_json_schema(by_alias=True)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "cluster.yaml of dovetail cluster",
        **{key: value for key, value in schema.items() if key != "title"},
    }


def allowed_keys(path: FieldPath) -> list[str]:
    """Return the keys that the schema allows at a path of the file."""
    nodes = [json_schema()]
    for step in path:
        nodes = [child for node in nodes for child in _children(node, step)]
    return sorted(
        {key for node in nodes for variant in schema_variants(node) for key in _properties(variant)}
    )


def _properties(node: dict[str, Any]) -> dict[str, Any]:
    properties: dict[str, Any] = node.get("properties", {})
    return properties


def _children(node: dict[str, Any], step: str | int) -> Iterator[dict[str, Any]]:
    for variant in schema_variants(node):
        if isinstance(step, int):
            child = variant.get("items")
        else:
            child = _properties(variant).get(step, variant.get("additionalProperties"))
        if isinstance(child, dict):
            yield child


def schema_variants(node: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield a schema node and its alternatives, with references followed."""
    if "$ref" in node:
        yield from schema_variants(json_schema()["$defs"][node["$ref"].rpartition("/")[2]])
        return
    yield node
    for keyword in _ALTERNATIVES:
        for alternative in node.get(keyword, ()):
            yield from schema_variants(alternative)
