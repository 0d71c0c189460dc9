"""Conditions in the status of an object."""

from collections.abc import Mapping, Sequence
from typing import Any

from dovetail.simulator.apiserver.storage.frozen_object import Object

Conditions = Sequence[Mapping[str, Any]]


def get_conditions(obj: Object) -> Conditions:
    """Return the conditions of an object, encoded."""
    conditions: Conditions = (obj.get("status") or {}).get("conditions") or ()
    return conditions


def get_condition(obj: Object, kind: str) -> Mapping[str, Any] | None:
    """Return the condition of a type; None if there is none."""
    for condition in get_conditions(obj):
        if condition.get("type") == kind:
            return condition
    return None


def is_condition_true(obj: Object, kind: str) -> bool:
    """Return True if a condition has the status True."""
    return (get_condition(obj, kind) or {}).get("status") == "True"


def without_condition(conditions: Conditions, kind: str) -> list[Mapping[str, Any]]:
    """Return the conditions without one type."""
    return [condition for condition in conditions if condition["type"] != kind]


def set_condition(conditions: Conditions, new: Mapping[str, Any], *, now: str) -> list[Any]:
    """Return the conditions with one replaced, or appended if it is new.

    ``lastTransitionTime`` changes only when the status changes, as everywhere in
    Kubernetes.
    """
    for position, old in enumerate(conditions):
        if old["type"] == new["type"]:
            since = now if old["status"] != new["status"] else old.get("lastTransitionTime", now)
            written = {**new, "lastTransitionTime": since}
            return [*conditions[:position], written, *conditions[position + 1 :]]
    return [*conditions, {**new, "lastTransitionTime": now}]
