"""Registration health of a NodePool, from the outcomes of its last launches."""

from enum import StrEnum
from typing import Final

from dovetail.model.kube.conditions import FALSE, TRUE

MAX_OUTCOMES: Final = 4
_MIN_FAILURES: Final = 2

Outcomes = tuple[bool, ...]
"""The last launches of a pool, oldest first: True where a node registered."""


class Health(StrEnum):
    """Registration health."""

    UNKNOWN = "Unknown"
    HEALTHY = "Healthy"
    UNHEALTHY = "Unhealthy"


def add_outcome(past: Outcomes, success: bool) -> Outcomes:
    """Return the last outcomes with one more added."""
    return (*past, success)[-MAX_OUTCOMES:]


def get_health(past: Outcomes) -> Health:
    """Return the health: two failures are unhealthy, whatever the successes."""
    if not past:
        return Health.UNKNOWN
    return Health.UNHEALTHY if past.count(False) >= _MIN_FAILURES else Health.HEALTHY


def infer_outcomes(status: str) -> Outcomes:
    """Return outcomes consistent with a condition status, as a substitute after a restart."""
    return {TRUE: (True,), FALSE: (False,) * _MIN_FAILURES}.get(status, ())
