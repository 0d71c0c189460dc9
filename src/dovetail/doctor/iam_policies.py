"""Evaluate IAM policy documents without calling IAM.

A condition on a key that the ``RequestContext`` does not know is assumed to hold,
so that a check never reports a policy as too narrow because of it. For the same
reason a Deny counts only if it has no condition.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import msgspec

from dovetail.doctor.facts import Raw, Role

ACTIONS_SINCE: Final = (
    ((1, 3), "ec2:DescribeCapacityReservations"),
    ((1, 7), "iam:ListInstanceProfiles"),
    ((1, 11), "ec2:DescribePlacementGroups"),
    ((1, 12), "ec2:DescribeInstanceStatus"),
)
"""Version of Karpenter, and the action that its policy has since."""
_ADMIN: Final = "AdministratorAccess"


class RequestContext(msgspec.Struct, frozen=True):
    """Condition keys of a request with their values."""

    values: Mapping[str, str] = {}
    absent: tuple[str, ...] = ()
    """Prefixes of keys that the request has only if they are in ``values``."""

    def get(self, key: str) -> str | None:
        """Return the value of a key; None if the request does not have it."""
        return next((value for name, value in self.values.items() if name.lower() == key.lower()), None)

    def knows(self, key: str) -> bool:
        """Return True if it is known whether the request has the key."""
        return self.get(key) is not None or key.lower().startswith(
            tuple(prefix.lower() for prefix in self.absent)
        )


ANY_REQUEST: Final = RequestContext()
"""A request of which nothing is known: every condition holds."""


def may(role: Role, action: str, resource: str = "*", context: RequestContext = ANY_REQUEST) -> bool:
    """Return True if the role's policies allow an action on a resource."""
    return _ADMIN in role.attached or is_allowed(role.documents.values(), action, resource, context)


def is_allowed(
    documents: Iterable[Raw], action: str, resource: str = "*", context: RequestContext = ANY_REQUEST
) -> bool:
    """Return True if the documents allow an action; resource ``*`` means any."""
    has_allow = False
    for statement in _statements(documents):
        if not _matches(statement, "Action", action, fold=True):
            continue
        if resource != "*" and not _matches(statement, "Resource", resource):
            continue
        if statement.get("Effect") == "Deny":
            if "Condition" not in statement and _all_resources(statement):
                return False
        elif conditions_hold(statement, context):
            has_allow = True
    return has_allow


def allowing(documents: Iterable[Raw], action: str) -> Iterator[Raw]:
    """Yield the statements that allow an action."""
    for statement in _statements(documents):
        if statement.get("Effect") == "Allow" and _matches(statement, "Action", action, fold=True):
            yield statement


def conditions_hold(statement: Raw, context: RequestContext) -> bool:
    """Return False if a condition contradicts what is known of the request."""
    conditions = statement.get("Condition")
    if not isinstance(conditions, Mapping):
        return True
    return all(
        _holds(str(operator), str(key), _texts(expected), context)
        for operator, tests in conditions.items()
        if isinstance(tests, Mapping)
        for key, expected in tests.items()
    )


def _holds(operator: str, key: str, expected: list[str], context: RequestContext) -> bool:
    name, if_exists = operator.rpartition(":")[2], operator.endswith("IfExists")
    name = name.removesuffix("IfExists")
    if not context.knows(key):
        return True
    value = context.get(key)
    if name == "Null":
        return (value is None) == ("true" in [text.lower() for text in expected])
    if name not in _PATTERN_OPERATORS:
        return True
    negated = "Not" in name
    if value is None:
        return if_exists or negated or operator.startswith("ForAllValues")
    uses_wildcards, fold = _PATTERN_OPERATORS[name]
    matches = any(
        _like(text, value, fold=fold)
        if uses_wildcards
        else (text.lower() == value.lower() if fold else text == value)
        for text in expected
    )
    return matches != negated


_PATTERN_OPERATORS: Final = {
    "StringEquals": (False, False),
    "StringNotEquals": (False, False),
    "StringEqualsIgnoreCase": (False, True),
    "StringNotEqualsIgnoreCase": (False, True),
    "StringLike": (True, False),
    "StringNotLike": (True, False),
    "ArnEquals": (True, False),
    "ArnNotEquals": (True, False),
    "ArnLike": (True, False),
    "ArnNotLike": (True, False),
}
"""Operator → whether patterns have wildcards, and whether case is ignored."""


def principals(statement: Raw) -> list[str]:
    """Return the principals of a statement of a resource policy."""
    principal = statement.get("Principal")
    if isinstance(principal, Mapping):
        return [text for value in principal.values() for text in _texts(value)]
    return _texts(principal)


def _statements(documents: Iterable[Raw]) -> Iterator[Raw]:
    for document in documents:
        statements = document.get("Statement") or ()
        yield from [statements] if isinstance(statements, Mapping) else statements


def _matches(statement: Raw, field: str, value: str, *, fold: bool = False) -> bool:
    if field in statement:
        return any(_like(text, value, fold=fold) for text in _texts(statement[field]))
    excluded = statement.get(f"Not{field}")
    return excluded is not None and not any(_like(text, value, fold=fold) for text in _texts(excluded))


def _all_resources(statement: Raw) -> bool:
    return "*" in _texts(statement.get("Resource"))


def _like(pattern: str, value: str, *, fold: bool) -> bool:
    expression = "".join({"*": ".*", "?": "."}.get(character, re.escape(character)) for character in pattern)
    return re.fullmatch(expression, value, re.IGNORECASE if fold else 0) is not None


def _texts(value: Any) -> list[str]:
    if value is None:
        return []
    return [str(item) for item in value] if isinstance(value, list | tuple) else [str(value)]
