"""What policy documents allow, as far as can be told without asking IAM.

Conditions are taken to hold: a check must not call a policy too narrow
because it does not understand a condition. For the same reason a denial
counts only when it has none.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from dovetail.doctor.facts import Raw, Role

_ADMIN: Final = "AdministratorAccess"


def may(role: Role, action: str, resource: str = "*") -> bool:
    """Tell whether a role's own documents, or AWS's for administrators, let it do something."""
    return _ADMIN in role.attached or allowed(role.documents.values(), action, resource)


def allowed(documents: Iterable[Raw], action: str, resource: str = "*") -> bool:
    """Tell whether documents allow something; ``*`` asks for any resource at all."""
    found = False
    for one in _statements(documents):
        if not _matches(one, "Action", action, fold=True):
            continue
        if resource != "*" and not _matches(one, "Resource", resource):
            continue
        if one.get("Effect") == "Deny":
            if "Condition" not in one and _all_resources(one):
                return False
        else:
            found = True
    return found


def allowing(documents: Iterable[Raw], action: str) -> Iterator[Raw]:
    """Hand out the statements that allow an action."""
    for one in _statements(documents):
        if one.get("Effect") == "Allow" and _matches(one, "Action", action, fold=True):
            yield one


def principals(statement: Raw) -> list[str]:
    """Return whom a statement of a resource's policy is about."""
    told = statement.get("Principal")
    if isinstance(told, Mapping):
        return [text for one in told.values() for text in _texts(one)]
    return _texts(told)


def _statements(documents: Iterable[Raw]) -> Iterator[Raw]:
    for document in documents:
        told = document.get("Statement") or ()
        yield from [told] if isinstance(told, Mapping) else told


def _matches(statement: Raw, field: str, value: str, *, fold: bool = False) -> bool:
    if field in statement:
        return any(_like(one, value, fold=fold) for one in _texts(statement[field]))
    others = statement.get(f"Not{field}")
    return others is not None and not any(_like(one, value, fold=fold) for one in _texts(others))


def _all_resources(statement: Raw) -> bool:
    return "*" in _texts(statement.get("Resource"))


def _like(pattern: str, value: str, *, fold: bool) -> bool:
    expression = "".join({"*": ".*", "?": "."}.get(one, re.escape(one)) for one in pattern)
    return re.fullmatch(expression, value, re.IGNORECASE if fold else 0) is not None


def _texts(value: Any) -> list[str]:
    if value is None:
        return []
    return [str(one) for one in value] if isinstance(value, list | tuple) else [str(value)]
