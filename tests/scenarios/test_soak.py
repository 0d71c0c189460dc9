"""A soak finds no violation, and its checks find those that there are."""

import json
import subprocess
import sys
from datetime import timedelta

import msgspec
import pytest

from dovetail.ports.api_resources import NODE_CLAIMS, NODE_POOLS, NODES, PODS
from dovetail.simulator.apiserver.options import ListOptions, PatchType
from dovetail.simulator.apiserver.storage.watch import EventType, WatchEvent
from dovetail.simulator.cluster import SimulatedCluster
from dovetail.simulator.controllermanager.deployment.rollout import scaled_value
from dovetail.simulator.ec2.account import LaunchFailure
from dovetail.simulator.environment import SeededRandomSource
from dovetail.simulator.scenario_actions import perform
from tests.support.simulator.clusters import (
    a_node_class,
    a_pool,
    an_app,
    build_cluster,
    build_scenario,
    scaled,
    wait,
)
from tests.support.soak.checks import MAX_DEGRADED, MAX_DELETING, MAX_PENDING, SoakChecks
from tests.support.soak.disturbances import ApiErrorInjector, UndisturbedTime
from tests.support.soak.events import SoakEvents
from tests.support.soak.leaks import FREED, LEAKS, MONTH
from tests.support.soak.memory import MemorySample, measure_growth
from tests.support.soak.objects import SERVICES, soak_objects
from tests.support.soak.run import SoakReport, run_soak

MINUTE = timedelta(minutes=1)


def checked(cluster: SimulatedCluster) -> tuple[SoakChecks, UndisturbedTime]:
    time = UndisturbedTime(cluster.clock)
    return SoakChecks(cluster, time), time


