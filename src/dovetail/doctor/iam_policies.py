"""Evaluate IAM policy documents without calling IAM.

Conditions are assumed to hold, so that a check never reports a policy as too
narrow because of a condition. For the same reason a Deny counts only if it
has no condition.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from dovetail.doctor.facts import Raw, Role

_ADMIN: Final = "AdministratorAccess"


def may(role: Role, action: str, resource: str = "*") -> bool:
    """Return True if the role's policies allow an action on a resource."""
    return _ADMIN in role.attached or is_allowed(role.documents.values(), action, resource)


def is_allowed(documents: Iterable[Raw], action: str, resource: str = "*") -> bool:
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
        else:
            has_allow = True
    return has_allow


def allowing(documents: Iterable[Raw], action: str) -> Iterator[Raw]:
    """Yield the statements that allow an action."""
    for statement in _statements(documents):
        if statement.get("Effect") == "Allow" and _matches(statement, "Action", action, fold=True):
            yield statement


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
