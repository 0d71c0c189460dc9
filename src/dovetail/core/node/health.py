"""Which nodes are broken for so long that another machine is better than waiting."""

from collections.abc import Iterable
from datetime import datetime, timedelta
from math import ceil
from typing import Final

import msgspec

from dovetail.model.kube.conditions import FALSE, UNKNOWN, Conditions

_BREAKER: Final = 0.2
"""Where more than this share of nodes is broken, machines are not what is wrong."""


class RepairPolicy(msgspec.Struct, frozen=True):
    """A node condition by which a node is broken, and how long that is borne."""

    condition: str
    status: str
    patience: timedelta


class Breakage(msgspec.Struct, frozen=True):
    """What is broken about a node, and from when on it is to go."""

    condition: str
    due: datetime


_PATIENT: Final = timedelta(minutes=30)
POLICIES: Final = (
    RepairPolicy("Ready", FALSE, _PATIENT),
    RepairPolicy("Ready", UNKNOWN, _PATIENT),
    RepairPolicy("AcceleratedHardwareReady", FALSE, timedelta(minutes=10)),
    RepairPolicy("StorageReady", FALSE, _PATIENT),
    RepairPolicy("NetworkingReady", FALSE, _PATIENT),
    RepairPolicy("KernelReady", FALSE, _PATIENT),
    RepairPolicy("ContainerRuntimeReady", FALSE, _PATIENT),
)
"""What kubelets and the node monitoring agent of EKS report."""


def breakage(
    conditions: Conditions, policies: Iterable[RepairPolicy] = POLICIES
) -> Breakage | None:
    """Return what a node is to go for first; None for a node that is well."""
    found = [
        Breakage(one.condition, since + one.patience)
        for one in policies
        if (state := conditions.get(one.condition)) is not None
        and state.status == one.status
        and (since := state.since) is not None
    ]
    return min(found, key=lambda one: one.due, default=None)


def too_many(broken: int, total: int) -> bool:
    """Tell whether so many nodes are broken at once that replacing them would not help."""
    return broken > ceil(total * _BREAKER)
