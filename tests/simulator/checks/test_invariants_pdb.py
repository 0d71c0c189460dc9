"""PodDisruptionBudget check: how many pods must stay, and which count."""

from typing import Any

import pytest

from dovetail.ports.api_resources import DEPLOYMENTS, POD_DISRUPTION_BUDGETS, PODS
from dovetail.simulator.apiserver.options import DeleteOptions
from dovetail.simulator.apiserver.storage.frozen_object import Object
from dovetail.simulator.checks.invariants import find_violated_budgets
from tests.support.simulator.api_server import a_pod, run_pod
from tests.support.simulator.controller_manager import WorkloadCluster, a_workload, set_pod

AT_ONCE = DeleteOptions(grace_period_seconds=0)


def a_budget(name: str = "budget", *, app: str = "web", **spec: Any) -> dict[str, Any]:
    selector = {"matchExpressions": [{"key": "app", "operator": "In", "values": [app]}]}
    return {"metadata": {"name": name, "namespace": "default"}, "spec": {"selector": selector, **spec}}


def ten_pods(**spec: Any) -> WorkloadCluster:
    cluster = WorkloadCluster()
    cluster.create(DEPLOYMENTS, a_workload(replicas=10))
    cluster.create(POD_DISRUPTION_BUDGETS, a_budget(**spec))
    cluster.wait(5)
    return cluster


def taken(cluster: WorkloadCluster, count: int) -> Object:
    """Delete pods regardless of budgets; return the last one as it was before."""
    victims = cluster.pods(app="web")[:count]
    for victim in victims:
        cluster.delete(PODS, victim["metadata"]["name"], "default")
    return victims[-1]


@pytest.mark.parametrize(
    ("spec", "allowed"),
    [
        ({"minAvailable": 7}, 3),
        ({"minAvailable": "70%"}, 3),
        ({"minAvailable": "65%"}, 3),
        ({"maxUnavailable": 2}, 2),
        ({"maxUnavailable": "25%"}, 3),
        ({"maxUnavailable": 0}, 0),
    ],
    ids=str,
)
def test_a_budget_is_violated_by_one_pod_more_than_it_allows(spec: dict[str, Any], allowed: int) -> None:
    kept, broken = ten_pods(**spec), ten_pods(**spec)

    last_allowed = taken(kept, allowed) if allowed else None
    one_more = taken(broken, allowed + 1)

    assert last_allowed is None or list(find_violated_budgets(kept, last_allowed)) == []
    assert list(find_violated_budgets(broken, one_more)) == [
        f"budget default/budget: {9 - allowed} healthy, {10 - allowed} required"
    ]


def test_a_budget_that_allows_all_disruptions_cannot_be_violated() -> None:
    cluster = ten_pods(maxUnavailable="100%")

    last = taken(cluster, 10)

    assert list(find_violated_budgets(cluster, last)) == []


def test_every_violated_budget_that_covers_the_pod_is_reported() -> None:
    cluster = ten_pods(minAvailable=10)
    cluster.create(POD_DISRUPTION_BUDGETS, a_budget("second", minAvailable=10))
    cluster.create(POD_DISRUPTION_BUDGETS, a_budget("others", app="db", minAvailable=10))
    cluster.wait(1)

    violations = list(find_violated_budgets(cluster, taken(cluster, 1)))

    assert [violation.split(":")[0] for violation in violations] == [
        "budget default/budget",
        "budget default/second",
    ]


def test_a_budget_without_a_selector_covers_no_pods() -> None:
    cluster = WorkloadCluster()
    nothing: dict[str, Any] = {"minAvailable": 1}
    cluster.create(
        POD_DISRUPTION_BUDGETS, {"metadata": {"name": "budget", "namespace": "default"}, "spec": nothing}
    )
    pod = run_pod(cluster, a_pod("web", labels={"app": "web"}))

    cluster.delete(PODS, "web", "default", options=AT_ONCE)

    assert list(find_violated_budgets(cluster, pod)) == []


def test_a_pod_that_is_deleted_already_still_counts() -> None:
    cluster = ten_pods(minAvailable=10)
    pod = cluster.pods(app="web")[0]

    cluster.delete(PODS, pod["metadata"]["name"], "default", options=AT_ONCE)

    assert len(list(find_violated_budgets(cluster, pod))) == 1


def test_pods_that_are_not_ready_or_terminating_do_not_count() -> None:
    cluster = ten_pods(minAvailable=10)
    unready, going = (pod["metadata"]["name"] for pod in cluster.pods(app="web")[:2])
    set_pod(cluster, ("default", unready), ready=False)
    cluster.delete(PODS, going, "default")

    before = [cluster.get(PODS, name, "default") for name in (unready, going)]
    for name in (unready, going):
        cluster.delete(PODS, name, "default", options=AT_ONCE)

    assert [list(find_violated_budgets(cluster, pod)) for pod in before] == [[], []]
