"""Scheduling queue: order, and retries of unschedulable pods."""

from datetime import timedelta
from typing import Any

from dovetail.ports.api_resources import NODES, PODS, PRIORITY_CLASSES
from tests.support.simulator.api_server import START
from tests.support.simulator.scheduler import SchedulerCluster, a_node, pod

ONE = {"cpu": "1"}
FOUR = {"cpu": "4"}


def a_cluster(*nodes: dict[str, Any]) -> SchedulerCluster:
    cluster = SchedulerCluster()
    for node in nodes:
        cluster.create(NODES, node)
    return cluster


def bound_after(cluster: SchedulerCluster, name: str, *, within: int = 600) -> timedelta | None:
    """Seconds from the start of the test until a pod was bound."""
    for _ in range(within * 10):
        if cluster.node_of(name):
            return cluster.clock.now() - START
        cluster.wait(0.1)
    return None


def test_pods_are_scheduled_by_priority_then_age() -> None:
    cluster = a_cluster(a_node("n1"))
    cluster.create(PRIORITY_CLASSES, {"metadata": {"name": "high"}, "value": 100})

    cluster.add(
        pod("low-1", requests=ONE),
        pod("low-2", requests=ONE),
        pod("low-3", requests=ONE),
        pod("high-1", requests=ONE, priorityClassName="high"),
        pod("high-2", requests=ONE, priorityClassName="high"),
    )
    cluster.settle()

    waiting = [name for name, node in cluster.placements().items() if node is None]
    assert waiting == ["low-3"]


def test_the_global_default_priority_class_applies() -> None:
    cluster = a_cluster(a_node("n1", cpu="1"))
    usual = {"metadata": {"name": "usual"}, "value": 10, "globalDefault": True}
    cluster.create(PRIORITY_CLASSES, usual)
    cluster.create(PRIORITY_CLASSES, {"metadata": {"name": "low"}, "value": 1})
    cluster.settle()

    cluster.add(pod("low", requests=ONE, priorityClassName="low"), pod("usual", requests=ONE))
    cluster.settle()

    assert cluster.placements() == {"low": None, "usual": "n1"}


def test_an_unschedulable_pod_is_bound_once_resources_are_released() -> None:
    cluster = a_cluster(a_node("n1"))
    cluster.add(pod("first", requests=FOUR))
    cluster.settle()
    cluster.add(pod("second", requests=FOUR))
    cluster.wait(30)

    cluster.remove("first")
    cluster.settle()

    assert cluster.node_of("second") == "n1"


def test_resources_of_a_terminated_pod_are_free() -> None:
    cluster = a_cluster(a_node("n1"))
    cluster.add(pod("first", requests=FOUR))
    cluster.settle()
    cluster.add(pod("second", requests=FOUR))
    cluster.wait(30)

    done = cluster.get(PODS, "first", "default")
    status = {**done["status"], "phase": "Succeeded"}
    cluster.update(PODS, {**done, "status": status}, subresource="status")
    cluster.settle()

    assert cluster.node_of("second") == "n1"


def test_a_node_that_does_not_help_activates_no_pods() -> None:
    cluster = a_cluster()
    cluster.add(pod("web", requests=FOUR))
    cluster.settle()
    for number in range(8):
        cluster.create(NODES, a_node(f"small-{number}", cpu="2"))
        cluster.create(NODES, a_node(f"new-{number}", taints=["a=b:NoSchedule"]))
        cluster.wait(3)

    cluster.create(NODES, a_node("right"))
    cluster.settle()

    assert cluster.node_of("web") == "right"


def test_removing_a_taint_activates_pending_pods() -> None:
    cluster = a_cluster(a_node("n1", taints=["node.kubernetes.io/not-ready=:NoSchedule"]))
    cluster.add(pod("web"))
    cluster.wait(10)

    cluster.change_node("n1", taints=[])
    cluster.settle()

    assert cluster.node_of("web") == "n1"


def test_unschedulable_pods_are_retried_with_backoff() -> None:
    cluster = a_cluster(a_node("a", zone="a"), a_node("b", zone="b", unschedulable=True))
    key = "topology.kubernetes.io/zone"
    constraint = {
        "topologyKey": key,
        "maxSkew": 1,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "web"}},
    }
    labels, spread = {"app": "web"}, [constraint]
    cluster.add(*(pod(f"p{n}", labels=labels, topologySpreadConstraints=spread) for n in range(2)))
    cluster.settle()

    # Each new node in the full zone looks as if it might help, and does not.
    for number in range(5):
        cluster.create(NODES, a_node(f"a-{number}", zone="a"))
        cluster.wait(20)
    cluster.create(NODES, a_node("a-last", zone="a"))
    cluster.wait(0.1)
    cluster.change_node("b", unschedulable=False)

    opened = cluster.clock.now() - START
    got = bound_after(cluster, "p1")
    assert got is not None
    assert timedelta(seconds=9) < got - opened <= timedelta(seconds=10)


def test_the_condition_is_updated_only_when_the_reasons_change() -> None:
    cluster = a_cluster(a_node("n1", cpu="1"))
    cluster.add(pod("web", requests=FOUR))
    cluster.settle()
    before = cluster.get(PODS, "web", "default")["metadata"]["resourceVersion"]

    cluster.create(NODES, a_node("n2", cpu="1"))
    cluster.wait(700)
    same = cluster.get(PODS, "web", "default")["metadata"]["resourceVersion"]
    cluster.create(NODES, a_node("n3", taints=["a=b:NoSchedule"]))
    cluster.wait(700)

    assert before == same
    assert cluster.unschedulable_message("web") == (
        "0/3 nodes are available: 1 node(s) had untolerated taint {a: b}, 2 Insufficient cpu."
    )


def test_a_pending_pod_that_is_deleted_leaves_the_queue() -> None:
    cluster = a_cluster(a_node("n1", cpu="1"))
    cluster.add(pod("web", requests=FOUR))
    cluster.settle()

    cluster.remove("web")
    cluster.create(NODES, a_node("n2"))
    cluster.wait(700)

    assert cluster.placements() == {}


def test_pods_bound_by_other_schedulers_count() -> None:
    cluster = a_cluster(a_node("n1"))
    cluster.add(pod("static", requests={"cpu": "3"}, nodeName="n1"))
    cluster.settle()

    cluster.add(pod("web", requests={"cpu": "2"}))
    cluster.settle()

    assert cluster.unschedulable_message("web") == "0/1 nodes are available: 1 Insufficient cpu."


def test_pods_on_a_recreated_node_count_again() -> None:
    cluster = a_cluster(a_node("n1"))
    cluster.add(pod("first", requests={"cpu": "3"}))
    cluster.settle()
    cluster.delete(NODES, "n1")
    cluster.settle()

    cluster.create(NODES, a_node("n1"))
    cluster.add(pod("web", requests={"cpu": "2"}))
    cluster.settle()

    assert cluster.unschedulable_message("web") == "0/1 nodes are available: 1 Insufficient cpu."


def test_the_node_table_grows() -> None:
    cluster = a_cluster(*(a_node(f"n{number:03}", cpu="1") for number in range(150)))

    cluster.add(*(pod(f"p{number}", requests=ONE) for number in range(160)))
    cluster.settle()

    placed = [node for node in cluster.placements().values() if node]
    assert len(placed) == len(set(placed)) == 150
