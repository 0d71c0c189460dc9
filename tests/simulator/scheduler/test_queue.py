"""Who is looked at first, and when those who were refused are looked at again."""

from datetime import timedelta
from typing import Any

from dovetail.ports.api_resources import NODES, PODS, PRIORITY_CLASSES
from tests.support.cluster import START
from tests.support.scheduled import Scheduled, host, pod

ONE = {"cpu": "1"}
FOUR = {"cpu": "4"}


def a_cluster(*nodes: dict[str, Any]) -> Scheduled:
    cluster = Scheduled()
    for node in nodes:
        cluster.create(NODES, node)
    return cluster


def bound_after(cluster: Scheduled, name: str, *, within: int = 600) -> timedelta | None:
    """How long after the start of the test a pod got its node."""
    for _ in range(within * 10):
        if cluster.node_of(name):
            return cluster.engine.now() - START
        cluster.wait(0.1)
    return None


def test_pods_of_higher_priority_come_first_then_older_ones() -> None:
    cluster = a_cluster(host("n1"))
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


def test_a_default_priority_class_counts_for_pods_that_name_none() -> None:
    cluster = a_cluster(host("n1", cpu="1"))
    usual = {"metadata": {"name": "usual"}, "value": 10, "globalDefault": True}
    cluster.create(PRIORITY_CLASSES, usual)
    cluster.create(PRIORITY_CLASSES, {"metadata": {"name": "low"}, "value": 1})
    cluster.settle()

    cluster.add(pod("low", requests=ONE, priorityClassName="low"), pod("usual", requests=ONE))
    cluster.settle()

    assert cluster.placements() == {"low": None, "usual": "n1"}


def test_a_refused_pod_is_bound_as_soon_as_room_is_made() -> None:
    cluster = a_cluster(host("n1"))
    cluster.add(pod("first", requests=FOUR))
    cluster.settle()
    cluster.add(pod("second", requests=FOUR))
    cluster.wait(30)

    cluster.kill("first")
    cluster.settle()

    assert cluster.node_of("second") == "n1"


def test_room_of_a_pod_that_has_ended_is_free() -> None:
    cluster = a_cluster(host("n1"))
    cluster.add(pod("first", requests=FOUR))
    cluster.settle()
    cluster.add(pod("second", requests=FOUR))
    cluster.wait(30)

    done = cluster.get(PODS, "first", "default")
    status = {**done["status"], "phase": "Succeeded"}
    cluster.update(PODS, {**done, "status": status}, subresource="status")
    cluster.settle()

    assert cluster.node_of("second") == "n1"


def test_a_node_that_does_not_help_wakes_nobody_so_that_the_one_that_does_is_used_at_once() -> None:
    cluster = a_cluster()
    cluster.add(pod("web", requests=FOUR))
    cluster.settle()
    for number in range(8):
        cluster.create(NODES, host(f"small-{number}", cpu="2"))
        cluster.create(NODES, host(f"new-{number}", taints=["a=b:NoSchedule"]))
        cluster.wait(3)

    cluster.create(NODES, host("right"))
    cluster.settle()

    assert cluster.node_of("web") == "right"


def test_a_taint_that_goes_lets_waiting_pods_in() -> None:
    cluster = a_cluster(host("n1", taints=["node.kubernetes.io/not-ready=:NoSchedule"]))
    cluster.add(pod("web"))
    cluster.wait(10)

    cluster.change_node("n1", taints=[])
    cluster.settle()

    assert cluster.node_of("web") == "n1"


def test_pods_that_were_refused_in_vain_are_tried_less_and_less_often() -> None:
    cluster = a_cluster(host("a", zone="a"), host("b", zone="b", unschedulable=True))
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
        cluster.create(NODES, host(f"a-{number}", zone="a"))
        cluster.wait(20)
    cluster.create(NODES, host("a-last", zone="a"))
    cluster.wait(0.1)
    cluster.change_node("b", unschedulable=False)

    opened = cluster.engine.now() - START
    got = bound_after(cluster, "p1")
    assert got is not None
    assert timedelta(seconds=9) < got - opened <= timedelta(seconds=10)


def test_the_condition_is_written_anew_only_when_the_reasons_change() -> None:
    cluster = a_cluster(host("n1", cpu="1"))
    cluster.add(pod("web", requests=FOUR))
    cluster.settle()
    before = cluster.get(PODS, "web", "default")["metadata"]["resourceVersion"]

    cluster.create(NODES, host("n2", cpu="1"))
    cluster.wait(700)
    same = cluster.get(PODS, "web", "default")["metadata"]["resourceVersion"]
    cluster.create(NODES, host("n3", taints=["a=b:NoSchedule"]))
    cluster.wait(700)

    assert before == same
    assert cluster.refusal("web") == (
        "0/3 nodes are available: 1 node(s) had untolerated taint {a: b}, 2 Insufficient cpu."
    )


def test_a_pod_that_is_deleted_while_it_waits_is_forgotten() -> None:
    cluster = a_cluster(host("n1", cpu="1"))
    cluster.add(pod("web", requests=FOUR))
    cluster.settle()

    cluster.kill("web")
    cluster.create(NODES, host("n2"))
    cluster.wait(700)

    assert cluster.placements() == {}


def test_pods_bound_by_others_count() -> None:
    cluster = a_cluster(host("n1"))
    cluster.add(pod("static", requests={"cpu": "3"}, nodeName="n1"))
    cluster.settle()

    cluster.add(pod("web", requests={"cpu": "2"}))
    cluster.settle()

    assert cluster.refusal("web") == "0/1 nodes are available: 1 Insufficient cpu."


def test_pods_on_a_node_that_went_and_came_back_count_again() -> None:
    cluster = a_cluster(host("n1"))
    cluster.add(pod("first", requests={"cpu": "3"}))
    cluster.settle()
    cluster.delete(NODES, "n1")
    cluster.settle()

    cluster.create(NODES, host("n1"))
    cluster.add(pod("web", requests={"cpu": "2"}))
    cluster.settle()

    assert cluster.refusal("web") == "0/1 nodes are available: 1 Insufficient cpu."


def test_more_nodes_than_there_was_room_for_at_first() -> None:
    cluster = a_cluster(*(host(f"n{number:03}", cpu="1") for number in range(150)))

    cluster.add(*(pod(f"p{number}", requests=ONE) for number in range(160)))
    cluster.settle()

    placed = [node for node in cluster.placements().values() if node]
    assert len(placed) == len(set(placed)) == 150
