"""PodDisruptionBudgets of pods whose controllers have replica counts."""

from typing import Any

import pytest

from dovetail.ports.api_resources import DEPLOYMENTS, JOBS, POD_DISRUPTION_BUDGETS, REPLICA_SETS
from dovetail.ports.kube_errors import TooManyRequests
from dovetail.simulator.apiserver.storage.frozen_object import Object
from tests.support.simulator.api_server import Cluster, a_pod, a_replica_set, owned_by, run_pod


def a_budget(name: str = "pdb", **spec: Any) -> dict[str, Any]:
    selector = {"matchLabels": {"app": "web"}}
    return {"metadata": {"name": name, "namespace": "default"}, "spec": {"selector": selector, **spec}}


def three_web_pods(cluster: Cluster, owner: Object | None = None) -> None:
    for name in ("p1", "p2", "p3"):
        pod = a_pod(name, labels={"app": "web"})
        run_pod(cluster, pod if owner is None else owned_by(pod, owner))


def evicted(cluster: Cluster, *names: str) -> list[str]:
    """Try to evict some pods and return those that went."""
    went = []
    for name in names:
        try:
            cluster.evict(name, "default")
            went.append(name)
        except TooManyRequests:
            continue
    return went


def test_an_eviction_updates_the_status_of_the_pdb() -> None:
    cluster = Cluster()
    three_web_pods(cluster)
    cluster.create(POD_DISRUPTION_BUDGETS, a_budget(minAvailable=1))

    cluster.evict("p1", "default")

    status = cluster.get(POD_DISRUPTION_BUDGETS, "pdb", "default")["status"]
    assert status["disruptionsAllowed"] == 1
    assert (status["currentHealthy"], status["desiredHealthy"]) == (2, 1)


@pytest.mark.parametrize(
    ("budget", "allowed"),
    [
        ({"maxUnavailable": 1}, 1),
        ({"maxUnavailable": "50%"}, 2),
        ({"maxUnavailable": 0}, 0),
        ({"minAvailable": "50%"}, 1),
        ({"minAvailable": "100%"}, 0),
        ({"minAvailable": 0}, 3),
    ],
)
def test_a_pdb_counts_against_the_replicas_of_the_pods_controller(
    budget: dict[str, Any], allowed: int
) -> None:
    cluster = Cluster()
    owner = cluster.create(REPLICA_SETS, a_replica_set("rs", replicas=3))
    three_web_pods(cluster, owner)
    cluster.create(POD_DISRUPTION_BUDGETS, a_budget(**budget))

    assert len(evicted(cluster, "p1", "p2", "p3")) == allowed


def test_pods_missing_from_their_controllers_count_as_unavailable() -> None:
    cluster = Cluster()
    deployment = cluster.create(DEPLOYMENTS, a_replica_set("d", replicas=5))
    owner = cluster.create(REPLICA_SETS, owned_by(a_replica_set("rs", replicas=3), deployment))
    three_web_pods(cluster, owner)
    cluster.create(POD_DISRUPTION_BUDGETS, a_budget(maxUnavailable=2))

    assert evicted(cluster, "p1") == []


def test_a_percentage_pdb_allows_nothing_if_the_controller_has_no_replicas() -> None:
    cluster = Cluster()
    template = {"spec": a_pod("j", restartPolicy="Never")["spec"]}
    meta = {"name": "j", "namespace": "default"}
    job = cluster.create(JOBS, {"metadata": meta, "spec": {"template": template}})
    three_web_pods(cluster, job)
    cluster.create(POD_DISRUPTION_BUDGETS, a_budget(maxUnavailable=3))

    assert evicted(cluster, "p1") == []
