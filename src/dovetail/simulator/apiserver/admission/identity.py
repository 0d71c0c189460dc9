"""Whether a write is meant for the object that is there."""

from collections.abc import Mapping
from typing import Any

from dovetail.ports.api_resources import Resource
from dovetail.ports.kube_errors import BadRequest, Conflict, Invalid
from dovetail.simulator.apiserver.admission.status_causes import invalid, refuse
from dovetail.simulator.apiserver.storage.frozen_object import Object


def type_of(resource: Resource, obj: Mapping[str, Any]) -> dict[str, str]:
    """Return apiVersion and kind; BadRequest for an object that claims to be of others."""
    expected = {"apiVersion": resource.api_version, "kind": resource.kind}
    for field, value in expected.items():
        if obj.get(field, value) != value:
            hint = (
                "; `dovetail convert -f FILE` writes older objects as those of today"
                if resource.custom and field == "apiVersion"
                else ""
            )
            raise BadRequest(
                f"the object provided is unrecognized: its {field} is {obj[field]}, "
                f"not {value}{hint}"
            )
    return expected


def check_identity(resource: Resource, old: Object, given: Mapping[str, Any]) -> None:
    """Refuse a write that is meant for another object, or for an older version of this one."""
    meta, current = given.get("metadata") or {}, old["metadata"]
    name = current["name"]
    if meta.get("name", name) != name:
        raise BadRequest(
            f"the name of the object ({meta.get('name')}) does not match the name "
            f"on the URL ({name})"
        )
    if meta.get("namespace", current.get("namespace")) != current.get("namespace"):
        raise BadRequest("the namespace of the object does not match the namespace on the URL")
    revision = meta.get("resourceVersion")
    if not revision and resource.custom:
        raise Invalid(
            f'{resource.qualified} "{name}" is invalid: metadata.resourceVersion: '
            "Invalid value: must be specified for an update",
            kind=resource.kind,
            name=name,
        )
    wrong = f'Operation cannot be fulfilled on {resource.qualified} "{name}": '
    if revision and revision != current["resourceVersion"]:
        raise Conflict(
            wrong + "the object has been modified; please apply your changes to the latest "
            "version and try again",
            kind=resource.plural,
            name=name,
        )
    if meta.get("uid", current["uid"]) != current["uid"]:
        raise Conflict(
            wrong + f"Precondition failed: UID in precondition: {meta['uid']}, "
            f"UID in object meta: {current['uid']}",
            kind=resource.plural,
            name=name,
        )


def check_times(resource: Resource, old: Object, given: Mapping[str, Any]) -> None:
    """Refuse to begin a deletion by writing; one that is under way is simply kept."""
    if old["metadata"].get("deletionTimestamp"):
        return
    moved = [
        name
        for name in ("deletionTimestamp", "deletionGracePeriodSeconds")
        if given.get(name) is not None
    ]
    refuse(resource, old, [invalid(f"metadata.{name}", "field is immutable") for name in moved])
