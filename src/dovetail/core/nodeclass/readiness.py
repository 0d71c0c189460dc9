"""Whether a node class can be bought from, from what the cloud finds for it."""

from collections.abc import Mapping
from datetime import datetime
from typing import Final

from dovetail.core.conditions import Family, Subject, changed
from dovetail.model.karpenter.ec2nodeclass import NodeClass
from dovetail.model.kube.conditions import FALSE, TRUE, UNKNOWN, Conditions, status_of

VALIDATION: Final = "ValidationSucceeded"
RESERVATIONS: Final = "CapacityReservationsReady"
_LOOKED_UP: Final = (
    "SubnetsReady",
    "SecurityGroupsReady",
    "AMIsReady",
    "InstanceProfileReady",
    "PlacementGroupReady",
)
_WITHOUT_RESERVATIONS: Final = Family((*_LOOKED_UP, VALIDATION))
_WITH_RESERVATIONS: Final = Family((*_LOOKED_UP, RESERVATIONS, VALIDATION))

Problem = tuple[str, str]
"""Reason and message."""
_NONE: Final[Mapping[str, Problem]] = {}


def conditions_of(
    node_class: NodeClass,
    now: datetime,
    *,
    problems: Mapping[str, Problem],
    unsure: Mapping[str, Problem] = _NONE,
    reserved_capacity: bool = True,
) -> Conditions:
    """Return the conditions of a class after it was looked up.

    What is in neither ``problems`` nor ``unsure`` is well. What is unsure stays as
    it was, if this version of the class was looked at before. Nothing is validated
    while what it would be validated with is missing.
    """
    family = _WITH_RESERVATIONS if reserved_capacity else _WITHOUT_RESERVATIONS
    who = Subject(
        family=family, now=now, generation=node_class.generation, deleting=node_class.deleting
    )
    known = node_class.conditions
    for kind in family.dependents:
        problem = problems.get(kind)
        if kind == VALIDATION:
            awaited = _awaited(known, family)
            if awaited is not None:
                status, message = awaited
                known = changed(
                    known, who, kind, status, reason="DependenciesNotReady", message=message
                )
                continue
        if problem is not None:
            known = changed(known, who, kind, FALSE, reason=problem[0], message=problem[1])
        elif kind not in unsure:
            known = changed(known, who, kind, TRUE)
        elif not _holds(known, kind, node_class.generation):
            reason, message = unsure[kind]
            known = changed(known, who, kind, UNKNOWN, reason=reason, message=message)
    return known


def _holds(known: Conditions, kind: str, generation: int) -> bool:
    """Tell whether what is known of a condition is about this version, and is something."""
    before = known.get(kind)
    return before is not None and before.status != UNKNOWN and before.generation == generation


def _awaited(known: Conditions, family: Family) -> tuple[str, str] | None:
    """Return the status and message of a validation that has to wait, or None."""
    others = [kind for kind in family.dependents if kind != VALIDATION]
    for status in (FALSE, UNKNOWN):
        lacking = [f"{kind}={status}" for kind in others if status_of(known, kind) == status]
        if lacking:
            return status, f"Awaiting {', '.join(lacking)}"
    return None
