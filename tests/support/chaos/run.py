"""A chaos run: faults and kills for some hours, then peace, then everything is removed."""

import statistics
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import msgspec

from dovetail.ports.api_resources import EC2_NODE_CLASSES, NODE_CLAIMS, NODES, PODS
from tests.support.chaos.checks import is_ready
from tests.support.chaos.cluster import ChaosCluster
from tests.support.chaos.load import Load
from tests.support.chaos.network import ErrorRates

RATES = {"throttled": 0.20, "lost": 0.10, "no_capacity": 0.05}
_RECOVERY = timedelta(minutes=20)
"""Until all pods run, once faults and kills have stopped.

A NodeClaim whose instance was lost before its registration is deleted after 15 minutes.
"""
_SCALE_DOWN = timedelta(minutes=15)
"""Until nothing is left of the load."""
_DELETION = timedelta(minutes=5)
"""Until nothing is left of node classes."""


class ChaosReport(msgspec.Struct, kw_only=True):
    """Figures of a run; times in seconds."""

    simulated_hours: float
    kills: int
    failed_starts: int
    aws_calls: int
    throttled: int
    lost_responses: int
    no_capacity_errors: int
    interruptions: int
    fleets: int
    launches: int
    duplicates: int
    nodeclaims_with_instance: int
    pods_bound: int
    pending_to_launch: dict[str, float]
    pending_to_bound: dict[str, float]
    orphaned_instances: dict[str, float]
    node_classes_created: int
    node_class_unready: dict[str, float]
    leftovers: dict[str, float]
    violations: list[str]


def run_chaos(
    duration: timedelta, *, seed: int = 1, progress: Callable[[str], None] = lambda _: None
) -> ChaosReport:
    """Run and check everything; ``violations`` of the report must be empty."""
    rates = ErrorRates(**RATES)
    cluster = ChaosCluster(seed, rates)
    load = Load(cluster)
    cluster.is_killing = True
    elapsed = timedelta()
    while elapsed < duration:
        step = min(timedelta(hours=1), duration - elapsed)
        cluster.run(step)
        elapsed += step
        progress(f"{elapsed}: {cluster.kills} kills, {len(cluster.account.ec2.instances)} launches")
    _end(cluster, load)
    checks, network, now = cluster.checks, cluster.network, cluster.clock.now()
    checks.violations += [f"unhandled: {error}" for error in cluster.unhandled_errors]
    return ChaosReport(
        simulated_hours=duration / timedelta(hours=1),
        kills=cluster.kills,
        failed_starts=len(cluster.start_failures),
        aws_calls=network.calls.total(),
        throttled=network.injected["throttled"],
        lost_responses=network.injected["lost"],
        no_capacity_errors=cluster.account.ec2.no_capacity_errors,
        interruptions=load.interruptions,
        fleets=len(cluster.account.ec2.fleets),
        launches=len(cluster.account.ec2.instances),
        duplicates=checks.duplicates,
        nodeclaims_with_instance=len(checks.launches),
        pods_bound=len(checks.pending),
        pending_to_launch=_summary(checks.waited_for_launch),
        pending_to_bound=_summary(checks.pending),
        orphaned_instances=_summary(checks.orphans.durations(now)),
        node_classes_created=load.classes + len(load.pools),
        node_class_unready=_summary(checks.unready.durations(now)),
        leftovers=_summary(checks.leftovers.durations(now)),
        violations=checks.violations,
    )


def _end(cluster: ChaosCluster, load: Load) -> None:
    """Stop faults and kills; then all must recover, scale down, and be deleted."""
    account, checks = cluster.account, cluster.checks
    cluster.is_killing = False
    cluster.rates.throttled = cluster.rates.lost = cluster.rates.no_capacity = 0.0
    load.pause()
    cluster.run(_RECOVERY)
    pending = [
        pod["metadata"]["name"] for pod in cluster.api.list(PODS).items if not pod["spec"].get("nodeName")
    ]
    checks.expect_none("pods pending", pending)
    unready = [entry for entry in cluster.api.list(EC2_NODE_CLASSES).items if not is_ready(entry)]
    checks.expect_none("node classes not ready", [entry["metadata"]["name"] for entry in unready])

    load.scale_to_zero()
    cluster.run(_SCALE_DOWN)
    checks.expect_none("nodeclaims left", cluster.names(NODE_CLAIMS))
    checks.expect_none("nodes left", cluster.names(NODES))
    checks.expect_none("instances left", [instance.id for instance in account.ec2.alive()])

    load.delete_all()
    cluster.run(_DELETION)
    checks.expect_none("node classes left", cluster.names(EC2_NODE_CLASSES))
    checks.expect_none("launch templates left", list(account.ec2.templates))
    checks.expect_none("instance profiles left", list(account.profiles))


def _summary(durations: Sequence[timedelta]) -> dict[str, Any]:
    seconds = sorted(round(duration.total_seconds(), 1) for duration in durations)
    if not seconds:
        return {"count": 0}
    return {
        "count": len(seconds),
        "median": statistics.median(seconds),
        "p95": seconds[int(len(seconds) * 0.95)],
        "worst": seconds[-1],
    }
