"""Solve with a check of the plan, so that no test uses an invalid one."""

from collections.abc import Iterable
from typing import Any

from dovetail.core.scheduling.solver import solve
from dovetail.model.kube.pod import Pod
from dovetail.model.plan import Plan
from dovetail.model.settings import Packing, SchedulingSettings
from dovetail.model.snapshot import ClusterSnapshot
from tests.support.scheduling.checker.plan_checker import check
from tests.support.scheduling.plans import settled, unplaced_pods


def checked(snapshot: ClusterSnapshot, settings: SchedulingSettings | None = None) -> Plan:
    """Return the checked plan of ``solve``."""
    plan = solve(snapshot, settings)
    assert [str(violation) for violation in check(snapshot, plan)] == []
    return plan


def solved(snapshot: ClusterSnapshot, **choices: Any) -> Plan:
    """Return the checked plan; keywords are fields of ``SchedulingSettings``."""
    return checked(snapshot, SchedulingSettings(**choices))


def packed(snapshot: ClusterSnapshot, **choices: Any) -> Plan:
    """Return the checked plan with the fewest nodes."""
    return solved(snapshot, packing=Packing.FEWEST, **choices)


def after(snapshot: ClusterSnapshot, *batches: Iterable[Pod], **choices: Any) -> ClusterSnapshot:
    """Return the cluster after its pending pods, then each batch, were placed."""
    cluster = snapshot
    for batch in [None, *batches]:
        if batch is not None:
            cluster = settled(cluster, Plan(), batch)
        plan = packed(cluster, **choices)
        cluster = settled(cluster, plan, unplaced_pods(plan))
    return cluster
