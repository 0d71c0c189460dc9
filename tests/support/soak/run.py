"""A soak: simulated days of churn, faults and restarts, with checks after every event."""

import statistics
from collections.abc import Callable, Sequence
from datetime import timedelta

import msgspec

from dovetail.data.bundled import bundled_catalog, bundled_prices
from dovetail.model.cloud.ec2_catalog import Catalog
from dovetail.model.settings import FeatureGates
from dovetail.ports.api_resources import (
    CRON_JOBS,
    DEPLOYMENTS,
    EC2_NODE_CLASSES,
    JOBS,
    NODE_CLAIMS,
    NODE_POOLS,
    NODES,
    PODS,
    STATEFUL_SETS,
)
from dovetail.simulator.apiserver.options import ListOptions
from dovetail.simulator.apiserver.timestamps import format_timestamp
from dovetail.simulator.checks.invariants import CheckedKubeClient
from dovetail.simulator.cluster import SimulatedCluster
from dovetail.simulator.environment import SeededRandomSource
from dovetail.simulator.latencies import CloudLatencies, KubeletLatencies
from dovetail.simulator.scenario.model import ManagedNodeGroup, Scenario
from tests.support.soak.checks import SoakChecks
from tests.support.soak.disturbances import ApiErrorInjector, FaultyKubeClient, UndisturbedTime
from tests.support.soak.events import SoakEvents
from tests.support.soak.memory import MemorySample, find_leaks, measure_growth, sample_memory
from tests.support.soak.objects import NAMESPACE, soak_objects

_CHECK_INTERVAL = timedelta(minutes=1)
_SAMPLE_INTERVAL = timedelta(hours=6)
_LAUNCHES_KEPT = timedelta(hours=6)
"""After the termination of an instance: longer than any check looks back."""
_RECOVERY = timedelta(hours=1)
_REMOVAL = timedelta(hours=1)
_STARTING = timedelta(minutes=10)
"""Pods younger than this may still wait for their node."""
FAMILIES = ("c5", "c6i", "c7i", "m5", "m6i", "m7i", "r5", "r6i", "t3")
GATES = FeatureGates(NodeRepair=True, StaticCapacity=True, SpotToSpotConsolidation=True)


class SoakReport(msgspec.Struct, kw_only=True):
    """Figures of a run; times in seconds."""

    simulated_days: float
    seed: int
    load: float
    events: dict[str, int]
    api_errors: dict[str, int]
    launches: int
    most_nodes: int
    pods_bound: int
    pending: dict[str, float]
    evictions: int
    cost: float
    growth: dict[str, float]
    """Measure of memory → last third of the days relative to the first; empty if too short."""
    memory: list[MemorySample]
    violations: list[str]


def run_soak(
    duration: timedelta, *, seed: int = 1, load: float = 1.0, progress: Callable[[str], None] = lambda _: None
) -> SoakReport:
    """Run and check everything; ``violations`` of the report must be empty.

    With a ``load`` below 1, services are smaller, and fewer nodes take less time.
    """
    injector = ApiErrorInjector(SeededRandomSource(seed + 1))
    cluster = _build_cluster(seed, injector, load)
    clock, began = cluster.clock, cluster.clock.now()
    time = UndisturbedTime(clock)
    checks = SoakChecks(cluster, time)
    events = SoakEvents(cluster, injector, time, seed=seed, load=load)
    end = began + duration
    samples: list[MemorySample] = []
    reported: set[str] = set()
    forgotten = 0
    next_event, next_check, next_sample = began + timedelta(minutes=20), began, began
    while clock.now() < end:
        clock.run(until=min(end, next_event, next_check, next_sample))
        now = clock.now()
        if now >= next_event:
            events.perform()
            clock.run(until=now)
            next_event = now + events.next_pause()
        events.disturb_failed_launches()
        checks.check()
        for violation in (*cluster.invariants.violations, *checks.violations):
            if violation not in reported:
                reported.add(violation)
                progress(f"violation: {violation}")
        if now >= next_check:
            next_check = now + _CHECK_INTERVAL
        if now >= next_sample:
            next_sample = now + _SAMPLE_INTERVAL
            forgotten += cluster.ec2.billing.forget_terminated(now - _LAUNCHES_KEPT)
            samples.append(sample_memory((now - began) / timedelta(days=1)))
            progress(_describe(samples[-1], cluster, checks, forgotten))
    pool_names = [pool["metadata"]["name"] for pool in cluster.api.list(NODE_POOLS).items]
    events.end()
    _finish(cluster, checks, pool_names)
    growth = measure_growth(samples, duration)
    checks.violations += find_leaks(growth)
    return SoakReport(
        simulated_days=duration / timedelta(days=1),
        seed=seed,
        load=load,
        events=dict(sorted(events.counts.items())),
        api_errors=dict(sorted(injector.injected.items())),
        launches=forgotten + len(cluster.ec2.billing.launches),
        most_nodes=checks.most_nodes,
        pods_bound=checks.pending_seconds.total(),
        pending=_summary(list(checks.pending_seconds.elements())),
        evictions=int(cluster.metrics.total("karpenter_pods_eviction_requests_total", code="200")),
        cost=round(cluster.ec2.billing.cost(clock.now()), 2),
        growth=growth,
        memory=samples,
        violations=[*cluster.invariants.violations, *checks.violations],
    )


