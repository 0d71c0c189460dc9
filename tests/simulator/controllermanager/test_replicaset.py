"""ReplicaSets: whose pods they are, and which go first."""

import pytest

from dovetail.ports.api_resources import NAMESPACES, PODS, REPLICA_SETS
from dovetail.simulator.apiserver.storage.frozen_object import Object, look
from dovetail.simulator.controllermanager.pods.scale_down_order import first_to_go
from tests.support.cluster import a_pod, names
from tests.support.workloads import Working, a_workload, set_pod


def a_replica_set_of(replicas: int, *, boot: float = 1, **spec: object) -> Working:
    cluster = Working(boot=boot)
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


def test_a_pod_that_failed_is_replaced_and_stays_to_be_looked_at() -> None:
    cluster = a_replica_set_of(2)
    victim = names(cluster.pods())[0]

    set_pod(cluster, ("default", victim), phase="Failed", ready=False)
    cluster.wait(5)

    assert len(cluster.pods()) == 3
    assert victim in names(cluster.pods())
    assert cluster.get(REPLICA_SETS, "web", "default")["status"]["replicas"] == 2


def test_an_orphan_that_the_selector_matches_is_adopted_instead_of_creating_one() -> None:
    cluster = Working()
    cluster.create(PODS, a_pod("bare", labels={"app": "web"}))
    cluster.create(PODS, a_pod("other", labels={"app": "other"}))

    cluster.create(REPLICA_SETS, a_workload(replicas=2))
    cluster.wait(5)

    pods = cluster.pods(app="web")
    assert len(pods) == 2
    assert {owner(one) for one in pods} == {"web"}
    assert owner(cluster.get(PODS, "other", "default")) == ""


def test_an_orphan_that_comes_later_is_adopted_and_one_too_many_goes() -> None:
    cluster = a_replica_set_of(2)

    cluster.create(PODS, a_pod("bare", labels={"app": "web"}))
    cluster.wait(5)

    assert len(cluster.pods()) == 2
    assert "bare" not in names(cluster.pods())


def test_a_pod_whose_labels_no_longer_match_is_let_go_and_replaced() -> None:
    cluster = a_replica_set_of(2)
    kept = names(cluster.pods())[0]

    cluster.change(PODS, kept, {"metadata": {"labels": {"app": "debug"}}})
    cluster.wait(5)

    assert owner(cluster.get(PODS, kept, "default")) == ""
    assert len(cluster.pods(app="web")) == 2
    assert len(cluster.pods()) == 3


def test_the_status_counts_pods_that_are_there_ready_and_available() -> None:
    cluster = a_replica_set_of(3, minReadySeconds=10)
    not_yet = cluster.get(REPLICA_SETS, "web", "default")["status"]
    cluster.wait(10)

    assert not_yet == {
        "replicas": 3,
        "fullyLabeledReplicas": 3,
        "readyReplicas": 3,
        "observedGeneration": 1,
    }
    assert cluster.get(REPLICA_SETS, "web", "default")["status"]["availableReplicas"] == 3


def test_hundred_pods_that_become_ready_at_one_instant_are_one_write_of_the_status() -> None:
    cluster = a_replica_set_of(100, boot=10)
    before = cluster.get(REPLICA_SETS, "web", "default")
    watch = cluster.watch(REPLICA_SETS)
    watch.take()

    cluster.wait(10)

    assert "readyReplicas" not in before["status"]
    (written,) = [one.object["status"]["readyReplicas"] for one in watch.take()]
    assert written == 100


def test_a_replica_set_in_a_namespace_that_ends_makes_no_more_pods() -> None:
    cluster = Working(stop=3)
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
        "status": {
            "phase": "Running" if node else "Pending",
            "conditions": conditions if ready else [],
        },
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
    ids=lambda one: one["metadata"]["name"],
)
def test_the_pod_with_which_less_is_lost_goes_first(sooner: Object) -> None:
    pods = [STABLE, sooner]

    ordered = first_to_go(pods, relatives=[])

    assert names(ordered) == [sooner["metadata"]["name"], "stable"]


def test_of_equal_pods_those_on_the_most_crowded_node_go_first() -> None:
    pods = [member("lonely", node="b"), member("x1", node="a"), member("x2", node="a")]

    ordered = first_to_go(pods, relatives=pods)

    assert names(ordered)[-1] == "lonely"


def test_scaling_down_takes_what_is_not_ready_and_leaves_what_serves() -> None:
    cluster = a_replica_set_of(4)
    sick = names(cluster.pods())[2]
    set_pod(cluster, ("default", sick), ready=False)
    cluster.wait(1)

    cluster.scale(REPLICA_SETS, "web", 3)
    cluster.wait(5)

    assert sick not in names(cluster.pods())
    assert all(look(one, "status", "phase") == "Running" for one in cluster.pods())
