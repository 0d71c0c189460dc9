"""Field errors of an invalid object, and the Invalid status that lists all of them."""

from collections.abc import Iterable, Mapping
from typing import Any

from dovetail.ports.api_resources import Resource
from dovetail.ports.kube_errors import Invalid

JsonObject = Mapping[str, Any]
FieldError = tuple[str, str, str]
"""Field path, Kubernetes' reason (a status cause), and message."""


def invalid(field: str, detail: str) -> FieldError:
    """Return the error of a wrong value."""
    return field, "FieldValueInvalid", f"Invalid value: {detail}"


def required(field: str, detail: str = "") -> FieldError:
    """Return the error of a missing value."""
    return field, "FieldValueRequired", f"Required value: {detail}" if detail else "Required value"


def forbidden(field: str, detail: str) -> FieldError:
    """Return the error of a value that may not be set, or may not change."""
    return field, "FieldValueForbidden", f"Forbidden: {detail}"


def raise_if_invalid(resource: Resource, obj: JsonObject, errors: Iterable[FieldError]) -> None:
    """Raise ``Invalid`` with all errors as its causes, if there are any."""
    unique = list(dict.fromkeys(errors))
    if not unique:
        return
    name = obj["metadata"].get("name", "")
    qualified = f"{resource.kind}.{resource.group}" if resource.group else resource.kind
    lines = [f"{field}: {message}" for field, _, message in unique]
    summary = lines[0] if len(lines) == 1 else f"[{', '.join(lines)}]"
    raise Invalid(
        f'{qualified} "{name}" is invalid: {summary}',
        kind=resource.kind,
        name=name,
        causes=[{"reason": reason, "message": message, "field": field} for field, reason, message in unique],
    )
