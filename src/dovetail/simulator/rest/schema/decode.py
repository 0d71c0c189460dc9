"""Decoding of request objects by the fields and types of their kind.

The simulated controllers trust the store: a list is a list, a quantity a quantity.
This module ensures it for objects from clients.
"""

from base64 import b64decode
from binascii import Error as Base64Error
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, Final

import msgspec

from dovetail.model.kube.quantity import parse_quantity
from dovetail.ports.api_resources import Resource
from dovetail.ports.kube_errors import BadRequest, Invalid
from dovetail.simulator.apiserver.admission.structural_schema import Schema, prune
from dovetail.simulator.rest.schema.fields import Field, json_fields

_TYPE_META: Final = {name: Field(name, 0, "str") for name in ("apiVersion", "kind")}
_METADATA: Final = Field("metadata", 0, "ObjectMeta")
_HEADER: Final = ("apiVersion", "kind", "metadata")
_UNTYPED_SPEC: Final = Field("spec", 0, "any")

_NODE_SELECTOR_REQUIREMENT: Final = "NodeSelectorRequirement"
"""A type that needs more than a check of its fields' types."""
_NODE_SELECTOR_OPERATORS: Final = ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")


class DecodedObject(msgspec.Struct, frozen=True):
    """An object without its unknown fields, and the paths of these."""

    object: dict[str, Any]
    unknown_fields: list[str]


def decode_fields(
    resource: Resource, obj: Mapping[str, Any], *, kind: str = "", schema: Schema | None = None
) -> DecodedObject:
    """Return an object without unknown fields; BadRequest if a type is wrong.

    ``kind`` is given if it is not the resource's own: Scale, Eviction, Binding.
    ``schema`` is that of a client's CustomResourceDefinition.
    """
    kind = kind or resource.kind
    if obj.get("kind", kind) != kind:
        raise BadRequest(f"{_shorten(obj['kind'])} cannot be handled as a {kind}")
    if schema is not None and kind == resource.kind:
        return _decode_custom(schema, obj)
    fields = {**json_fields(kind), **_TYPE_META}
    decoder = _Decoder()
    if resource.is_custom and kind == resource.kind:
        # Values are left to admission, which reports all errors of a spec at once.
        pruned = _Decoder(check_types=False)
        spec = pruned.decode_object({"spec": fields["spec"]}, {"spec": obj.get("spec")}, "")
        obj = {**obj, **spec}
        decoder.unknown_fields += pruned.unknown_fields
        fields["spec"] = _UNTYPED_SPEC
    decoded = decoder.decode_object(fields, obj, "")
    if decoder.errors:
        summary = ", ".join(f"{path}: {message}" for path, message in decoder.errors)
        if resource.is_custom:
            raise Invalid(f"{resource.kind} is invalid: {summary}", kind=resource.kind)
        raise BadRequest(f'{kind} in version "{resource.version}" cannot be handled as a {kind}: {summary}')
    return DecodedObject(decoded, decoder.unknown_fields)


def _decode_custom(schema: Schema, obj: Mapping[str, Any]) -> DecodedObject:
    """Prune an object by its schema; admission validates it."""
    decoder = _Decoder()
    header = decoder.decode_object({**_TYPE_META, "metadata": _METADATA}, _select(obj, _HEADER), "")
    if decoder.errors:
        summary = ", ".join(f"{path}: {message}" for path, message in decoder.errors)
        raise BadRequest(f"the object cannot be decoded: {summary}")
    pruned, unknown_fields = prune(schema, obj)
    return DecodedObject(pruned | header, [*decoder.unknown_fields, *unknown_fields])


