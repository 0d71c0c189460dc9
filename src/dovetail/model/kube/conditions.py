"""Status conditions of Kubernetes objects."""

from datetime import datetime

import msgspec

from dovetail.model.frozen import FrozenDict

TRUE = "True"
FALSE = "False"
UNKNOWN = "Unknown"

READY = "Ready"
"""Type of the root condition of Karpenter's objects, and of nodes and pods."""


class Condition(msgspec.Struct, frozen=True, kw_only=True):
    """One condition; ``last_transition_time`` changes only with ``status``."""

    status: str = UNKNOWN
    reason: str = ""
    message: str = ""
    last_transition_time: datetime | None = None
    observed_generation: int = 0
    """Generation of the object when the condition was last evaluated."""


Conditions = FrozenDict[str, Condition]
"""Condition type → condition."""

NO_CONDITIONS: Conditions = FrozenDict()


def is_true(conditions: Conditions, condition_type: str) -> bool:
    """Return True if the condition exists and its status is True."""
    condition = conditions.get(condition_type)
    return condition is not None and condition.status == TRUE


def condition_status(conditions: Conditions, condition_type: str) -> str:
    """Return the status of a condition; Unknown if it does not exist."""
    condition = conditions.get(condition_type)
    return UNKNOWN if condition is None else condition.status
