"""Rules for status conditions: a root condition summarizes its dependents.

The same rules as operatorpkg's ConditionSet: the root is True if all dependents
are True at the current generation, False if one is False, else Unknown.
"""

from datetime import datetime

import msgspec

from dovetail.model.frozen import FrozenDict
from dovetail.model.karpenter.condition_types import (
    INITIALIZED,
    LAUNCHED,
    NODE_CLASS_READY,
    REGISTERED,
    VALIDATION_SUCCEEDED,
)
from dovetail.model.kube.conditions import FALSE, READY, TRUE, UNKNOWN, Condition, Conditions


class ConditionSet(msgspec.Struct, frozen=True):
    """Condition types of a kind: the root is True if all dependents are."""

    dependents: tuple[str, ...]
    root: str = READY
    """Empty: there is no root condition."""


NODECLAIM_CONDITIONS = ConditionSet((LAUNCHED, REGISTERED, INITIALIZED))
NODEPOOL_CONDITIONS = ConditionSet((VALIDATION_SUCCEEDED, NODE_CLASS_READY))
NODEOVERLAY_CONDITIONS = ConditionSet((VALIDATION_SUCCEEDED,))
CAPACITYBUFFER_CONDITIONS = ConditionSet((), root="")


class ConditionOwner(msgspec.Struct, frozen=True, kw_only=True):
    """The object whose conditions change, and the time of the change."""

    condition_set: ConditionSet
    now: datetime
    created: datetime | None = None
    generation: int = 0
    deleting: bool = False


def add_missing_conditions(conditions: Conditions, owner: ConditionOwner) -> Conditions:
    """Return conditions with missing ones added as Unknown since the object's creation."""
    awaited = Condition(
        status=UNKNOWN,
        reason="AwaitingReconciliation",
        message="object is awaiting reconciliation",
        last_transition_time=owner.created or owner.now,
        observed_generation=owner.generation,
    )
    names = (*owner.condition_set.dependents, owner.condition_set.root)
    missing = {name: awaited for name in names if name and name not in conditions}
    return FrozenDict({**conditions, **missing}) if missing else conditions


def set_condition(
    conditions: Conditions,
    owner: ConditionOwner,
    condition_type: str,
    status: str,
    *,
    reason: str = "",
    message: str = "",
) -> Conditions:
    """Return conditions with one set; its transition time changes only with its status."""
    conditions = add_missing_conditions(conditions, owner)
    changed = _transition(conditions.get(condition_type), owner, status, reason or condition_type, message)
    updated = {**conditions, condition_type: changed}
    if owner.deleting:
        # Other conditions are no longer reconciled; their old generation must not change the root.
        updated = {
            name: msgspec.structs.replace(condition, observed_generation=owner.generation)
            for name, condition in updated.items()
        }
    return _set_root(FrozenDict(updated), owner) if owner.condition_set.root else FrozenDict(updated)


def clear_condition(conditions: Conditions, condition_type: str) -> Conditions:
    """Return conditions without one; the root must not depend on it."""
    if condition_type not in conditions:
        return conditions
    return FrozenDict({name: condition for name, condition in conditions.items() if name != condition_type})


def _set_root(conditions: Conditions, owner: ConditionOwner) -> Conditions:
    names, root = owner.condition_set.dependents, owner.condition_set.root
    current_names = [name for name in names if conditions[name].observed_generation == owner.generation]
    current = {name: conditions[name].status for name in current_names}
    unmet = [name for name in names if current.get(name) != TRUE]
    if not unmet:
        status, reason = TRUE, root
    elif FALSE in current.values():
        status, reason = FALSE, "UnhealthyDependents"
    else:
        status, reason = UNKNOWN, "ReconcilingDependents"
    message = ", ".join(f"{name}={conditions[name].status}" for name in unmet)
    return FrozenDict({**conditions, root: _transition(conditions[root], owner, status, reason, message)})


def _transition(
    before: Condition | None, owner: ConditionOwner, status: str, reason: str, message: str
) -> Condition:
    is_same = before is not None and before.status == status
    return Condition(
        status=status,
        reason=reason,
        message=message,
        last_transition_time=before.last_transition_time if before and is_same else owner.now,
        observed_generation=owner.generation,
    )