def _build_cluster(seed: int, injector: ApiErrorInjector, load: float) -> SimulatedCluster:
    scenario = Scenario(
        name="soak",
        about="Days of churn, faults and restarts.",
        seed=seed,
        node_group=ManagedNodeGroup(count=1, instance_type="t3.medium"),
        objects=soak_objects(load=load),
        cloud=CloudLatencies(boot_jitter=timedelta(seconds=20)),
        kubelet=KubeletLatencies(jitter=0.3),
    )
    return SimulatedCluster(
        scenario,
        catalog=_catalog(),
        prices=bundled_prices(),
        gates=GATES,
        kube=lambda api, invariants: FaultyKubeClient(CheckedKubeClient(api, invariants), injector),
    )


def _catalog() -> Catalog:
    """Return a few families, so that a month can be simulated in minutes."""
    catalog = bundled_catalog()
    types = tuple(kind for kind in catalog.instance_types if kind.name.partition(".")[0] in FAMILIES)
    return msgspec.structs.replace(catalog, instance_types=types)


def _finish(cluster: SimulatedCluster, checks: SoakChecks, pools: Sequence[str]) -> None:
    """End faults; everything must recover, then be removed without a trace."""
    _run(cluster, checks, _RECOVERY)
    recent = format_timestamp(cluster.clock.now() - _STARTING)
    pending = [
        pod["metadata"]["name"]
        for pod in cluster.api.list(PODS).items
        if not pod["spec"].get("nodeName") and pod["metadata"]["creationTimestamp"] < recent
    ]
    checks.expect_none("pods pending at the end", [name for name in pending if "batch" not in name])
    for workloads in (CRON_JOBS, JOBS, DEPLOYMENTS, STATEFUL_SETS):
        cluster.api.delete_collection(workloads, ListOptions(namespace=NAMESPACE))
    for pool in pools:
        cluster.api.delete(NODE_POOLS, pool)
    cluster.api.delete(EC2_NODE_CLASSES, "default")
    _run(cluster, checks, _REMOVAL)
    for resource_left in (NODE_POOLS, EC2_NODE_CLASSES, NODE_CLAIMS):
        left = [obj["metadata"]["name"] for obj in cluster.api.list(resource_left).items]
        checks.expect_none(f"{resource_left.plural} left", left)
    nodes = [node["metadata"]["name"] for node in cluster.api.list(NODES).items]
    checks.expect_none("nodes left", [name for name in nodes if not name.startswith("ip-10-250-")])
    checks.expect_none("instances left", [instance.id for instance in cluster.ec2.instances()])


def _run(cluster: SimulatedCluster, checks: SoakChecks, duration: timedelta) -> None:
    end = cluster.clock.now() + duration
    while cluster.clock.now() < end:
        cluster.clock.run(until=min(end, cluster.clock.now() + _CHECK_INTERVAL))
        checks.check()


def _describe(sample: MemorySample, cluster: SimulatedCluster, checks: SoakChecks, forgotten: int) -> str:
    violations = len(cluster.invariants.violations) + len(checks.violations)
    return (
        f"day {sample.day}: {cluster.ec2.billing.instance_count} instances, "
        f"{forgotten + len(cluster.ec2.billing.launches)} launches, RSS {sample.rss_mib} MiB, "
        f"C heap {sample.heap_mib} MiB, {sample.blocks} blocks, {sample.objects} objects, "
        f"{violations} violations"
    )


def _summary(seconds: Sequence[float]) -> dict[str, float]:
    ordered = sorted(seconds)
    if not ordered:
        return {}
    return {
        "median": round(statistics.median(ordered), 1),
        "p95": round(ordered[int(len(ordered) * 0.95)], 1),
        "p99": round(ordered[int(len(ordered) * 0.99)], 1),
        "worst": round(ordered[-1], 1),
    }
