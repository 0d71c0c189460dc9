"""Structural schemas of CustomResourceDefinitions: validation and pruning.

CEL rules (``x-kubernetes-validations``) and formats are not evaluated.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

import msgspec

from dovetail.model.frozen import FrozenDict
from dovetail.simulator.apiserver.admission.field_errors import FieldError, invalid, required
from dovetail.simulator.apiserver.patch.json_patch import json_equal

Schema = Mapping[str, Any]

_METADATA: Final = frozenset({"apiVersion", "kind", "metadata"})
"""Fields of every object; the API server validates them itself."""
_PRESERVE: Final = "x-kubernetes-preserve-unknown-fields"
_INT_OR_STRING: Final = "x-kubernetes-int-or-string"
_EMBEDDED: Final = "x-kubernetes-embedded-resource"
_LIST_TYPE: Final = "x-kubernetes-list-type"
_LIST_MAP_KEYS: Final = "x-kubernetes-list-map-keys"
_TYPES: Final[Mapping[str, tuple[type, ...]]] = FrozenDict(
    {
        "object": (dict,),
        "array": (list, tuple),
        "string": (str,),
        "boolean": (bool,),
        "integer": (int,),
        "number": (int, float),
    }
)


def prune(schema: Schema, obj: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Return an object without unknown fields, and the paths of these."""
    unknown: list[str] = []
    pruned = _prune(schema, obj, "", unknown, is_root=True)
    return pruned, unknown


def _prune(schema: Schema, value: Any, path: str, unknown: list[str], *, is_root: bool = False) -> Any:
    if isinstance(value, list) and isinstance(schema.get("items"), Mapping):
        return [
            _prune(schema["items"], item, f"{path}[{index}]", unknown) for index, item in enumerate(value)
        ]
    if not isinstance(value, dict) or schema.get(_INT_OR_STRING):
        return value
    properties = schema.get("properties") or {}
    additional = schema.get("additionalProperties")
    keeps_unknown = schema.get(_PRESERVE) or additional is True
    has_metadata = is_root or schema.get(_EMBEDDED)
    pruned = {}
    for name, item in value.items():
        item_path = f"{path}.{name}" if path else name
        if has_metadata and name in _METADATA:
            pruned[name] = item
        elif name in properties:
            pruned[name] = _prune(properties[name], item, item_path, unknown)
        elif isinstance(additional, Mapping):
            pruned[name] = _prune(additional, item, item_path, unknown)
        elif keeps_unknown:
            pruned[name] = item
        else:
            unknown.append(item_path)
    return pruned


def validate_root(schema: Schema, obj: Mapping[str, Any]) -> Iterator[FieldError]:
    """Yield an error for every rule of the schema that an object violates."""
    content = {name: value for name, value in obj.items() if name not in _METADATA}
    properties = {
        name: field for name, field in (schema.get("properties") or {}).items() if name not in _METADATA
    }
    required_fields = [name for name in schema.get("required") or () if name not in _METADATA]
    yield from _validate({**schema, "properties": properties, "required": required_fields}, content, "")


def _validate(schema: Schema, value: Any, path: str) -> Iterator[FieldError]:
    if value is None:
        if not schema.get("nullable") and path:
            yield _type_error(schema, value, path)
        return
    if not _has_type(schema, value):
        yield _type_error(schema, value, path)
        return
    yield from _validate_value(schema, value, path)
    if isinstance(value, dict):
        yield from _validate_object(schema, value, path)
    elif isinstance(value, list | tuple):
        yield from _validate_array(schema, value, path)
    elif isinstance(value, str):
        yield from _validate_string(schema, value, path)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield from _validate_number(schema, value, path)
    yield from _validate_combinations(schema, value, path)


def _has_type(schema: Schema, value: Any) -> bool:
    if schema.get(_INT_OR_STRING):
        return isinstance(value, str) or (isinstance(value, int) and not isinstance(value, bool))
    expected = _TYPES.get(schema.get("type") or "")
    if expected is None:
        return True
    if isinstance(value, bool):
        return bool in expected
    if schema["type"] == "integer" and isinstance(value, float):
        return value.is_integer()
    return isinstance(value, expected)


def _type_error(schema: Schema, value: Any, path: str) -> FieldError:
    expected = "integer,string" if schema.get(_INT_OR_STRING) else schema.get("type")
    actual = "null" if value is None else _type_name(value)
    return invalid(path, f'{_quote(value)}: {path} in body must be of type {expected}: "{actual}"')


def _type_name(value: Any) -> str:
    if isinstance(value, bool):
        return "boolean"
    names = (name for name, types in _TYPES.items() if isinstance(value, types))
    return next(names, type(value).__name__)


