"""A small IAM policy evaluator.

It supports what our policies use: actions and resources with wildcards, and the
condition operators below. Anything else in a document is an error, so that no
policy passes by misinterpretation.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec

Values = list[str]


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """One action on one resource, with the keys of conditions."""

    action: str
    resource: str = "*"
    context: Mapping[str, str | list[str]] = msgspec.field(default_factory=dict)


def allows(documents: Iterable[Mapping[str, Any]], request: Request) -> bool:
    """Return True if a statement allows the request and none denies it."""
    effects = [
        statement["Effect"]
        for document in documents
        for statement in document["Statement"]
        if _applies(statement, request)
    ]
    return "Allow" in effects and "Deny" not in effects


def _applies(statement: Mapping[str, Any], request: Request) -> bool:
    unknown = set(statement) - {"Sid", "Effect", "Action", "Resource", "Condition", "Principal"}
    assert not unknown, f"the evaluator does not know {unknown}"
    return (
        any(
            _matches_pattern(pattern, request.action, ignore_case=True)
            for pattern in _as_list(statement["Action"])
        )
        and any(_matches_pattern(pattern, request.resource) for pattern in _as_list(statement["Resource"]))
        and all(
            _condition_holds(operator, key, _as_list(expected), request.context)
            for operator, tests in statement.get("Condition", {}).items()
            for key, expected in tests.items()
        )
    )


def _condition_holds(operator: str, key: str, expected: Values, context: Mapping[str, Any]) -> bool:
    present = key in context
    values = _as_list(context[key]) if present else []
    if operator == "ForAllValues:StringEquals":
        return all(value in expected for value in values)
    if operator == "StringEqualsIfExists":
        return not present or values[0] in expected
    tests: dict[str, Callable[[str, str], bool]] = {
        "StringEquals": lambda pattern, value: pattern == value,
        "StringLike": _matches_pattern,
        "ArnLike": _matches_pattern,
        "Bool": lambda pattern, value: pattern == value,
    }
    return present and any(tests[operator](pattern, values[0]) for pattern in expected)


def _matches_pattern(pattern: str, value: str, *, ignore_case: bool = False) -> bool:
    expression = "".join({"*": ".*", "?": "."}.get(character, re.escape(character)) for character in pattern)
    return re.fullmatch(expression, value, re.IGNORECASE if ignore_case else 0) is not None


def _as_list(value: Any) -> Values:
    return list(value) if isinstance(value, list | tuple) else [value]
