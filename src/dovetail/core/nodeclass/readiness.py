"""Readiness of an EC2NodeClass, from its resolution in AWS."""

from collections.abc import Mapping
from datetime import datetime
from typing import Final

from dovetail.core.conditions import ConditionOwner, ConditionSet, set_condition
from dovetail.core.nodeclass.validation import Problem
from dovetail.model.karpenter.condition_types import (
    AMIS_READY,
    CAPACITY_RESERVATIONS_READY,
    INSTANCE_PROFILE_READY,
    PLACEMENT_GROUP_READY,
    SECURITY_GROUPS_READY,
    SUBNETS_READY,
    VALIDATION_SUCCEEDED,
)
from dovetail.model.karpenter.ec2nodeclass import EC2NodeClass
from dovetail.model.kube.conditions import FALSE, TRUE, UNKNOWN, Conditions, condition_status

_RESOLVED = (SUBNETS_READY, SECURITY_GROUPS_READY, AMIS_READY, INSTANCE_PROFILE_READY, PLACEMENT_GROUP_READY)
_WITHOUT_RESERVATIONS: Final = ConditionSet((*_RESOLVED, VALIDATION_SUCCEEDED))
_WITH_RESERVATIONS: Final = ConditionSet((*_RESOLVED, CAPACITY_RESERVATIONS_READY, VALIDATION_SUCCEEDED))

_NONE: Final[Mapping[str, Problem]] = {}


def compute_conditions(
    node_class: EC2NodeClass,
    now: datetime,
    *,
    problems: Mapping[str, Problem],
    unknown: Mapping[str, Problem] = _NONE,
    reserved_capacity: bool = True,
) -> Conditions:
    """Return the conditions of a node class after its resolution.

    A condition in neither ``problems`` nor ``unknown`` is True. An unknown one keeps
    its status if that is of this generation. Validation waits until all resources
    that it needs are resolved.
    """
    condition_set = _WITH_RESERVATIONS if reserved_capacity else _WITHOUT_RESERVATIONS
    generation, conditions = node_class.generation, node_class.conditions
    owner = ConditionOwner(
        condition_set=condition_set, now=now, generation=generation, deleting=node_class.deleting
    )
    for name in condition_set.dependents:
        problem = problems.get(name)
        if name == VALIDATION_SUCCEEDED:
            awaited = _get_unready_dependencies(conditions, condition_set)
            if awaited is not None:
                status, message = awaited
                reason = "DependenciesNotReady"
                conditions = set_condition(conditions, owner, name, status, reason=reason, message=message)
                continue
        if problem is not None:
            conditions = set_condition(conditions, owner, name, FALSE, reason=problem[0], message=problem[1])
        elif name not in unknown:
            conditions = set_condition(conditions, owner, name, TRUE)
        elif not _is_current(conditions, name, generation):
            reason, message = unknown[name]
            conditions = set_condition(conditions, owner, name, UNKNOWN, reason=reason, message=message)
    return conditions


def _is_current(conditions: Conditions, name: str, generation: int) -> bool:
    """Return True if a condition has a status other than Unknown at this generation."""
    before = conditions.get(name)
    return before is not None and before.status != UNKNOWN and before.observed_generation == generation


def _get_unready_dependencies(conditions: Conditions, condition_set: ConditionSet) -> tuple[str, str] | None:
    """Return status and message of a validation that waits for dependencies, or None."""
    others = [name for name in condition_set.dependents if name != VALIDATION_SUCCEEDED]
    for status in (FALSE, UNKNOWN):
        lacking = [f"{name}={status}" for name in others if condition_status(conditions, name) == status]
        if lacking:
            return status, f"Awaiting {', '.join(lacking)}"
    return None
