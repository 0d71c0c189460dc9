"""A pod that is nominated for a node goes there, and nobody takes its room before."""

from dovetail.ports.api_resources import NODES, PODS
from dovetail.simulator.apiserver.options import PatchType
from tests.support.scheduled import Scheduled, host, pod

ONE = {"cpu": "1"}
FOUR = {"cpu": "4"}


def a_cluster() -> Scheduled:
    """Two nodes: ``closed`` with a taint, and ``full``, which has no room."""
    cluster = Scheduled()
    cluster.create(NODES, host("full", cpu="0"))
    cluster.create(NODES, host("closed", taints=["wait=here:NoSchedule"]))
    return cluster


def nominate(cluster: Scheduled, name: str, node: str) -> None:
    status = {"status": {"nominatedNodeName": node}}
    cluster.patch(PODS, name, status, PatchType.MERGE, "default", subresource="status")
    cluster.settle()


def nominated(cluster: Scheduled, name: str) -> str:
    return str(cluster.get(PODS, name, "default")["status"].get("nominatedNodeName", ""))


def open_up(cluster: Scheduled) -> None:
    cluster.change_node("closed", taints=[])
    cluster.wait(30)


def test_the_room_of_a_nominated_pod_is_left_to_it() -> None:
    cluster = a_cluster()
    cluster.add(pod("small", requests=ONE), pod("large", requests=FOUR))
    cluster.settle()

    nominate(cluster, "large", "closed")
    open_up(cluster)

    assert cluster.placements() == {"small": None, "large": "closed"}


def test_it_goes_to_its_node_although_another_is_better() -> None:
    cluster = a_cluster()
    cluster.add(pod("small", requests=ONE))
    cluster.settle()
    nominate(cluster, "small", "closed")

    cluster.create(NODES, host("roomy", cpu="64"))
    cluster.change_node("closed", taints=[])
    cluster.wait(30)

    assert cluster.node_of("small") == "closed"
    assert nominated(cluster, "small") == ""


def test_a_nominated_pod_that_is_refused_is_so_no_more() -> None:
    cluster = a_cluster()
    cluster.add(pod("small", requests=ONE))
    cluster.settle()
    nominate(cluster, "small", "closed")

    cluster.wait(310)

    assert cluster.node_of("small") is None
    assert nominated(cluster, "small") == ""


def test_room_that_is_no_longer_kept_is_everybody_s() -> None:
    cluster = a_cluster()
    cluster.add(pod("small", requests=ONE), pod("large", requests=FOUR))
    cluster.settle()
    nominate(cluster, "large", "closed")
    cluster.kill("large")

    open_up(cluster)

    assert cluster.node_of("small") == "closed"


def test_a_node_that_goes_takes_what_was_kept_on_it_along() -> None:
    cluster = a_cluster()
    cluster.add(pod("large", requests=FOUR), pod("small", requests=ONE))
    cluster.settle()
    nominate(cluster, "large", "closed")
    cluster.delete(NODES, "closed")
    cluster.settle()

    cluster.create(NODES, host("closed"))
    cluster.wait(30)

    assert "closed" in cluster.placements().values()


def test_ports_are_kept_like_room() -> None:
    cluster = a_cluster()
    ports = [{"containerPort": 80, "hostPort": 80}]
    one, two = pod("one", requests=ONE), pod("two", requests=ONE)
    for made in (one, two):
        made["spec"]["containers"][0]["ports"] = ports
    cluster.add(one, two)
    cluster.settle()

    nominate(cluster, "two", "closed")
    open_up(cluster)

    assert cluster.placements() == {"one": None, "two": "closed"}
