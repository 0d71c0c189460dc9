"""Defaulting and validation of CustomResourceDefinitions."""

from collections.abc import Iterator
from typing import Any, Final

from dovetail.simulator.apiserver.admission.field_errors import FieldError, JsonObject, invalid, required
from dovetail.simulator.apiserver.admission.structural_rules import validate_structural
from dovetail.simulator.apiserver.storage.frozen_object import get_field

_SCOPES: Final = ("Cluster", "Namespaced")


def default_definition(obj: dict[str, Any]) -> None:
    """Set the singular and list names, and the conversion strategy, in place."""
    spec = obj.get("spec") or {}
    names = spec.get("names") or {}
    if kind := names.get("kind"):
        names = {"singular": kind.lower(), "listKind": f"{kind}List", **names}
    obj["spec"] = {"conversion": {"strategy": "None"}, **spec, "names": names}


def initial_definition_status(obj: dict[str, Any]) -> dict[str, Any]:
    """Return the status of an established definition.

    Kubernetes sets it a moment later, once the names are known to be unique.
    """
    conditions = [
        {
            "type": condition,
            "status": "True",
            "reason": reason,
            "message": message,
            "lastTransitionTime": obj["metadata"]["creationTimestamp"],
        }
        for condition, reason, message in (
            ("NamesAccepted", "NoConflicts", "no conflicts found"),
            ("Established", "InitialNamesAccepted", "the initial names have been accepted"),
        )
    ]
    versions = get_field(obj, "spec", "versions") or ()
    return {
        "conditions": conditions,
        "acceptedNames": obj["spec"]["names"],
        "storedVersions": [version.get("name") for version in versions if version.get("storage")],
    }


def validate_definition(obj: JsonObject) -> Iterator[FieldError]:
    """Yield the errors of a CustomResourceDefinition: its names, scope and versions."""
    spec = obj.get("spec") or {}
    names = spec.get("names") or {}
    for field, value in (
        ("spec.group", spec.get("group")),
        ("spec.names.plural", names.get("plural")),
        ("spec.names.kind", names.get("kind")),
    ):
        if not value:
            yield required(field)
    if spec.get("scope") not in _SCOPES:
        yield invalid("spec.scope", f"{spec.get('scope')!r} is not one of {', '.join(_SCOPES)}")
    expected = f"{names.get('plural')}.{spec.get('group')}"
    if obj["metadata"]["name"] != expected:
        yield invalid(
            "metadata.name", f'{obj["metadata"]["name"]!r}: must be spec.names.plural+"."+spec.group'
        )
    versions = spec.get("versions") or ()
    if sum(bool(version.get("storage")) for version in versions) != 1:
        yield invalid("spec.versions", "must have exactly one version marked as storage version")
    for index, version in enumerate(versions):
        yield from _validate_version(version, f"spec.versions[{index}]")


def _validate_version(version: JsonObject, path: str) -> Iterator[FieldError]:
    if not version.get("name"):
        yield required(f"{path}.name")
    schema = get_field(version, "schema", "openAPIV3Schema")
    if schema is None:
        yield required(f"{path}.schema.openAPIV3Schema", "schemas are required")
    else:
        yield from validate_structural(schema, f"{path}.schema.openAPIV3Schema")
    for number, field in enumerate(version.get("selectableFields") or ()):
        json_path = field.get("jsonPath") or ""
        if not json_path.startswith("."):
            message = f'"{json_path}": must be a simple json path'
            yield invalid(f"{path}.selectableFields[{number}].jsonPath", message)
