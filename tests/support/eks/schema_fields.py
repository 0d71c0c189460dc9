"""Fields of cluster.yaml by its schema, and which of them differ between two files."""

from collections.abc import Iterator
from typing import Any

from dovetail.eks.config.cluster import ClusterConfig
from dovetail.eks.config.json_schema import json_schema, schema_variants


def schema_fields() -> list[str]:
    """Return the path of every field and list: ``vpc.create.nat``, ``ingress[]``.

    ``[]`` stands for the elements of a list. A map with free keys is one field.
    """
    return list(dict.fromkeys(_fields(json_schema(), "")))


def _fields(node: dict[str, Any], path: str) -> Iterator[str]:
    is_leaf = True
    for variant in schema_variants(node):
        for name, child in variant.get("properties", {}).items():
            is_leaf = False
            yield from _fields(child, f"{path}.{name}" if path else name)
        items = variant.get("items")
        if isinstance(items, dict) and any("properties" in inner for inner in schema_variants(items)):
            is_leaf = False
            yield f"{path}[]"
            yield from _fields(items, f"{path}[]")
    if is_leaf and not path.endswith("[]"):
        yield path


def changed_fields(before: ClusterConfig, after: ClusterConfig) -> set[str]:
    """Return the fields whose values differ, defaults included.

    Fields of an element of a list count if both files have the element. If the
    number of elements differs, the list itself counts.
    """
    return set(_changes(_dump(before), _dump(after), ""))


def _dump(config: ClusterConfig) -> Any:
    return config.model_dump(by_alias=True, mode="json")


def _changes(before: Any, after: Any, path: str) -> Iterator[str]:
    if before == after:
        return
    if isinstance(before, dict) and isinstance(after, dict) and path != "tags":
        for key in {**before, **after}:
            yield from _changes(before.get(key), after.get(key), f"{path}.{key}" if path else key)
    elif _is_list_of_maps(before) and _is_list_of_maps(after):
        if len(before) != len(after):
            yield f"{path}[]"
        for old, new in zip(before, after, strict=False):
            yield from _changes(old, new, f"{path}[]")
    # A free map is a field itself: its keys add to the path, but are none of the schema's.
    yield path


def _is_list_of_maps(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, dict) for item in value)
