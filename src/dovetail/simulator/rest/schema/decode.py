"""Holding what callers send against the fields of its kind.

Simulated actors trust what is stored: a list is a list, an amount is an amount.
This is where that is made true for what comes from outside.
"""

from base64 import b64decode
from binascii import Error as NotBase64
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, Final

import msgspec

from dovetail.model.kube.quantity import parse_quantity
from dovetail.ports.api_resources import Resource
from dovetail.ports.kube_errors import BadRequest, Invalid
from dovetail.simulator.rest.schema.tables import Field, fields_in_json

_ROOT: Final = {name: Field(name, 0, "str") for name in ("apiVersion", "kind")}
_CHECKED_ELSEWHERE: Final = Field("spec", 0, "any")
"""The rules of custom resources say everything about their spec, and all at once."""

_OF_LABELS: Final = ("In", "NotIn", "Exists", "DoesNotExist")
_OPERATORS: Final[Mapping[str, tuple[str, ...]]] = {
    "LabelSelectorRequirement": _OF_LABELS,
    "NodeSelectorRequirement": (*_OF_LABELS, "Gt", "Lt"),
}
"""Where the type is not enough: a selector that cannot be read selects nobody knows what."""


class Decoded(msgspec.Struct, frozen=True):
    """An object of known fields only, and the names of those that were not known."""

    object: dict[str, Any]
    unknown: list[str]


def decode(resource: Resource, obj: Mapping[str, Any], *, kind: str = "") -> Decoded:
    """Return an object as its kind has it; BadRequest when a field has another type.

    ``kind`` is given where it is not the resource's own: a Scale, an Eviction.
    """
    kind = kind or resource.kind
    if obj.get("kind", kind) != kind:
        raise BadRequest(f"{_short(obj['kind'])} cannot be handled as a {kind}")
    known = {**fields_in_json(kind), **_ROOT}
    if resource.custom and kind == resource.kind:
        known["spec"] = _CHECKED_ELSEWHERE
    reading = _Reading()
    decoded = reading.fields(known, obj, "")
    if reading.wrong:
        told = ", ".join(f"{path}: {what}" for path, what in reading.wrong)
        if resource.custom:
            raise Invalid(f"{resource.kind} is invalid: {told}", kind=resource.kind)
        raise BadRequest(
            f'{kind} in version "{resource.version}" cannot be handled as a {kind}: {told}'
        )
    return Decoded(decoded, reading.unknown)


class _Reading:
    """One pass over an object; gathers what is wrong instead of stopping at it."""

    def __init__(self) -> None:
        self.unknown: list[str] = []
        self.wrong: list[tuple[str, str]] = []

    def fields(self, known: Mapping[str, Field], obj: Mapping[str, Any], path: str) -> Any:
        read = {}
        for name, value in obj.items():
            place = f"{path}.{name}" if path else name
            field = known.get(name)
            if field is None:
                self.unknown.append(place)
            elif value is not None:
                read[name] = self.field(field, value, place)
        return read

    def field(self, field: Field, value: Any, path: str) -> Any:
        if field.is_list:
            if not isinstance(value, list):
                return self._refuse(path, value, "list")
            return [self.one(field.kind, one, f"{path}[{at}]") for at, one in enumerate(value)]
        if field.is_map:
            if not isinstance(value, dict):
                return self._refuse(path, value, "map")
            return {
                key: self.one(field.kind, one, f"{path}[{key}]")
                for key, one in value.items()
                if one is not None
            }
        return self.one(field.kind, value, path)

    def one(self, kind: str, value: Any, path: str) -> Any:
        scalar = _SCALARS.get(kind)
        if scalar is not None:
            test, noun = scalar
            return value if test(value) else self._refuse(path, value, noun)
        if not isinstance(value, dict):
            return self._refuse(path, value, "map")
        if kind in _OPERATORS and not _makes_sense(value, _OPERATORS[kind]):
            return self._refuse(path, value, "requirement")
        return self.fields(fields_in_json(kind), value, path)

    def _refuse(self, path: str, value: Any, noun: str) -> None:
        self.wrong.append((path, f"{_short(value)} is no {noun}"))


def _makes_sense(requirement: Mapping[str, Any], operators: tuple[str, ...]) -> bool:
    operator, values = requirement.get("operator"), requirement.get("values") or ()
    readable = isinstance(operator, str) and isinstance(values, list | tuple)
    return (
        readable
        and bool(requirement.get("key"))
        and operator in operators
        and _fits(operator, values)
    )


def _fits(operator: str, values: Any) -> bool:
    if operator in ("In", "NotIn"):
        return len(values) > 0
    return len(values) == (1 if operator in ("Gt", "Lt") else 0)


def _short(value: Any) -> str:
    text = msgspec.json.encode(value).decode()
    return text if len(text) <= 60 else f"{text[:57]}…"


def _is_whole(bits: int) -> Callable[[Any], bool]:
    def test(value: Any) -> bool:
        is_number = isinstance(value, int) and not isinstance(value, bool)
        return is_number and -(2 ** (bits - 1)) <= value < 2 ** (bits - 1)

    return test


def _is_text(value: Any) -> bool:
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
    except (NotBase64, ValueError):
        return False


def _is_whole_or_text(value: Any) -> bool:
    return isinstance(value, str) or _is_whole(32)(value)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_texts(value: Any) -> bool:
    return isinstance(value, list) and all(map(_is_text, value))


_SCALARS: Final[Mapping[str, tuple[Callable[[Any], bool], str]]] = {
    "str": (_is_text, "string"),
    "int": (_is_whole(64), "whole number"),
    "int32": (_is_whole(32), "whole number of 32 bits"),
    "bool": (lambda value: isinstance(value, bool), "boolean"),
    "float": (_is_number, "number"),
    "bytes": (_is_base64, "base64"),
    "quantity": (_is_quantity, "quantity"),
    "intstr": (_is_whole_or_text, "whole number or string"),
    "time": (_is_time, "time as in 2026-01-31T12:00:00Z"),
    "microtime": (_is_time, "time as in 2026-01-31T12:00:00.000000Z"),
    "strings": (_is_texts, "list of strings"),
    "fields": (lambda value: isinstance(value, dict), "map"),
    "any": (lambda _: True, ""),
}
