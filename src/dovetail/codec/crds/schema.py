"""Builders for structural schemas of CustomResourceDefinitions, one per type.

CEL rules are preferred to patterns where their cost is bounded: a violated pattern
shows the user a regular expression, a violated rule shows a message.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

Schema = dict[str, Any]
"""A structural schema in wire format."""
Rule = dict[str, Any]

_MAX_RULE_LENGTH = 256
QUANTITY_PATTERN = r"\+?([0-9]+\.?[0-9]*|\.[0-9]+)([numkMGTPE]|[KMGTPE]i|[eE][+-]?[0-9]{1,4})?"
"""Regular expression of a non-negative quantity."""


def rule(expression: str, message: str) -> Rule:
    """Return a CEL validation rule with its error message."""
    return {"rule": expression, "message": message}


def full_match(pattern: re.Pattern[str], message: str) -> Rule:
    """Return the rule that a string matches ``pattern`` completely."""
    return rule(f"self.matches({cel_string(f'^({pattern.pattern})$')})", message)


def search(pattern: re.Pattern[str], message: str) -> Rule:
    """Return the rule that a string contains a match of ``pattern``."""
    return rule(f"self.matches({cel_string(pattern.pattern)})", message)


def cel_string(text: str) -> str:
    """Return a CEL string literal; raw if it contains backslashes."""
    if "'" in text:
        raise ValueError(f"{text!r} has a quote in it")
    return f"r'{text}'" if "\\" in text else f"'{text}'"


def cel_list(words: Iterable[str]) -> str:
    """Return a CEL list of string literals."""
    return f"[{', '.join(cel_string(word) for word in words)}]"


def string(
    about: str,
    *rules: Rule,
    longest: int | None = None,
    shortest: int | None = None,
    default: str | None = None,
) -> Schema:
    """Return the schema of a string; rules imply a maximum length to bound their cost."""
    if longest is None and rules:
        longest = _MAX_RULE_LENGTH
    return _drop_none(
        {
            "description": about,
            "type": "string",
            "minLength": shortest,
            "maxLength": longest,
            "default": default,
            "x-kubernetes-validations": list(rules) or None,
        }
    )


def enum(about: str, words: Iterable[str], *, default: str | None = None) -> Schema:
    """Return the schema of a string with an enum."""
    return _drop_none(
        {"description": about, "type": "string", "enum": [str(word) for word in words], "default": default}
    )


def integer(
    about: str,
    *,
    low: int | None = None,
    high: int | None = None,
    default: int | None = None,
    size: str = "int32",
) -> Schema:
    """Return the schema of an integer within bounds."""
    return _drop_none(
        {
            "description": about,
            "type": "integer",
            "format": size,
            "minimum": low,
            "maximum": high,
            "default": default,
        }
    )


def boolean(about: str) -> Schema:
    """Return the schema of a boolean."""
    return {"description": about, "type": "boolean"}


def timestamp(about: str) -> Schema:
    """Return the schema of a timestamp."""
    return {"description": about, "type": "string", "format": "date-time"}


def array(
    about: str,
    items: Schema,
    *rules: Rule,
    most: int | None = None,
    least: int | None = None,
    keyed_by: Sequence[str] = (),
    distinct: bool = False,
) -> Schema:
    """Return the schema of a list: atomic, unless it has keys or is a set."""
    kind = "map" if keyed_by else "set" if distinct else "atomic"
    return _drop_none(
        {
            "description": about,
            "type": "array",
            "items": items,
            "minItems": least,
            "maxItems": most,
            "x-kubernetes-list-type": kind,
            "x-kubernetes-list-map-keys": list(keyed_by) or None,
            "x-kubernetes-validations": list(rules) or None,
        }
    )


def mapping(about: str, values: Schema, *rules: Rule, most: int | None = None) -> Schema:
    """Return the schema of a map from strings to values of one schema."""
    return _drop_none(
        {
            "description": about,
            "type": "object",
            "additionalProperties": values,
            "maxProperties": most,
            "x-kubernetes-validations": list(rules) or None,
        }
    )


def quantities(about: str, *rules: Rule, most: int | None = None) -> Schema:
    """Return the schema of a resource list: names to non-negative quantities."""
    quantity = {
        "anyOf": [{"type": "integer"}, {"type": "string"}],
        "pattern": f"^{QUANTITY_PATTERN}$",
        "minimum": 0,
        "x-kubernetes-int-or-string": True,
    }
    return mapping(about, quantity, *rules, most=most)


def integer_or_string(about: str, *rules: Rule, longest: int) -> Schema:
    """Return the schema of a value that is an integer or text."""
    return {
        "description": about,
        "anyOf": [{"type": "integer"}, {"type": "string"}],
        "maxLength": longest,
        "x-kubernetes-int-or-string": True,
        "x-kubernetes-validations": list(rules),
    }


def struct(
    about: str,
    fields: Mapping[str, Schema],
    *rules: Rule,
    required: Sequence[str] = (),
    default: Mapping[str, Any] | None = None,
    further_fields: bool = False,
) -> Schema:
    """Return the schema of an object with named fields."""
    return _drop_none(
        {
            "description": about,
            "type": "object",
            "properties": dict(fields),
            "required": list(required) or None,
            "default": None if default is None else dict(default),
            "x-kubernetes-preserve-unknown-fields": True if further_fields else None,
            "x-kubernetes-validations": list(rules) or None,
        }
    )


def _drop_none(parts: Mapping[str, Any]) -> Schema:
    return {name: part for name, part in parts.items() if part is not None}
