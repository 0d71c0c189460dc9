"""What was refused, and whether the message has the facts a user needs."""

from typing import Any

from dovetail.model.kube.pod import Pod
from dovetail.model.plan import Refusal
from tests.support.build import cluster
from tests.support.outcome import refusals_of
from tests.support.solving import checked


def the_refusal(pod: Pod, *pools: Any, **around: Any) -> Refusal:
    """The one refusal of a pod that only one pool (or none) has to answer for."""
    plan = checked(cluster([pod], list(pools) or None, **around))
    [refusal] = refusals_of(plan, pod)
    return refusal


def says(refusal: Refusal, *facts: str) -> bool:
    missing = [fact for fact in facts if fact not in refusal.message]
    assert not missing, f"{missing} not in: {refusal.message}"
    return True
