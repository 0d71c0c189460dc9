"""Solve and have the plan checked, so that no test looks at an invalid one."""

from collections.abc import Iterable
from typing import Any

from dovetail.core.scheduling.solver import solve
from dovetail.model.kube.pod import Pod
from dovetail.model.plan import Plan
from dovetail.model.settings import Packing, SchedulingSettings
from dovetail.model.snapshot import ClusterSnapshot
from tests.support.checker import check
from tests.support.outcome import settled, unplaced_pods


def checked(snapshot: ClusterSnapshot, settings: SchedulingSettings | None = None) -> Plan:
    """The plan for a cluster, called as ``solve`` itself is."""
    plan = solve(snapshot, settings)
    assert [str(violation) for violation in check(snapshot, plan)] == []
    return plan


def solved(snapshot: ClusterSnapshot, **choices: Any) -> Plan:
    """The plan for a cluster; keywords are fields of ``SchedulingSettings``."""
    return checked(snapshot, SchedulingSettings(**choices))


def packed(snapshot: ClusterSnapshot, **choices: Any) -> Plan:
    """The plan with as few nodes as the reference would open."""
    return solved(snapshot, packing=Packing.FEWEST, **choices)


def after(snapshot: ClusterSnapshot, *batches: Iterable[Pod], **choices: Any) -> ClusterSnapshot:
    """The world after its pending pods, then each batch, were solved for and bound."""
    world = snapshot
    for batch in [None, *batches]:
        if batch is not None:
            world = settled(world, Plan(), batch)
        plan = packed(world, **choices)
        world = settled(world, plan, unplaced_pods(plan))
    return world
