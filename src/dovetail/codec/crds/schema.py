"""The pieces that the schema of a custom resource is put together from.

A rule in words (CEL) is preferred to a pattern wherever its cost is bounded:
who breaks a pattern is shown a regular expression, who breaks a rule a sentence.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

Schema = dict[str, Any]
"""A structural schema as the API server reads it."""
Rule = dict[str, Any]

_LONGEST_TEXT = 256
AMOUNT = r"\+?([0-9]+\.?[0-9]*|\.[0-9]+)([numkMGTPE]|[KMGTPE]i|[eE][+-]?[0-9]{1,4})?"
"""A quantity of zero or more, as a regular expression."""


def rule(expression: str, message: str) -> Rule:
    """Return a rule in CEL and the sentence for those who break it."""
    return {"rule": expression, "message": message}


def matching(pattern: re.Pattern[str], message: str) -> Rule:
    """Return the rule that the whole of a text is as ``pattern`` says."""
    return rule(f"self.matches({quoted(f'^({pattern.pattern})$')})", message)


def containing(pattern: re.Pattern[str], message: str) -> Rule:
    """Return the rule that ``pattern`` is found somewhere in a text."""
    return rule(f"self.matches({quoted(pattern.pattern)})", message)


def quoted(text: str) -> str:
    """Spell a text in CEL; raw, so that regular expressions stay as they are."""
    if "'" in text:
        raise ValueError(f"{text!r} has a quote in it")
    return f"r'{text}'" if "\\" in text else f"'{text}'"


def listed(words: Iterable[str]) -> str:
    """Spell a list of texts in CEL."""
    return f"[{', '.join(quoted(word) for word in words)}]"


def text(
    about: str,
    *rules: Rule,
    longest: int | None = None,
    shortest: int | None = None,
    default: str | None = None,
) -> Schema:
    """Return the schema of a text; one with rules has a longest length, so that they are cheap."""
    if longest is None and rules:
        longest = _LONGEST_TEXT
    return _without_nothing(
        {
            "description": about,
            "type": "string",
            "minLength": shortest,
            "maxLength": longest,
            "default": default,
            "x-kubernetes-validations": list(rules) or None,
        }
    )


def choice(about: str, words: Iterable[str], *, default: str | None = None) -> Schema:
    """Return the schema of a text that is one of a few words."""
    return _without_nothing(
        {
            "description": about,
            "type": "string",
            "enum": [str(word) for word in words],
            "default": default,
        }
    )


def whole(
    about: str,
    *,
    low: int | None = None,
    high: int | None = None,
    default: int | None = None,
    size: str = "int32",
) -> Schema:
    """Return the schema of a whole number within bounds."""
    return _without_nothing(
        {
            "description": about,
            "type": "integer",
            "format": size,
            "minimum": low,
            "maximum": high,
            "default": default,
        }
    )


def switch(about: str) -> Schema:
    """Return the schema of a truth value."""
    return {"description": about, "type": "boolean"}


def instant(about: str) -> Schema:
    """Return the schema of a time stamp."""
    return {"description": about, "type": "string", "format": "date-time"}


def listing(
    about: str,
    items: Schema,
    *rules: Rule,
    most: int | None = None,
    least: int | None = None,
    keyed_by: Sequence[str] = (),
    distinct: bool = False,
) -> Schema:
    """Return the schema of a list: replaced whole, unless it is keyed or a set."""
    kind = "map" if keyed_by else "set" if distinct else "atomic"
    return _without_nothing(
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
    """Return the schema of a map from texts to values of one kind."""
    return _without_nothing(
        {
            "description": about,
            "type": "object",
            "additionalProperties": values,
            "maxProperties": most,
            "x-kubernetes-validations": list(rules) or None,
        }
    )


def amounts(about: str, *rules: Rule, most: int | None = None) -> Schema:
    """Return the schema of a resource list: names to quantities of zero or more."""
    quantity = {
        "anyOf": [{"type": "integer"}, {"type": "string"}],
        "pattern": f"^{AMOUNT}$",
        "minimum": 0,
        "x-kubernetes-int-or-string": True,
    }
    return mapping(about, quantity, *rules, most=most)


def record(
    about: str,
    fields: Mapping[str, Schema],
    *rules: Rule,
    required: Sequence[str] = (),
    default: Mapping[str, Any] | None = None,
    further_fields: bool = False,
) -> Schema:
    """Return the schema of an object with named fields."""
    return _without_nothing(
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


def _without_nothing(parts: Mapping[str, Any]) -> Schema:
    return {name: part for name, part in parts.items() if part is not None}