def _select(obj: Mapping[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    return {name: obj[name] for name in names if name in obj}


class _Decoder:
    """Decodes one object; collects all errors."""

    def __init__(self, *, check_types: bool = True) -> None:
        """Without ``check_types``, values of a wrong type and nulls are kept."""
        self._check_types = check_types
        self.unknown_fields: list[str] = []
        self.errors: list[tuple[str, str]] = []

    def decode_object(self, fields: Mapping[str, Field], obj: Mapping[str, Any], path: str) -> Any:
        decoded = {}
        for name, value in obj.items():
            field_path = f"{path}.{name}" if path else name
            field = fields.get(name)
            if field is None:
                self.unknown_fields.append(field_path)
            elif value is not None:
                decoded[name] = self._decode_field(field, value, field_path)
            elif not self._check_types:
                decoded[name] = None
        return decoded

    def _decode_field(self, field: Field, value: Any, path: str) -> Any:
        if field.is_list:
            if not isinstance(value, list):
                return self._add_error(path, value, "list")
            return [
                self._decode_value(field.type, item, f"{path}[{index}]") for index, item in enumerate(value)
            ]
        if field.is_map:
            if not isinstance(value, dict):
                return self._add_error(path, value, "map")
            return {
                key: self._decode_value(field.type, item, f"{path}[{key}]")
                for key, item in value.items()
                if item is not None or not self._check_types
            }
        return self._decode_value(field.type, value, path)

    def _decode_value(self, type_name: str, value: Any, path: str) -> Any:
        scalar = _SCALARS.get(type_name)
        if scalar is not None:
            is_valid, description = scalar
            return value if is_valid(value) else self._add_error(path, value, description)
        if not isinstance(value, dict):
            return self._add_error(path, value, "map")
        if type_name == _NODE_SELECTOR_REQUIREMENT and not _is_requirement(value):
            return self._add_error(path, value, "requirement")
        return self.decode_object(json_fields(type_name), value, path)

    def _add_error(self, path: str, value: Any, expected: str) -> Any:
        """Record an error; the result takes the place of the value."""
        if self._check_types:
            self.errors.append((path, f"{_shorten(value)} is not a {expected}"))
        return value


def _is_requirement(requirement: Mapping[str, Any]) -> bool:
    operator, values = requirement.get("operator"), requirement.get("values") or ()
    return (
        isinstance(operator, str)
        and isinstance(values, list | tuple)
        and bool(requirement.get("key"))
        and operator in _NODE_SELECTOR_OPERATORS
        and _has_value_count(operator, values)
    )


def _has_value_count(operator: str, values: Any) -> bool:
    if operator in ("In", "NotIn"):
        return len(values) > 0
    return len(values) == (1 if operator in ("Gt", "Lt") else 0)


def _shorten(value: Any) -> str:
    text = msgspec.json.encode(value).decode()
    return text if len(text) <= 60 else f"{text[:57]}…"


def _is_int(bits: int) -> Callable[[Any], bool]:
    def is_valid(value: Any) -> bool:
        is_number = isinstance(value, int) and not isinstance(value, bool)
        return is_number and -(2 ** (bits - 1)) <= value < 2 ** (bits - 1)

    return is_valid


def _is_string(value: Any) -> bool:
    return isinstance(value, str)


def _is_quantity(value: Any) -> bool:
    try:
        parse_quantity(value)
    except ValueError:
        return False
    return True


def _is_time(value: Any) -> bool:
    try:
        return datetime.fromisoformat(value).tzinfo is not None
    except (TypeError, ValueError):
        return False


def _is_base64(value: Any) -> bool:
    try:
        return isinstance(value, str) and b64decode(value, validate=True) is not None
    except (Base64Error, ValueError):
        return False


_SCALARS: Final[Mapping[str, tuple[Callable[[Any], bool], str]]] = {
    "str": (_is_string, "string"),
    "int": (_is_int(64), "64-bit integer"),
    "int32": (_is_int(32), "32-bit integer"),
    "bool": (lambda value: isinstance(value, bool), "boolean"),
    "float": (lambda value: isinstance(value, int | float) and not isinstance(value, bool), "number"),
    "bytes": (_is_base64, "base64 string"),
    "quantity": (_is_quantity, "quantity"),
    "intstr": (lambda value: isinstance(value, str) or _is_int(32)(value), "32-bit integer or string"),
    "time": (_is_time, "time such as 2026-01-31T12:00:00Z"),
    "microtime": (_is_time, "time such as 2026-01-31T12:00:00.000000Z"),
    "strings": (lambda value: isinstance(value, list) and all(map(_is_string, value)), "list of strings"),
    "fields": (lambda value: isinstance(value, dict), "map"),
    "any": (lambda _: True, ""),
}
"""Check and description of each scalar type."""
