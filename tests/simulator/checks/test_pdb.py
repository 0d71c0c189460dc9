"""The independent judge of evictions: how many pods must stay, and which count."""

from typing import Any

import pytest

from dovetail.ports.api_resources import DEPLOYMENTS, POD_DISRUPTION_BUDGETS, PODS
from dovetail.simulator.apiserver.delete import DeleteOptions
from dovetail.simulator.apiserver.storage.frozen_object import Object
from dovetail.simulator.checks.pdb import broken_budgets
from tests.support.cluster import a_pod, run_pod
from tests.support.workloads import Working, a_workload, set_pod

AT_ONCE = DeleteOptions(grace_seconds=0)


def a_budget(name: str = "budget", *, app: str = "web", **spec: Any) -> dict[str, Any]:
    selector = {"matchExpressions": [{"key": "app", "operator": "In", "values": [app]}]}
    return {
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"selector": selector, **spec},
    }


def ten_pods(**spec: Any) -> Working:
    cluster = Working()
    cluster.create(DEPLOYMENTS, a_workload(replicas=10))
    cluster.create(POD_DISRUPTION_BUDGETS, a_budget(**spec))
    cluster.wait(5)
    return cluster


def taken(cluster: Working, count: int) -> Object:
    """Delete pods, whatever budgets say; returns the last one as it was before."""
    victims = cluster.pods(app="web")[:count]
    for one in victims:
        cluster.delete(PODS, one["metadata"]["name"], "default")
    return victims[-1]


@pytest.mark.parametrize(
    ("spec", "spare"),
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
def test_a_budget_is_broken_by_one_pod_more_than_it_can_spare(
    spec: dict[str, Any], spare: int
) -> None:
    kept, broken = ten_pods(**spec), ten_pods(**spec)

    last_allowed = taken(kept, spare) if spare else None
    one_more = taken(broken, spare + 1)

    assert last_allowed is None or list(broken_budgets(kept, last_allowed)) == []
    assert list(broken_budgets(broken, one_more)) == [
        f"budget default/budget: {9 - spare} healthy, {10 - spare} wanted"
    ]


def test_a_budget_that_can_spare_all_cannot_be_broken() -> None:
    cluster = ten_pods(maxUnavailable="100%")

    last = taken(cluster, 10)

    assert list(broken_budgets(cluster, last)) == []


def test_every_budget_that_covers_the_pod_is_named() -> None:
    cluster = ten_pods(minAvailable=10)
    cluster.create(POD_DISRUPTION_BUDGETS, a_budget("second", minAvailable=10))
    cluster.create(POD_DISRUPTION_BUDGETS, a_budget("others", app="db", minAvailable=10))
    cluster.wait(1)

    told = list(broken_budgets(cluster, taken(cluster, 1)))

    assert [one.split(":")[0] for one in told] == [
        "budget default/budget",
        "budget default/second",
    ]


def test_a_budget_that_selects_nothing_covers_nobody() -> None:
    cluster = Working()
    nothing: dict[str, Any] = {"minAvailable": 1}
    cluster.create(
        POD_DISRUPTION_BUDGETS,
        {"metadata": {"name": "budget", "namespace": "default"}, "spec": nothing},
    )
    pod = run_pod(cluster, a_pod("web", labels={"app": "web"}))

    cluster.delete(PODS, "web", "default", options=AT_ONCE)

    assert list(broken_budgets(cluster, pod)) == []


def test_a_pod_that_is_gone_already_still_counts_as_taken() -> None:
    cluster = ten_pods(minAvailable=10)
    pod = cluster.pods(app="web")[0]

    cluster.delete(PODS, pod["metadata"]["name"], "default", options=AT_ONCE)

    assert len(list(broken_budgets(cluster, pod))) == 1


def test_pods_that_are_not_ready_or_going_already_take_nothing() -> None:
    cluster = ten_pods(minAvailable=10)
    unready, going = (one["metadata"]["name"] for one in cluster.pods(app="web")[:2])
    set_pod(cluster, ("default", unready), ready=False)
    cluster.delete(PODS, going, "default")

    before = [cluster.get(PODS, name, "default") for name in (unready, going)]
    for name in (unready, going):
        cluster.delete(PODS, name, "default", options=AT_ONCE)

    assert [list(broken_budgets(cluster, pod)) for pod in before] == [[], []]
