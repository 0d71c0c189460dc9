"""Status conditions: what an object says about how far it has come."""

from datetime import datetime

import msgspec

from dovetail.model.frozen import FrozenDict

TRUE = "True"
FALSE = "False"
UNKNOWN = "Unknown"


class Condition(msgspec.Struct, frozen=True, kw_only=True):
    """One condition; ``since`` moves only when ``status`` changes."""

    status: str = UNKNOWN
    reason: str = ""
    message: str = ""
    since: datetime | None = None
    generation: int = 0
    """Of the object when this was last looked at."""


Conditions = FrozenDict[str, Condition]
"""Condition type → condition."""

NO_CONDITIONS: Conditions = FrozenDict()


def is_true(conditions: Conditions, kind: str) -> bool:
    """Tell whether a condition is there and True."""
    found = conditions.get(kind)
    return found is not None and found.status == TRUE


def status_of(conditions: Conditions, kind: str) -> str:
    """Return a condition's status; one that is not there is Unknown."""
    found = conditions.get(kind)
    return UNKNOWN if found is None else found.status
