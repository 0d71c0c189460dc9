"""Between CloudFormation's shapes and boto3's: tags, and the first letter of names."""

from collections.abc import Iterable, Mapping
from typing import Any

from dovetail.eks.plan.diff import changes
from dovetail.eks.plan.references import Reference, Unresolved
from dovetail.eks.plan.resource import Existing, Resource


def tag_list(tags: Mapping[str, str]) -> list[dict[str, str]]:
    """Return tags as most services take them."""
    return [{"Key": key, "Value": value} for key, value in tags.items()]


def tag_map(tags: Iterable[Mapping[str, str]] | None) -> dict[str, str]:
    """Return tags as we keep them."""
    return {one["Key"]: one["Value"] for one in tags or ()}


def lower(value: Any, *, keep: frozenset[str] = frozenset()) -> Any:
    """Return a value with all its keys in lowerCamelCase, as EKS has them.

    What is below a key of ``keep`` (labels) has the user's own keys: they stay.
    """
    return _recased(value, str.lower, keep)


def upper(value: Any, *, keep: frozenset[str] = frozenset()) -> Any:
    """Return a value with all its keys in PascalCase, as CloudFormation has them."""
    return _recased(value, str.upper, keep)


def _recased(value: Any, case: Any, keep: frozenset[str]) -> Any:
    if isinstance(value, Mapping):
        return {
            case(key[:1]) + key[1:]: inner if key in keep else _recased(inner, case, keep)
            for key, inner in value.items()
        }
    if isinstance(value, list | tuple):
        return [_recased(one, case, keep) for one in value]
    return value


def differing(existing: Existing, resource: Resource) -> frozenset[str]:
    """Return the names of the properties that are not as wanted; "Tags" among them."""
    return frozenset(one.property for one in changes(resource, existing, _nothing))


def _nothing(reference: Reference) -> Any:
    raise Unresolved(reference)
