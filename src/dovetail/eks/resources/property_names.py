"""Conversion between CloudFormation's and boto3's shapes: tags, case of keys."""

from collections.abc import Iterable, Mapping
from typing import Any

from dovetail.eks.plan.diff import diff_resource
from dovetail.eks.plan.references import Reference, UnresolvedReferenceError
from dovetail.eks.plan.resource import DesiredResource, ObservedResource


def tag_list(tags: Mapping[str, str]) -> list[dict[str, str]]:
    """Return tags as a list of Key and Value, as most services take them."""
    return [{"Key": key, "Value": value} for key, value in tags.items()]


def tag_map(tags: Iterable[Mapping[str, str]] | None) -> dict[str, str]:
    """Return a list of Key and Value as a map."""
    return {tag["Key"]: tag["Value"] for tag in tags or ()}


def lower_keys(value: Any, *, keep: frozenset[str] = frozenset()) -> Any:
    """Return a value with all keys in lowerCamelCase, as EKS has them.

    Keys below those in ``keep`` (labels) are the user's and stay.
    """
    return _recase_keys(value, str.lower, keep)


def upper_keys(value: Any, *, keep: frozenset[str] = frozenset()) -> Any:
    """Return a value with all keys in PascalCase, as CloudFormation has them."""
    return _recase_keys(value, str.upper, keep)


def _recase_keys(value: Any, recase: Any, keep: frozenset[str]) -> Any:
    if isinstance(value, Mapping):
        return {
            recase(key[:1]) + key[1:]: inner if key in keep else _recase_keys(inner, recase, keep)
            for key, inner in value.items()
        }
    if isinstance(value, list | tuple):
        return [_recase_keys(inner, recase, keep) for inner in value]
    return value


def changed_properties(observed: ObservedResource, resource: DesiredResource) -> frozenset[str]:
    """Return the names of properties that differ; "Tags" among them."""
    changes = diff_resource(resource, observed, _reject_reference)
    return frozenset(change.property for change in changes)


def _reject_reference(reference: Reference) -> Any:
    raise UnresolvedReferenceError(reference)
