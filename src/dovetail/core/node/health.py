"""Node health: unhealthy conditions that are tolerated only for a while."""

from collections.abc import Iterable
from datetime import datetime, timedelta
from math import ceil
from typing import Final

import msgspec

from dovetail.model.kube.conditions import FALSE, READY, UNKNOWN, Conditions

_MAX_UNHEALTHY_SHARE: Final = 0.2
"""Above this share of unhealthy nodes the cause is not the nodes: stop repairing."""


class RepairPolicy(msgspec.Struct, frozen=True):
    """A node condition that means unhealthy, and how long it is tolerated."""

    condition: str
    status: str
    toleration_duration: timedelta


class UnhealthyCondition(msgspec.Struct, frozen=True):
    """An unhealthy condition of a node, and when the node is to be replaced."""

    condition: str
    repair_at: datetime


_DEFAULT_TOLERATION: Final = timedelta(minutes=30)
POLICIES: Final = (
    RepairPolicy(READY, FALSE, _DEFAULT_TOLERATION),
    RepairPolicy(READY, UNKNOWN, _DEFAULT_TOLERATION),
    RepairPolicy("AcceleratedHardwareReady", FALSE, timedelta(minutes=10)),
    RepairPolicy("StorageReady", FALSE, _DEFAULT_TOLERATION),
    RepairPolicy("NetworkingReady", FALSE, _DEFAULT_TOLERATION),
    RepairPolicy("KernelReady", FALSE, _DEFAULT_TOLERATION),
    RepairPolicy("ContainerRuntimeReady", FALSE, _DEFAULT_TOLERATION),
)
"""Conditions reported by kubelets and the EKS node monitoring agent."""


def find_unhealthy_condition(
    conditions: Conditions, policies: Iterable[RepairPolicy] = POLICIES
) -> UnhealthyCondition | None:
    """Return the condition that expires first; None: the node is healthy."""
    unhealthy = [
        UnhealthyCondition(policy.condition, since + policy.toleration_duration)
        for policy in policies
        if (state := conditions.get(policy.condition)) is not None
        and state.status == policy.status
        and (since := state.last_transition_time) is not None
    ]
    return min(unhealthy, key=lambda condition: condition.repair_at, default=None)


def exceeds_unhealthy_share(unhealthy: int, total: int) -> bool:
    """Return True if so many nodes are unhealthy that replacing them would not help."""
    return unhealthy > ceil(total * _MAX_UNHEALTHY_SHARE)