def _quote(value: Any) -> str:
    return f'"{value}"' if isinstance(value, str) else _type_name(value)


def _validate_value(schema: Schema, value: Any, path: str) -> Iterator[FieldError]:
    allowed = schema.get("enum")
    if allowed is not None and not any(json_equal(value, item) for item in allowed):
        values = ", ".join(f'"{item}"' for item in allowed)
        yield (
            path,
            "FieldValueNotSupported",
            f"Unsupported value: {_quote(value)}: supported values: {values}",
        )


def _validate_object(schema: Schema, value: Mapping[str, Any], path: str) -> Iterator[FieldError]:
    properties = schema.get("properties") or {}
    additional = schema.get("additionalProperties")
    prefix = f"{path}." if path else ""
    for name in schema.get("required") or ():
        if name not in value:
            yield required(f"{prefix}{name}")
    for name, item in value.items():
        field = properties.get(name, additional)
        if isinstance(field, Mapping):
            yield from _validate(field, item, f"{prefix}{name}")
    yield from _validate_bounds(schema, len(value), "Properties", path)


def _validate_array(schema: Schema, value: Sequence[Any], path: str) -> Iterator[FieldError]:
    items = schema.get("items")
    if isinstance(items, Mapping):
        for index, item in enumerate(value):
            yield from _validate(items, item, f"{path}[{index}]")
    yield from _validate_bounds(schema, len(value), "Items", path)
    yield from _validate_unique(schema, value, path)


def _validate_unique(schema: Schema, value: Sequence[Any], path: str) -> Iterator[FieldError]:
    """Validate that a set has no item twice, and a list of maps no item with the same keys."""
    list_type, names = schema.get(_LIST_TYPE), schema.get(_LIST_MAP_KEYS) or ()
    if list_type not in ("set", "map"):
        return
    seen: list[Any] = []
    for index, item in enumerate(value):
        key = item
        if list_type == "map":
            key = {name: item[name] for name in names if name in item} if isinstance(item, dict) else None
        if any(json_equal(key, other) for other in seen):
            encoded = msgspec.json.encode(key).decode()
            yield f"{path}[{index}]", "FieldValueDuplicate", f"Duplicate value: {encoded}"
        seen.append(key)


def _validate_string(schema: Schema, value: str, path: str) -> Iterator[FieldError]:
    yield from _validate_bounds(schema, len(value), "Length", path)
    pattern = schema.get("pattern")
    if pattern and (compiled := _compile(pattern)) is not None and not compiled.search(value):
        yield invalid(path, f"\"{value}\": {path} in body should match '{pattern}'")


def _validate_bounds(schema: Schema, size: int, noun: str, path: str) -> Iterator[FieldError]:
    low, high = schema.get(f"min{noun}"), schema.get(f"max{noun}")
    if low is not None and size < low:
        yield invalid(path, f"{size}: {path} in body should have at least {low} {noun.lower()}")
    if high is not None and size > high:
        yield invalid(path, f"{size}: {path} in body should have at most {high} {noun.lower()}")


def _validate_number(schema: Schema, value: float, path: str) -> Iterator[FieldError]:
    low, high = schema.get("minimum"), schema.get("maximum")
    if low is not None and (value < low or (schema.get("exclusiveMinimum") and value == low)):
        yield invalid(path, f"{value}: {path} in body should be greater than or equal to {low}")
    if high is not None and (value > high or (schema.get("exclusiveMaximum") and value == high)):
        yield invalid(path, f"{value}: {path} in body should be less than or equal to {high}")


def _validate_combinations(schema: Schema, value: Any, path: str) -> Iterator[FieldError]:
    for part in schema.get("allOf") or ():
        yield from _validate(part, value, path)
    any_of, one_of = schema.get("anyOf"), schema.get("oneOf")
    if any_of and not any(_is_valid(part, value, path) for part in any_of):
        yield invalid(path, f"{_quote(value)}: {path} in body must validate at least one schema (anyOf)")
    if one_of and sum(_is_valid(part, value, path) for part in one_of) != 1:
        yield invalid(path, f"{_quote(value)}: {path} in body must validate one and only one schema (oneOf)")
    forbidden = schema.get("not")
    if forbidden and _is_valid(forbidden, value, path):
        yield invalid(path, f"{_quote(value)}: {path} in body must not validate the schema (not)")


def _is_valid(schema: Schema, value: Any, path: str) -> bool:
    return next(_validate(schema, value, path), None) is None


@lru_cache(maxsize=1024)
def _compile(pattern: str) -> re.Pattern[str] | None:
    """Return a compiled pattern; None if Python does not know its syntax (Go's RE2)."""
    try:
        return re.compile(pattern)
    except re.error:
        return None