def run_checked(cluster: SimulatedCluster, checks: SoakChecks, duration: timedelta) -> list[str]:
    """Violations after a time, without their timestamps."""
    for _ in range(duration // MINUTE):
        wait(cluster, 60)
        checks.check()
    return [violation.split(maxsplit=2)[2] for violation in checks.violations]


@pytest.mark.slow
def test_a_day_of_churn_errors_and_kills_violates_nothing() -> None:
    report = run_soak(timedelta(days=1), seed=1)

    assert report.violations == []
    assert report.most_nodes > 40
    assert report.events["kill the controllers"] > 0


@pytest.mark.slow
def test_equal_seeds_give_equal_soaks() -> None:
    def run(seed: int) -> SoakReport:
        return msgspec.structs.replace(run_soak(timedelta(hours=1), seed=seed), memory=[])

    assert run(1) == run(1)
    assert run(1) != run(2)


def test_a_pod_that_is_not_bound_in_time_is_a_violation() -> None:
    cluster = build_cluster(build_scenario(objects=(an_app(replicas=1),)))
    checks, _ = checked(cluster)

    assert run_checked(cluster, checks, MAX_PENDING) == []
    assert any("is not bound" in text for text in run_checked(cluster, checks, 2 * MINUTE))


def test_a_workload_without_ready_pods_is_a_violation() -> None:
    cluster = build_cluster(build_scenario(objects=(an_app(replicas=1),)))
    checks, _ = checked(cluster)

    violations = run_checked(cluster, checks, MAX_DEGRADED + 2 * MINUTE)

    assert "Deployment default/web lacks ready pods" in violations


def test_time_of_a_disturbance_does_not_count() -> None:
    cluster = build_cluster(build_scenario(objects=(an_app(replicas=1),)))
    checks, time = checked(cluster)
    time.disturb(MAX_PENDING)

    assert run_checked(cluster, checks, 2 * MAX_PENDING) == []
    assert run_checked(cluster, checks, 2 * MINUTE) != []


def test_time_stands_still_while_a_launch_fails_hours_after_the_event() -> None:
    cluster = build_cluster()
    time = UndisturbedTime(cluster.clock)
    events = SoakEvents(cluster, ApiErrorInjector(SeededRandomSource(1)), time, seed=1)
    cluster.ec2.fail_next_launches(LaunchFailure.NEVER_REGISTERS)
    wait(cluster, 3 * 3600)
    perform(scaled(1), cluster)
    wait(cluster, 60)

    events.disturb_failed_launches()
    before = time.elapsed()
    wait(cluster, 14 * 60)

    assert time.elapsed() == before


def test_drifted_nodes_are_replaced_at_the_limit_of_their_nodepool_without_a_violation() -> None:
    pool = a_pool(limits={"cpu": "2"})
    cluster = build_cluster(build_scenario(objects=(a_node_class(), pool, an_app(replicas=1))))
    wait(cluster, 60)
    [old] = cluster.api.list(NODE_CLAIMS).items

    labels = {"spec": {"template": {"metadata": {"labels": {"generation": "2"}}}}}
    cluster.api.patch(NODE_POOLS, "default", labels, PatchType.MERGE)
    wait(cluster, 600)

    [new] = cluster.api.list(NODE_CLAIMS).items
    assert new["metadata"]["name"] != old["metadata"]["name"]
    assert cluster.invariants.violations == []


@pytest.mark.parametrize("load", [0.02, 0.1, 1.0])
def test_the_budgets_of_services_allow_an_eviction_at_any_load(load: float) -> None:
    budgets = {obj["metadata"]["name"]: obj for obj in soak_objects(load=load) if "Budget" in obj["kind"]}

    for service in SERVICES:
        replicas = service.replicas(0, 0.8 * load)  # The least of the day.
        spec = budgets[service.name]["spec"]
        available = scaled_value(spec.get("minAvailable"), replicas, up=True, default=0)

        assert replicas > available, service.name


def test_an_object_that_a_finalizer_holds_is_a_violation() -> None:
    cluster = build_cluster(build_scenario(objects=(a_node_class(), a_pool())))
    checks, _ = checked(cluster)
    held = {"metadata": {"finalizers": ["example.com/held"]}}
    cluster.api.patch(NODE_POOLS, "default", held, PatchType.MERGE)
    cluster.api.delete(NODE_POOLS, "default")

    violations = run_checked(cluster, checks, MAX_DELETING + 2 * MINUTE)

    assert violations == ["NodePool default has not been removed"]


def test_a_disruption_beyond_the_budget_is_a_violation() -> None:
    cluster = build_cluster()
    checks, _ = checked(cluster)
    perform(scaled(2), cluster)
    wait(cluster, 60)
    cluster.operator.kill()  # Else it removes the taints at once.
    taint = {"key": "karpenter.sh/disrupted", "effect": "NoSchedule"}
    for node in cluster.api.list(NODES, ListOptions(label_selector="karpenter.sh/nodepool")).items:
        cluster.api.patch(NODES, node["metadata"]["name"], {"spec": {"taints": [taint]}}, PatchType.MERGE)

    violations = run_checked(cluster, checks, MINUTE)

    assert "2 of 2 nodes of default disrupted, 1 allowed" in violations


def test_a_pod_that_changes_its_node_is_a_violation() -> None:
    cluster = build_cluster()
    checks, _ = checked(cluster)
    perform(scaled(1), cluster)
    wait(cluster, 60)
    pod = cluster.api.list(PODS).items[0]
    moved = {**pod, "spec": {**pod["spec"], "nodeName": "elsewhere"}}
    checks.handle_pod(WatchEvent(EventType.MODIFIED, moved))

    assert any("is bound to elsewhere and was bound to" in text for text in checks.violations)


@pytest.mark.parametrize(("objects", "growth"), [([1, 2, 2, 2, 3, 4], 3.0), ([5, 7, 9, 9, 8, 5], 1.0)])
def test_growth_of_memory_compares_the_least_of_the_last_third_with_the_first(
    objects: list[int], growth: float
) -> None:
    samples = [a_sample(objects=number) for number in [9, 9, 9, 9, *objects]]

    assert measure_growth(samples, MONTH)["objects"] == growth


def test_growth_of_memory_is_not_known_after_few_days() -> None:
    assert measure_growth([a_sample()] * 3, timedelta(days=1)) == {}


@pytest.fixture(scope="module")
def leaks() -> dict[str, list[str]]:
    """Violations by kind of leak, found in a process of its own."""
    command = [sys.executable, "-m", "tests.support.soak.leaks"]
    child = subprocess.run(command, check=True, capture_output=True, text=True)
    violations: dict[str, list[str]] = json.loads(child.stdout)
    return violations


@pytest.mark.parametrize("leak", LEAKS)
def test_whatever_a_month_leaks_is_a_violation(leak: str, leaks: dict[str, list[str]]) -> None:
    assert any(text.startswith(("objects", "blocks", "heap_mib")) for text in leaks[leak]), leaks[leak]


def test_memory_that_is_freed_every_day_is_no_violation(leaks: dict[str, list[str]]) -> None:
    assert leaks[FREED] == []


def a_sample(**measures: int) -> MemorySample:
    return MemorySample(day=0, **{"objects": 1, "blocks": 1, "heap_mib": 1, "rss_mib": 1, **measures})
