"""Disruption controller: its status agrees with the eviction API."""

from typing import Any

import pytest

from dovetail.ports.api_resources import DAEMON_SETS, DEPLOYMENTS, POD_DISRUPTION_BUDGETS, PODS
from dovetail.ports.kube_errors import TooManyRequests
from dovetail.simulator.apiserver.storage.frozen_object import Object
from tests.support.simulator.api_server import a_pod, names
from tests.support.simulator.controller_manager import WorkloadCluster, a_workload, condition_of, set_pod


def a_budget(app: str = "web", **spec: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": "budget", "namespace": "default"},
        "spec": {"selector": {"matchLabels": {"app": app}}, **spec},
    }


def guarded(replicas: int, **spec: Any) -> WorkloadCluster:
    cluster = WorkloadCluster()
    cluster.create(DEPLOYMENTS, a_workload(replicas=replicas))
    cluster.create(POD_DISRUPTION_BUDGETS, a_budget(**spec))
    cluster.wait(5)
    return cluster


def budget(cluster: WorkloadCluster) -> Object:
    return cluster.get(POD_DISRUPTION_BUDGETS, "budget", "default")


def counts(cluster: WorkloadCluster) -> tuple[int, int, int, int]:
    """Expected, healthy, desired and allowed."""
    status = budget(cluster)["status"]
    fields = ("expectedPods", "currentHealthy", "desiredHealthy", "disruptionsAllowed")
    expected, healthy, desired, allowed = (status[name] for name in fields)
    return expected, healthy, desired, allowed


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"minAvailable": 3}, (5, 5, 3, 2)),
        ({"minAvailable": "50%"}, (5, 5, 3, 2)),
        ({"maxUnavailable": 1}, (5, 5, 4, 1)),
        ({"maxUnavailable": "30%"}, (5, 5, 3, 2)),
        ({"maxUnavailable": 0}, (5, 5, 5, 0)),
        ({"minAvailable": 9}, (5, 5, 9, 0)),
    ],
    ids=str,
)
def test_the_status_says_how_many_disruptions_are_allowed(
    spec: dict[str, Any], expected: tuple[int, int, int, int]
) -> None:
    cluster = guarded(5, **spec)

    assert counts(cluster) == expected
    allowed = ("True", "SufficientPods") if expected[3] else ("False", "InsufficientPods")
    assert condition_of(budget(cluster), "DisruptionAllowed") == allowed
    assert budget(cluster)["status"]["observedGeneration"] == 1


@pytest.mark.parametrize("spec", [{"minAvailable": 3}, {"maxUnavailable": "30%"}], ids=str)
def test_as_many_evictions_succeed_as_the_status_allows(spec: dict[str, Any]) -> None:
    cluster = guarded(5, **spec)
    allowed = counts(cluster)[3]

    evicted = 0
    for name in names(cluster.pods()):
        try:
            cluster.evict(name, "default")
            evicted += 1
        except TooManyRequests:
            break
        cluster.wait(0)
        assert counts(cluster)[3] == allowed - evicted

    assert evicted == allowed


def test_a_pod_that_is_not_ready_reduces_the_allowed_disruptions() -> None:
    cluster = guarded(5, maxUnavailable=2)
    sick = ("default", names(cluster.pods())[0])

    set_pod(cluster, sick, ready=False)
    cluster.wait(0)
    while_sick = counts(cluster)
    set_pod(cluster, sick)
    cluster.wait(0)

    assert while_sick == (5, 4, 3, 1)
    assert counts(cluster) == (5, 5, 3, 2)


def test_the_budget_follows_the_scale_of_the_deployment() -> None:
    cluster = guarded(4, minAvailable="50%")

    cluster.scale(DEPLOYMENTS, "web", 10)
    cluster.wait(5)

    assert counts(cluster) == (10, 10, 5, 5)


def test_pods_are_covered_according_to_their_labels() -> None:
    cluster = WorkloadCluster()
    cluster.create(POD_DISRUPTION_BUDGETS, a_budget(minAvailable=1))
    cluster.create(PODS, a_pod("p", labels={"app": "web"}))
    cluster.wait(5)
    covered = counts(cluster)

    cluster.change(PODS, "p", {"metadata": {"labels": {"app": "other"}}})
    cluster.wait(5)

    assert covered == (1, 1, 1, 0)
    assert counts(cluster) == (0, 0, 1, 0)


def test_a_changed_selector_is_counted_again() -> None:
    cluster = guarded(5, minAvailable=3)

    cluster.change(POD_DISRUPTION_BUDGETS, "budget", {"spec": {"minAvailable": 5}})
    cluster.wait(0)

    assert counts(cluster) == (5, 5, 5, 0)
    assert budget(cluster)["status"]["observedGeneration"] == 2


def test_a_percentage_of_daemon_pods_cannot_be_computed_and_allows_nothing() -> None:
    cluster = WorkloadCluster()
    cluster.create(DAEMON_SETS, a_workload("agent"))
    cluster.create(POD_DISRUPTION_BUDGETS, a_budget("agent", maxUnavailable=1))
    cluster.wait(5)

    assert counts(cluster)[3] == 0
    assert condition_of(budget(cluster), "DisruptionAllowed") == ("False", "SyncFailed")
