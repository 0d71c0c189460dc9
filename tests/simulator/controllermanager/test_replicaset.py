"""ReplicaSet controller: adoption, scaling and scale-down order."""

import pytest

from dovetail.ports.api_resources import NAMESPACES, PODS, REPLICA_SETS
from dovetail.simulator.apiserver.storage.frozen_object import Object, get_field
from dovetail.simulator.controllermanager.replicaset import sort_for_scale_down
from tests.support.simulator.api_server import a_pod, names
from tests.support.simulator.controller_manager import WorkloadCluster, a_workload, set_pod


def a_replica_set_of(replicas: int, *, boot: float = 1, **spec: object) -> WorkloadCluster:
    cluster = WorkloadCluster(boot=boot)
    cluster.create(REPLICA_SETS, a_workload(replicas=replicas, **spec))
    cluster.wait(5)
    return cluster


def owner(pod: Object) -> str:
    references = pod["metadata"].get("ownerReferences") or [{"name": ""}]
    name: str = references[0]["name"]
    return name


def test_a_pod_that_is_deleted_is_replaced() -> None:
    cluster = a_replica_set_of(3)
    victim = names(cluster.pods())[0]

    cluster.delete(PODS, victim, "default")
    cluster.wait(5)

    assert len(cluster.pods()) == 3
    assert victim not in names(cluster.pods())


def test_a_failed_pod_is_replaced_and_kept() -> None:
    cluster = a_replica_set_of(2)
    victim = names(cluster.pods())[0]

    set_pod(cluster, ("default", victim), phase="Failed", ready=False)
    cluster.wait(5)

    assert len(cluster.pods()) == 3
    assert victim in names(cluster.pods())
    assert cluster.get(REPLICA_SETS, "web", "default")["status"]["replicas"] == 2


def test_a_matching_orphan_is_adopted_instead_of_creating_a_pod() -> None:
    cluster = WorkloadCluster()
    cluster.create(PODS, a_pod("bare", labels={"app": "web"}))
    cluster.create(PODS, a_pod("other", labels={"app": "other"}))

    cluster.create(REPLICA_SETS, a_workload(replicas=2))
    cluster.wait(5)

    pods = cluster.pods(app="web")
    assert len(pods) == 2
    assert {owner(pod) for pod in pods} == {"web"}
    assert owner(cluster.get(PODS, "other", "default")) == ""


def test_a_later_orphan_is_adopted_and_the_surplus_pod_deleted() -> None:
    cluster = a_replica_set_of(2)

    cluster.create(PODS, a_pod("bare", labels={"app": "web"}))
    cluster.wait(5)

    assert len(cluster.pods()) == 2
    assert "bare" not in names(cluster.pods())


def test_a_pod_whose_labels_no_longer_match_is_released_and_replaced() -> None:
    cluster = a_replica_set_of(2)
    kept = names(cluster.pods())[0]

    cluster.change(PODS, kept, {"metadata": {"labels": {"app": "debug"}}})
    cluster.wait(5)

    assert owner(cluster.get(PODS, kept, "default")) == ""
    assert len(cluster.pods(app="web")) == 2
    assert len(cluster.pods()) == 3


def test_the_status_counts_current_ready_and_available_pods() -> None:
    cluster = a_replica_set_of(3, minReadySeconds=10)
    not_yet = cluster.get(REPLICA_SETS, "web", "default")["status"]
    cluster.wait(10)

    assert not_yet == {"replicas": 3, "fullyLabeledReplicas": 3, "readyReplicas": 3, "observedGeneration": 1}
    assert cluster.get(REPLICA_SETS, "web", "default")["status"]["availableReplicas"] == 3


def test_a_hundred_pods_that_become_ready_at_one_instant_cause_one_status_write() -> None:
    cluster = a_replica_set_of(100, boot=10)
    before = cluster.get(REPLICA_SETS, "web", "default")
    watch = cluster.watch(REPLICA_SETS)
    watch.poll()

    cluster.wait(10)

    assert "readyReplicas" not in before["status"]
    (written,) = [event.object["status"]["readyReplicas"] for event in watch.poll()]
    assert written == 100


def test_a_replicaset_in_a_terminating_namespace_creates_no_pods() -> None:
    cluster = WorkloadCluster(stop=3)
    cluster.create(NAMESPACES, {"metadata": {"name": "team"}})
    workload = a_workload(replicas=2)
    workload["metadata"]["namespace"] = "team"
    cluster.create(REPLICA_SETS, workload)
    cluster.wait(5)

    cluster.delete(NAMESPACES, "team")
    cluster.wait(30)

    assert "team" not in names(cluster.list(NAMESPACES).items)
    assert cluster.list(PODS).items == []


def member(
    name: str,
    *,
    node: str = "a",
    ready: str = "2026-01-01T09:00:00Z",
    created: str = "2026-01-01T08:00:00Z",
    cost: str = "0",
) -> Object:
    conditions = [{"type": "Ready", "status": "True", "lastTransitionTime": ready}]
    return {
        "metadata": {
            "name": name,
            "uid": name,
            "creationTimestamp": created,
            "annotations": {"controller.kubernetes.io/pod-deletion-cost": cost},
        },
        "spec": {"nodeName": node} if node else {},
        "status": {"phase": "Running" if node else "Pending", "conditions": conditions if ready else []},
    }


STABLE = member("stable")


@pytest.mark.parametrize(
    "sooner",
    [
        member("unbound", node="", ready=""),
        member("unready", ready=""),
        member("cheap", cost="-5"),
        member("ready-later", ready="2026-01-01T09:00:01Z"),
        member("younger", created="2026-01-01T08:00:01Z"),
    ],
    ids=lambda pod: pod["metadata"]["name"],
)
def test_pods_are_deleted_in_scale_down_order(sooner: Object) -> None:
    pods = [STABLE, sooner]

    ordered = sort_for_scale_down(pods, related_pods=[])

    assert names(ordered) == [sooner["metadata"]["name"], "stable"]


def test_of_equal_pods_those_on_the_fullest_node_are_deleted_first() -> None:
    pods = [member("lonely", node="b"), member("x1", node="a"), member("x2", node="a")]

    ordered = sort_for_scale_down(pods, related_pods=pods)

    assert names(ordered)[-1] == "lonely"


def test_scaling_down_deletes_pods_that_are_not_ready_first() -> None:
    cluster = a_replica_set_of(4)
    sick = names(cluster.pods())[2]
    set_pod(cluster, ("default", sick), ready=False)
    cluster.wait(1)

    cluster.scale(REPLICA_SETS, "web", 3)
    cluster.wait(5)

    assert sick not in names(cluster.pods())
    assert all(get_field(pod, "status", "phase") == "Running" for pod in cluster.pods())
