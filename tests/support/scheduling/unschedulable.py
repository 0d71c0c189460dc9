"""The unschedulable reasons of a pod, and the facts in their messages."""

from typing import Any

from dovetail.model.kube.pod import Pod
from dovetail.model.plan import UnschedulableReason
from tests.support.scheduling.builders import cluster
from tests.support.scheduling.plans import reasons_of
from tests.support.scheduling.solver import checked


def the_only_reason(pod: Pod, *pools: Any, **fields: Any) -> UnschedulableReason:
    """Return the only reason of a pod; there is at most one NodePool."""
    plan = checked(cluster([pod], list(pools) or None, **fields))
    [reason] = reasons_of(plan, pod)
    return reason


def says(reason: UnschedulableReason, *facts: str) -> bool:
    missing = [fact for fact in facts if fact not in reason.message]
    assert not missing, f"{missing} not in: {reason.message}"
    return True
