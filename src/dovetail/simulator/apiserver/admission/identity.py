"""Checks that a write addresses the stored object: type, name, uid and resourceVersion."""

from collections.abc import Mapping
from typing import Any

from dovetail.ports.api_resources import Resource
from dovetail.ports.kube_errors import BadRequest, Conflict, Invalid
from dovetail.simulator.apiserver.admission.field_errors import invalid, raise_if_invalid
from dovetail.simulator.apiserver.storage.frozen_object import Object


def resolve_type_meta(resource: Resource, obj: Mapping[str, Any]) -> dict[str, str]:
    """Return apiVersion and kind of a resource; BadRequest if the object has others."""
    expected = {"apiVersion": resource.api_version, "kind": resource.kind}
    for field, value in expected.items():
        if obj.get(field, value) != value:
            hint = (
                "; `dovetail convert -f FILE` converts objects of older API versions"
                if resource.is_custom and field == "apiVersion"
                else ""
            )
            raise BadRequest(
                f"the object provided is unrecognized: its {field} is {obj[field]}, not {value}{hint}"
            )
    return expected


def check_identity(resource: Resource, old: Object, obj: Mapping[str, Any]) -> None:
    """Raise if an update addresses another object, or an older version of this one."""
    meta, current = obj.get("metadata") or {}, old["metadata"]
    if meta is current:
        return
    name = current["name"]
    if meta.get("name", name) != name:
        raise BadRequest(
            f"the name of the object ({meta.get('name')}) does not match the name on the URL ({name})"
        )
    if meta.get("namespace", current.get("namespace")) != current.get("namespace"):
        raise BadRequest("the namespace of the object does not match the namespace on the URL")
    revision = meta.get("resourceVersion")
    if not revision and resource.is_custom:
        raise Invalid(
            f'{resource.qualified_name} "{name}" is invalid: metadata.resourceVersion: '
            "Invalid value: must be specified for an update",
            kind=resource.kind,
            name=name,
        )
    prefix = f'Operation cannot be fulfilled on {resource.qualified_name} "{name}": '
    if revision and revision != current["resourceVersion"]:
        raise Conflict(
            prefix + "the object has been modified; please apply your changes to the latest "
            "version and try again",
            kind=resource.plural,
            name=name,
        )
    if meta.get("uid", current["uid"]) != current["uid"]:
        raise Conflict(
            prefix + f"Precondition failed: UID in precondition: {meta['uid']}, "
            f"UID in object meta: {current['uid']}",
            kind=resource.plural,
            name=name,
        )


def check_deletion_fields(resource: Resource, old: Object, meta: Mapping[str, Any]) -> None:
    """Raise Invalid if an update would start a deletion; a started one is kept."""
    if old["metadata"].get("deletionTimestamp"):
        return
    errors = [
        invalid(f"metadata.{name}", "field is immutable")
        for name in ("deletionTimestamp", "deletionGracePeriodSeconds")
        if meta.get(name) is not None
    ]
    raise_if_invalid(resource, old, errors)
