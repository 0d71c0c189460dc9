"""Conditions in the status of an object."""

from collections.abc import Mapping, Sequence
from typing import Any

from dovetail.simulator.apiserver.storage.frozen_object import Object, look

Conditions = Sequence[Mapping[str, Any]]


def conditions_of(obj: Object) -> Conditions:
    """Return the conditions of an object as they are written."""
    found: Conditions = look(obj, "status", "conditions") or ()
    return found


def condition(obj: Object, kind: str) -> Mapping[str, Any] | None:
    """Return one condition of an object."""
    return next((one for one in conditions_of(obj) if one["type"] == kind), None)


def without(conditions: Conditions, kind: str) -> list[Mapping[str, Any]]:
    """Return the conditions other than one."""
    return [one for one in conditions if one["type"] != kind]


def replaced(conditions: Conditions, new: Mapping[str, Any], *, now: str) -> list[Any]:
    """Return the conditions with one written anew, in its old place.

    ``lastTransitionTime`` stays while the status does, as everywhere in Kubernetes.
    """
    written = {"lastTransitionTime": now, **new}
    result: list[Any] = []
    found = False
    for one in conditions:
        if one["type"] == new["type"]:
            found = True
            if one["status"] == new["status"] and "lastTransitionTime" in one:
                written["lastTransitionTime"] = one["lastTransitionTime"]
            result.append(written)
        else:
            result.append(one)
    return result if found else [*result, written]
