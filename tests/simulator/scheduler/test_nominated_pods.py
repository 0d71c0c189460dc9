"""Nominated pods: they go to their node, and its resources are reserved for them."""

from dovetail.ports.api_resources import NODES, PODS
from dovetail.simulator.apiserver.options import PatchType
from tests.support.simulator.scheduler import SchedulerCluster, a_node, pod

ONE = {"cpu": "1"}
FOUR = {"cpu": "4"}


def a_cluster() -> SchedulerCluster:
    """Two nodes: ``closed`` has a taint, ``full`` has no free resources."""
    cluster = SchedulerCluster()
    cluster.create(NODES, a_node("full", cpu="0"))
    cluster.create(NODES, a_node("closed", taints=["wait=here:NoSchedule"]))
    return cluster


def nominate(cluster: SchedulerCluster, name: str, node: str) -> None:
    status = {"status": {"nominatedNodeName": node}}
    cluster.patch(PODS, name, status, PatchType.MERGE, "default", subresource="status")
    cluster.settle()


def nominated(cluster: SchedulerCluster, name: str) -> str:
    return str(cluster.get(PODS, name, "default")["status"].get("nominatedNodeName", ""))


def open_up(cluster: SchedulerCluster) -> None:
    cluster.change_node("closed", taints=[])
    cluster.wait(30)


def test_resources_are_reserved_for_a_nominated_pod() -> None:
    cluster = a_cluster()
    cluster.add(pod("small", requests=ONE), pod("large", requests=FOUR))
    cluster.settle()

    nominate(cluster, "large", "closed")
    open_up(cluster)

    assert cluster.placements() == {"small": None, "large": "closed"}


def test_a_nominated_pod_is_bound_to_its_node_although_another_scores_higher() -> None:
    cluster = a_cluster()
    cluster.add(pod("small", requests=ONE))
    cluster.settle()
    nominate(cluster, "small", "closed")

    cluster.create(NODES, a_node("roomy", cpu="64"))
    cluster.change_node("closed", taints=[])
    cluster.wait(30)

    assert cluster.node_of("small") == "closed"
    assert nominated(cluster, "small") == ""


def test_an_unschedulable_pod_loses_its_nomination() -> None:
    cluster = a_cluster()
    cluster.add(pod("small", requests=ONE))
    cluster.settle()
    nominate(cluster, "small", "closed")

    cluster.wait(310)

    assert cluster.node_of("small") is None
    assert nominated(cluster, "small") == ""


def test_a_released_reservation_is_available_to_other_pods() -> None:
    cluster = a_cluster()
    cluster.add(pod("small", requests=ONE), pod("large", requests=FOUR))
    cluster.settle()
    nominate(cluster, "large", "closed")
    cluster.remove("large")

    open_up(cluster)

    assert cluster.node_of("small") == "closed"


def test_a_deleted_node_releases_its_reservations() -> None:
    cluster = a_cluster()
    cluster.add(pod("large", requests=FOUR), pod("small", requests=ONE))
    cluster.settle()
    nominate(cluster, "large", "closed")
    cluster.delete(NODES, "closed")
    cluster.settle()

    cluster.create(NODES, a_node("closed"))
    cluster.wait(30)

    assert "closed" in cluster.placements().values()


def test_host_ports_are_reserved_too() -> None:
    cluster = a_cluster()
    ports = [{"containerPort": 80, "hostPort": 80}]
    first, second = pod("one", requests=ONE), pod("two", requests=ONE)
    for created in (first, second):
        created["spec"]["containers"][0]["ports"] = ports
    cluster.add(first, second)
    cluster.settle()

    nominate(cluster, "two", "closed")
    open_up(cluster)

    assert cluster.placements() == {"one": None, "two": "closed"}
