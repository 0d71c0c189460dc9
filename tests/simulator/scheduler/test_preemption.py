"""Preemption: pods of higher priority take the place of less important ones."""

from typing import Any

from dovetail.ports.api_resources import NODES, POD_DISRUPTION_BUDGETS, PODS, PRIORITY_CLASSES
from dovetail.simulator.apiserver.options import DeleteOptions, PatchType
from tests.support.simulator.scheduler import SchedulerCluster, a_node, pod

FOUR = {"cpu": "4"}
TWO = {"cpu": "2"}


def a_cluster(*nodes: str) -> SchedulerCluster:
    cluster = SchedulerCluster()
    for name, value in (("low", -10), ("middle", 10), ("high", 1000)):
        cluster.create(PRIORITY_CLASSES, {"metadata": {"name": name}, "value": value})
    polite = {"metadata": {"name": "polite"}, "value": 1000, "preemptionPolicy": "Never"}
    cluster.create(PRIORITY_CLASSES, polite)
    for node in nodes:
        cluster.create(NODES, a_node(node))
    return cluster


def important(name: str, priority: str = "high", **more: Any) -> dict[str, Any]:
    return pod(name, priorityClassName=priority, **more)


def nominated(cluster: SchedulerCluster, name: str) -> str:
    return str(cluster.get(PODS, name, "default")["status"].get("nominatedNodeName", ""))


def terminating(cluster: SchedulerCluster) -> list[str]:
    return [
        item["metadata"]["name"]
        for item in cluster.list(PODS).items
        if "deletionTimestamp" in item["metadata"]
    ]


def stop_terminating(cluster: SchedulerCluster) -> None:
    """Do what kubelets do when containers have stopped."""
    for name in terminating(cluster):
        cluster.delete(PODS, name, "default", options=DeleteOptions(grace_period_seconds=0))
    cluster.wait(30)


def test_a_pod_takes_the_node_of_a_less_important_one() -> None:
    cluster = a_cluster("one")
    cluster.add(important("cheap", "low", requests=FOUR))
    cluster.settle()

    cluster.add(important("urgent", requests=FOUR))
    cluster.settle()
    waiting, victims = nominated(cluster, "urgent"), terminating(cluster)
    stop_terminating(cluster)

    assert (waiting, victims) == ("one", ["cheap"])
    assert cluster.placements() == {"urgent": "one"}


def test_a_victim_says_why_it_ends() -> None:
    cluster = a_cluster("one")
    cluster.add(important("cheap", "low", requests=FOUR))
    cluster.settle()

    cluster.add(important("urgent", requests=FOUR))
    cluster.settle()

    conditions = cluster.get(PODS, "cheap", "default")["status"]["conditions"]
    reasons = {condition["type"]: condition["reason"] for condition in conditions if "reason" in condition}
    assert reasons["DisruptionTarget"] == "PreemptionByScheduler"
    assert any("Normal Preempted" in event for event in cluster.events("cheap"))


def test_only_as_many_pods_as_needed_are_preempted_the_least_important_first() -> None:
    cluster = a_cluster("one")
    cluster.add(important("low", "low", requests=TWO), important("middle", "middle", requests=TWO))
    cluster.settle()

    cluster.add(important("urgent", requests=TWO))
    cluster.settle()

    assert terminating(cluster) == ["low"]


def test_the_node_with_the_least_important_victims_is_chosen() -> None:
    cluster = a_cluster("one")
    cluster.add(important("middle", "middle", requests=FOUR))
    cluster.settle()
    cluster.create(NODES, a_node("two"))
    cluster.add(important("low", "low", requests=FOUR))
    cluster.settle()

    cluster.add(important("urgent", requests=FOUR))
    cluster.settle()

    assert terminating(cluster) == ["low"]
    assert nominated(cluster, "urgent") == "two"


def test_a_budget_that_allows_no_disruption_is_respected_if_another_node_fits() -> None:
    cluster = a_cluster("one")
    cluster.add(important("guarded", "low", requests=FOUR, labels={"app": "guarded"}))
    cluster.settle()
    cluster.create(NODES, a_node("two"))
    cluster.add(important("other", "middle", requests=FOUR))
    cluster.settle()
    budget = {
        "metadata": {"name": "all", "namespace": "default"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "guarded"}}},
    }
    cluster.create(POD_DISRUPTION_BUDGETS, budget)

    cluster.add(important("urgent", requests=FOUR))
    cluster.settle()

    assert terminating(cluster) == ["other"]


def test_pods_of_the_same_priority_and_pods_that_never_preempt_wait() -> None:
    cluster = a_cluster("one")
    cluster.add(important("first", "middle", requests=FOUR))
    cluster.settle()

    cluster.add(important("equal", "middle", requests=FOUR))
    cluster.add(important("polite", "polite", requests=FOUR))
    cluster.settle()

    assert terminating(cluster) == []
    assert cluster.unschedulable_message("polite") == "0/1 nodes are available: 1 Insufficient cpu."


def test_no_pod_is_preempted_where_the_new_one_would_still_not_fit() -> None:
    cluster = a_cluster("one")
    cluster.add(important("cheap", "low", requests=FOUR))
    cluster.settle()

    cluster.add(important("huge", requests={"cpu": "5"}))
    cluster.add(important("elsewhere", requests=TWO, nodeSelector={"zone": "nowhere"}))
    cluster.settle()

    assert terminating(cluster) == []


def test_two_pods_preempt_on_different_nodes_and_nothing_else_takes_their_place() -> None:
    cluster = a_cluster("one", "two")
    cluster.add(*(important(f"low-{number}", "low", requests=FOUR) for number in range(2)))
    cluster.settle()

    cluster.add(important("urgent-1", requests=FOUR), important("urgent-2", requests=FOUR))
    cluster.add(important("late", "middle", requests=FOUR))
    cluster.settle()
    stop_terminating(cluster)

    placements = cluster.placements()
    assert {placements["urgent-1"], placements["urgent-2"]} == {"one", "two"}
    assert placements["late"] is None


def test_a_nomination_by_another_component_is_cleared_if_the_pod_does_not_fit() -> None:
    cluster = a_cluster("one")
    cluster.add(important("first", requests=FOUR))
    cluster.settle()
    cluster.add(important("second", requests=FOUR))
    cluster.settle()

    status = {"status": {"nominatedNodeName": "one"}}
    cluster.patch(PODS, "second", status, PatchType.MERGE, "default", subresource="status")
    cluster.wait(400)

    assert nominated(cluster, "second") == ""


def test_the_room_stays_reserved_while_victims_terminate_and_the_pod_is_tried_again() -> None:
    cluster = a_cluster("one")
    cluster.add(important("first", "low", requests=TWO), important("second", "low", requests=TWO))
    cluster.settle()
    cluster.add(important("urgent", requests=FOUR))
    cluster.settle()

    cluster.remove("first")
    cluster.add(important("late", "middle", requests=TWO))
    cluster.wait(60)
    meanwhile = cluster.placements()
    stop_terminating(cluster)

    assert meanwhile == {"second": "one", "urgent": None, "late": None}
    assert cluster.placements() == {"urgent": "one", "late": None}
