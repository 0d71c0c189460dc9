"""Whether machines of a pool come to be nodes: judged by the last few."""

from enum import StrEnum
from typing import Final

from dovetail.model.kube.conditions import FALSE, TRUE

REGISTRATION_HEALTHY: Final = "NodeRegistrationHealthy"
REMEMBERED: Final = 4
_TOO_MANY: Final = 2

Outcomes = tuple[bool, ...]
"""The last launches of a pool, oldest first: True where a node registered."""


class Health(StrEnum):
    """What the last outcomes amount to."""

    UNKNOWN = "Unknown"
    HEALTHY = "Healthy"
    UNHEALTHY = "Unhealthy"


def with_outcome(past: Outcomes, success: bool) -> Outcomes:
    """Return the outcomes after one more."""
    return (*past, success)[-REMEMBERED:]


def health(past: Outcomes) -> Health:
    """Judge: two failures are too many, however few successes there have been."""
    if not past:
        return Health.UNKNOWN
    return Health.UNHEALTHY if past.count(False) >= _TOO_MANY else Health.HEALTHY


def outcomes_behind(status: str) -> Outcomes:
    """Return outcomes that would have led to a condition, for want of the real ones."""
    return {TRUE: (True,), FALSE: (False,) * _TOO_MANY}.get(status, ())
