"""A small IAM: whether policy documents allow a request.

Knows what our own policies use: actions and resources with wildcards, and the
condition operators below. Anything else in a document is an error here, so
that a policy cannot pass by being misunderstood.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec

Values = list[str]


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """One action on one resource, with the keys that conditions look at."""

    action: str
    resource: str = "*"
    context: Mapping[str, str | list[str]] = msgspec.field(default_factory=dict)


def allows(documents: Iterable[Mapping[str, Any]], request: Request) -> bool:
    """Tell whether something allows the request and nothing denies it."""
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
        any(_like(one, request.action, fold=True) for one in _many(statement["Action"]))
        and any(_like(one, request.resource) for one in _many(statement["Resource"]))
        and all(
            _holds(operator, key, _many(wanted), request.context)
            for operator, tests in statement.get("Condition", {}).items()
            for key, wanted in tests.items()
        )
    )


def _holds(operator: str, key: str, wanted: Values, context: Mapping[str, Any]) -> bool:
    present = key in context
    given = _many(context[key]) if present else []
    if operator == "ForAllValues:StringEquals":
        return all(one in wanted for one in given)
    if operator == "StringEqualsIfExists":
        return not present or given[0] in wanted
    tests: dict[str, Callable[[str, str], bool]] = {
        "StringEquals": lambda pattern, value: pattern == value,
        "StringLike": _like,
        "ArnLike": _like,
        "Bool": lambda pattern, value: pattern == value,
    }
    return present and any(tests[operator](pattern, given[0]) for pattern in wanted)


def _like(pattern: str, value: str, *, fold: bool = False) -> bool:
    expression = "".join({"*": ".*", "?": "."}.get(one, re.escape(one)) for one in pattern)
    return re.fullmatch(expression, value, re.IGNORECASE if fold else 0) is not None


def _many(value: Any) -> Values:
    return list(value) if isinstance(value, list | tuple) else [value]
