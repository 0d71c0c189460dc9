"""An IAM policy evaluator, by AWS's documentation of policy elements.

It supports identity policies: Allow and Deny, (Not)Action and (Not)Resource with
wildcards, and the condition operators below, with ``IfExists``, ``ForAllValues:`` and
``ForAnyValue:``. Anything else is an error, so that no policy passes by
misinterpretation.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import Any

import msgspec

Document = Mapping[str, Any]
Values = list[str]
_ELEMENTS = {"Sid", "Effect", "Action", "NotAction", "Resource", "NotResource", "Condition", "Principal"}
_ARN_PARTS = 6


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """One action on one resource, with the keys of conditions."""

    action: str
    resource: str = "*"
    context: Mapping[str, str | list[str]] = msgspec.field(default_factory=dict)


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome, and the Sids of the statements that apply."""

    allowed: bool
    statements: tuple[str, ...] = ()


def allows(documents: Iterable[Document], request: Request) -> bool:
    """Return True if a statement allows the request and none denies it."""
    return evaluate(documents, request).allowed


def evaluate(documents: Iterable[Document], request: Request) -> Decision:
    """Evaluate a request: an explicit deny wins, and nothing is allowed by default."""
    applicable = [
        statement
        for document in documents
        for statement in _as_list(document["Statement"])
        if _applies(statement, request)
    ]
    effects = {statement["Effect"] for statement in applicable}
    return Decision(
        allowed=effects == {"Allow"}, statements=tuple(statement.get("Sid", "") for statement in applicable)
    )


def _applies(statement: Document, request: Request) -> bool:
    unknown = set(statement) - _ELEMENTS
    assert not unknown, f"the evaluator does not know {unknown}"
    assert statement["Effect"] in ("Allow", "Deny"), statement["Effect"]
    return (
        _matches_element(statement, "Action", lambda pattern: matches_action(pattern, request.action))
        and _matches_element(statement, "Resource", lambda pattern: matches_arn(pattern, request.resource))
        and all(
            _condition_holds(operator, key, [str(value) for value in _as_list(expected)], request.context)
            for operator, tests in statement.get("Condition", {}).items()
            for key, expected in tests.items()
        )
    )


def _matches_element(statement: Document, name: str, matches: Callable[[str], bool]) -> bool:
    """Evaluate ``Action`` or ``NotAction``, ``Resource`` or ``NotResource``."""
    assert (name in statement) != (f"Not{name}" in statement), f"exactly one of {name} and Not{name}"
    if name in statement:
        return any(matches(pattern) for pattern in _as_list(statement[name]))
    return not any(matches(pattern) for pattern in _as_list(statement[f"Not{name}"]))


def matches_action(pattern: str, action: str) -> bool:
    """Match an action; actions are not case-sensitive."""
    return _matches(pattern.lower(), action.lower())


def matches_arn(pattern: str, arn: str) -> bool:
    """Match the ARN of a Resource element.

    A wildcard stays within its part, except that ``*`` at the end of a part may
    expand beyond the colon.
    """
    if pattern == "*":
        return True
    return _compile_arn(pattern).fullmatch(arn) is not None


@cache
def _compile_arn(pattern: str) -> re.Pattern[str]:
    parts = pattern.split(":", _ARN_PARTS - 1)
    expression = ":".join(
        _expression(part, wildcard="." if index == _ARN_PARTS - 1 else "[^:]")
        for index, part in enumerate(parts)
    )
    return re.compile(expression, re.DOTALL)


def _matches_arn_parts(pattern: str, arn: str) -> bool:
    """Match as ArnLike and ArnEquals do: each of the six parts on its own."""
    expected, given = pattern.split(":", _ARN_PARTS - 1), arn.split(":", _ARN_PARTS - 1)
    return len(expected) == len(given) and all(map(_matches, expected, given))


_OPERATORS: Mapping[str, Callable[[str, str], bool]] = {
    "StringEquals": lambda pattern, value: pattern == value,
    "StringEqualsIgnoreCase": lambda pattern, value: pattern.lower() == value.lower(),
    "StringLike": lambda pattern, value: _matches(pattern, value),
    "ArnEquals": _matches_arn_parts,
    "ArnLike": _matches_arn_parts,
    "Bool": lambda pattern, value: pattern.lower() == value.lower(),
}
_NEGATED = {"StringNotEquals": "StringEquals", "StringNotLike": "StringLike", "ArnNotLike": "ArnLike"}


def _condition_holds(operator: str, key: str, expected: Values, context: Mapping[str, Any]) -> bool:
    assert not any("${" in value for value in expected), "the evaluator does not know policy variables"
    # Names of condition keys are not case-sensitive, and neither are keys of tags in them.
    given = context.get(key)
    if given is None:
        given = next((value for name, value in context.items() if name.lower() == key.lower()), None)
    if operator == "Null":
        return (given is None) == (expected == ["true"])
    quantifier, _, name = operator.rpartition(":")
    assert quantifier in ("", "ForAllValues", "ForAnyValue"), operator
    if_exists = name.endswith("IfExists")
    name = name.removesuffix("IfExists")
    negated = name in _NEGATED
    test = _OPERATORS[_NEGATED.get(name, name)]
    if given is None or given == []:
        return if_exists or quantifier == "ForAllValues" or (negated and not quantifier)
    values = _as_list(given)
    assert quantifier or len(values) == 1, f"{key} has several values: use ForAllValues or ForAnyValue"
    results = [any(test(pattern, value) for pattern in expected) != negated for value in values]
    return any(results) if quantifier == "ForAnyValue" else all(results)


def _matches(pattern: str, value: str) -> bool:
    return _compile(pattern).fullmatch(value) is not None


@cache
def _compile(pattern: str) -> re.Pattern[str]:
    return re.compile(_expression(pattern, wildcard="."), re.DOTALL)


def _expression(pattern: str, *, wildcard: str) -> str:
    """Return a pattern as a regular expression; a ``*`` at its end matches everything."""
    parts = {"*": f"{wildcard}*", "?": wildcard}
    translated = [parts.get(character, re.escape(character)) for character in pattern]
    if pattern.endswith("*"):
        translated[-1] = ".*"
    return "".join(translated)


def _as_list(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list | tuple) else [value]
