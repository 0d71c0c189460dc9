"""Refusals with all their causes: what is wrong with an object, field by field."""

from collections.abc import Iterable, Mapping
from typing import Any

from dovetail.ports.api_resources import Resource
from dovetail.ports.kube_errors import Invalid

Wire = Mapping[str, Any]
Cause = tuple[str, str, str]
"""The field, Kubernetes' reason, and what is wrong."""


def invalid(field: str, what: str) -> Cause:
    """Return the cause that a value is wrong."""
    return field, "FieldValueInvalid", f"Invalid value: {what}"


def required(field: str, what: str = "") -> Cause:
    """Return the cause that a value is missing."""
    return field, "FieldValueRequired", f"Required value: {what}" if what else "Required value"


def forbidden(field: str, what: str) -> Cause:
    """Return the cause that a value may not be there, or may not change."""
    return field, "FieldValueForbidden", f"Forbidden: {what}"


def refuse(resource: Resource, obj: Wire, causes: Iterable[Cause]) -> None:
    """Raise ``Invalid`` if there is any cause."""
    told = list(dict.fromkeys(causes))
    if not told:
        return
    name = obj["metadata"].get("name", "")
    qualified = f"{resource.kind}.{resource.group}" if resource.group else resource.kind
    lines = [f"{field}: {what}" for field, _, what in told]
    whole = lines[0] if len(lines) == 1 else f"[{', '.join(lines)}]"
    raise Invalid(
        f'{qualified} "{name}" is invalid: {whole}',
        kind=resource.kind,
        name=name,
        causes=[
            {"reason": reason, "message": what, "field": field} for field, reason, what in told
        ],
    )
