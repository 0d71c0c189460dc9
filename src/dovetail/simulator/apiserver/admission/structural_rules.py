"""Rules that make the schema of a CustomResourceDefinition structural.

Each field and item has a type outside of ``allOf``, ``anyOf``, ``oneOf`` and ``not``, and
those specify nothing but validation: https://kep.k8s.io/1693.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from dovetail.simulator.apiserver.admission.field_errors import FieldError, forbidden, invalid, required

Schema = Mapping[str, Any]

_INT_OR_STRING: Final = "x-kubernetes-int-or-string"
_PRESERVE: Final = "x-kubernetes-preserve-unknown-fields"
_EMBEDDED: Final = "x-kubernetes-embedded-resource"
_INT_OR_STRING_TYPES: Final = [{"type": "integer"}, {"type": "string"}]
_JUNCTORS: Final = ("allOf", "anyOf", "oneOf")
_NO_TYPE: Final = {
    "root": "must not be empty at the root",
    "item": "must not be empty for specified array items",
    "field": "must not be empty for specified object fields",
}
_ONLY_OUTSIDE: Final = {
    "type": "must be empty to be structural",
    "title": "must be empty to be structural",
    "description": "must be empty to be structural",
    "default": "must be undefined to be structural",
    "additionalProperties": "must be undefined to be structural",
    "nullable": "must be false to be structural",
    _PRESERVE: "must be false to be structural",
    _EMBEDDED: "must be false to be structural",
    _INT_OR_STRING: "must be false to be structural",
    "x-kubernetes-list-map-keys": "must be empty to be structural",
    "x-kubernetes-list-type": "must be undefined to be structural",
}
"""Fields that nested validations may not have, and why."""


def validate_structural(schema: Schema, path: str) -> Iterator[FieldError]:
    """Yield an error for every rule that a schema breaks, in the order of their paths."""
    errors = [*_validate(schema, "root", path)]
    # As in the API server, fields below the root may lack what their own nested validations name.
    for nested, nested_path in _nested(schema, path):
        errors += _find_missing(nested, schema, path, nested_path)
    yield from sorted(errors, key=lambda error: (error[0], error[2]))


def _validate(schema: Schema, level: str, path: str) -> Iterator[FieldError]:
    items, additional = schema.get("items"), schema.get("additionalProperties")
    if isinstance(items, Mapping):
        yield from _validate(items, "item", f"{path}.items")
    elif schema.get("type") == "array":
        yield required(f"{path}.items", "must be specified")
    for name, field in _properties(schema):
        yield from _validate(field, "field", f"{path}.properties[{name}]")
    if additional is not None and level == "root":
        yield forbidden(f"{path}.additionalProperties", "must not be used at the root")
    if isinstance(additional, Mapping):
        yield from _validate(additional, "field", f"{path}.additionalProperties")
    yield from _validate_type(schema, level, path)
    for nested, nested_path in _nested(_drop_integer_or_string(schema), path):
        yield from _validate_nested(nested, nested_path)


def _drop_integer_or_string(schema: Schema) -> Schema:
    """Return a schema without ``anyOf`` an integer or a string, which may have types.

    ``allOf`` may begin with it.
    """
    if _is_integer_or_string(schema):
        schema = _drop_any_of(schema)
    first, *others = list(schema.get("allOf") or ()) or [None]
    if isinstance(first, Mapping) and _is_integer_or_string(first):
        return {**schema, "allOf": [_drop_any_of(first), *others]}
    return schema


def _is_integer_or_string(schema: Schema) -> bool:
    return list(schema.get("anyOf") or ()) == _INT_OR_STRING_TYPES


def _drop_any_of(schema: Schema) -> Schema:
    return {name: value for name, value in schema.items() if name != "anyOf"}


def _validate_type(schema: Schema, level: str, path: str) -> Iterator[FieldError]:
    kind = schema.get("type")
    if schema.get(_EMBEDDED) and kind != "object":
        message = "must be object if x-kubernetes-embedded-resource is true"
        yield invalid(f"{path}.type", f'"{kind}": {message}') if kind else required(f"{path}.type", message)
    elif not kind and not schema.get(_INT_OR_STRING) and not schema.get(_PRESERVE):
        yield required(f"{path}.type", _NO_TYPE[level])
    elif kind and level == "root" and kind != "object":
        yield invalid(f"{path}.type", f'"{kind}": must be object at the root')


def _validate_nested(schema: Schema, path: str) -> Iterator[FieldError]:
    """Validate a schema below ``allOf``, ``anyOf``, ``oneOf`` or ``not``."""
    for name, message in _ONLY_OUTSIDE.items():
        if schema.get(name):
            yield forbidden(f"{path}.{name}", message)
    for nested, nested_path in _nested(schema, path):
        yield from _validate_nested(nested, nested_path)
    if isinstance(schema.get("items"), Mapping):
        yield from _validate_nested(schema["items"], f"{path}.items")
    for name, field in _properties(schema):
        if name == "metadata":
            yield forbidden(f"{path}.properties[metadata]", "must not be specified in a nested context")
        yield from _validate_nested(field, f"{path}.properties[{name}]")


def _find_missing(validation: Schema, schema: Any, path: str, source: str) -> Iterator[FieldError]:
    """Yield an error for every field of a nested validation that the schema lacks."""
    if not isinstance(schema, Mapping):
        yield required(path, f"because it is defined in {source}")
        return
    for nested, nested_source in _nested(validation, source):
        yield from _find_missing(nested, schema, path, nested_source)
    if isinstance(validation.get("items"), Mapping):
        items = f"{source}.items"
        yield from _find_missing(validation["items"], schema.get("items"), f"{path}.items", items)
    fields = dict(_properties(schema))
    for name, field in _properties(validation):
        step = f".properties[{name}]"
        yield from _find_missing(field, fields.get(name), f"{path}{step}", f"{source}{step}")


def _nested(schema: Schema, path: str) -> Iterator[tuple[Schema, str]]:
    """Yield the schemas and paths of ``allOf``, ``anyOf``, ``oneOf`` and ``not``."""
    for name in _JUNCTORS:
        for index, nested in enumerate(schema.get(name) or ()):
            if isinstance(nested, Mapping):
                yield nested, f"{path}.{name}[{index}]"
    if isinstance(schema.get("not"), Mapping):
        yield schema["not"], f"{path}.not"


def _properties(schema: Schema) -> Iterator[tuple[str, Schema]]:
    for name, field in (schema.get("properties") or {}).items():
        if isinstance(field, Mapping):
            yield name, field
