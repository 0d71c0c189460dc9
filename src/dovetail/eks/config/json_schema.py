"""The JSON schema of cluster.yaml, for editors and for guesses at what was meant."""

from collections.abc import Iterator
from functools import cache
from typing import Any, Final

from dovetail.codec.text.field_path import Path
from dovetail.eks.config.cluster import ClusterSpec

_BRANCHES: Final = ("anyOf", "oneOf", "allOf")


@cache
def json_schema() -> dict[str, Any]:
    """Return the schema, as JSON Schema 2020-12."""
    schema = ClusterSpec.model_json_schema(by_alias=True)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "cluster.yaml of dovetail cluster",
        **{key: value for key, value in schema.items() if key != "title"},
    }


def known_keys(path: Path) -> list[str]:
    """Return the keys that may stand at a place in the file."""
    here = [json_schema()]
    for step in path:
        here = [below for node in here for below in _below(node, step)]
    return sorted({key for node in here for one in _plain(node) for key in _properties(one)})


def _properties(node: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = node.get("properties", {})
    return found


def _below(node: dict[str, Any], step: str | int) -> Iterator[dict[str, Any]]:
    for one in _plain(node):
        if isinstance(step, int):
            below = one.get("items")
        else:
            below = _properties(one).get(step, one.get("additionalProperties"))
        if isinstance(below, dict):
            yield below


def _plain(node: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Follow references and alternatives to what they stand for."""
    if "$ref" in node:
        yield from _plain(json_schema()["$defs"][node["$ref"].rpartition("/")[2]])
        return
    yield node
    for branch in _BRANCHES:
        for one in node.get(branch, ()):
            yield from _plain(one)
