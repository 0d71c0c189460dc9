"""Which of several nodes a pod gets."""

from typing import Any

from dovetail.ports.api_resources import NODES
from tests.support.scheduled import Scheduled, host, pod

PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
ZONE = "topology.kubernetes.io/zone"


def a_cluster(*nodes: dict[str, Any]) -> Scheduled:
    cluster = Scheduled()
    for node in nodes:
        cluster.create(NODES, node)
    return cluster


def wish(name: str, weight: int = 100, key: str = ZONE) -> list[dict[str, Any]]:
    term = {"labelSelector": {"matchLabels": {"app": name}}, "topologyKey": key}
    return [{"weight": weight, "podAffinityTerm": term}]


def test_equal_nodes_are_taken_by_name() -> None:
    cluster = a_cluster(host("b"), host("a"), host("c"))

    cluster.add(pod("web", requests={"cpu": "1"}))
    cluster.settle()

    assert cluster.node_of("web") == "a"


def test_pods_go_where_most_is_left() -> None:
    cluster = a_cluster(host("a"), host("b"), host("c"))

    for number in range(6):
        cluster.add(pod(f"p{number}", requests={"cpu": "500m", "memory": "2Gi"}))
    cluster.settle()

    placed = list(cluster.placements().values())
    assert [placed.count(name) for name in "abc"] == [2, 2, 2]


def test_pods_that_ask_for_nothing_are_spread_all_the_same() -> None:
    cluster = a_cluster(host("a"), host("b"))

    cluster.add(*(pod(f"p{number}") for number in range(4)))
    cluster.settle()

    placed = list(cluster.placements().values())
    assert [placed.count(name) for name in "ab"] == [2, 2]


def test_a_pod_goes_where_cpu_and_memory_stay_in_balance() -> None:
    cluster = a_cluster(host("a", cpu="8", memory="16Gi"), host("b", cpu="8", memory="16Gi"))
    cluster.add(pod("cpu", requests={"cpu": "4", "memory": "1Gi"}))
    cluster.settle()
    cluster.add(pod("memory", requests={"cpu": "500m", "memory": "8Gi"}))
    cluster.settle()

    cluster.add(pod("more-memory", requests={"cpu": "100m", "memory": "6Gi"}))
    cluster.settle()

    assert cluster.node_of("cpu") != cluster.node_of("memory")
    assert cluster.node_of("more-memory") == cluster.node_of("cpu")


def test_a_node_that_would_rather_not_is_taken_last() -> None:
    cluster = a_cluster(host("a", taints=["x=y:PreferNoSchedule"]), host("b", cpu="1"))

    cluster.add(*(pod(f"p{number}", requests={"cpu": "500m"}) for number in range(3)))
    cluster.settle()

    assert sorted(map(str, cluster.placements().values())) == ["a", "b", "b"]


def test_preferred_node_affinity_outweighs_a_little_more_room() -> None:
    cluster = a_cluster(host("a", cpu="5"), host("b", labels={"disk": "fast"}))
    fast = {"matchExpressions": [{"key": "disk", "operator": "In", "values": ["fast"]}]}
    affinity = {"nodeAffinity": {PREFERRED: [{"weight": 10, "preference": fast}]}}

    cluster.add(pod("web", affinity=affinity))
    cluster.settle()

    assert cluster.node_of("web") == "b"


def test_a_wish_to_be_near_or_away_is_followed_where_it_can_be() -> None:
    cluster = a_cluster(host("a", zone="a"), host("b", zone="b"))
    db = pod("db", labels={"app": "db"}, nodeSelector={ZONE: "b"}, requests={"cpu": "500m"})
    cluster.add(db)
    cluster.settle()

    cluster.add(
        pod("near", affinity={"podAffinity": {PREFERRED: wish("db")}}),
        pod("away", affinity={"podAntiAffinity": {PREFERRED: wish("db")}}),
    )
    cluster.settle()

    assert (cluster.node_of("near"), cluster.node_of("away")) == ("b", "a")


def test_pods_that_wish_others_near_draw_them() -> None:
    cluster = a_cluster(host("a", zone="a"), host("b", zone="b"))
    affinity = {"podAffinity": {PREFERRED: wish("web")}}
    cluster.add(pod("db", nodeSelector={ZONE: "b"}, requests={"cpu": "500m"}, affinity=affinity))
    cluster.settle()

    cluster.add(pod("web", labels={"app": "web"}))
    cluster.settle()

    assert cluster.node_of("web") == "b"


def test_a_soft_spread_levels_zones_of_unequal_size() -> None:
    nodes = [host("a1", zone="a", cpu="32"), host("b1", zone="b"), host("c1", zone="c")]
    cluster = a_cluster(*nodes)
    constraint = {
        "topologyKey": ZONE,
        "maxSkew": 1,
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {"matchLabels": {"app": "web"}},
    }

    for number in range(6):
        spread = {"topologySpreadConstraints": [constraint], "requests": {"cpu": "100m"}}
        cluster.add(pod(f"p{number}", labels={"app": "web"}, **spread))
    cluster.settle()

    placed = list(cluster.placements().values())
    assert [placed.count(name) for name in ("a1", "b1", "c1")] == [2, 2, 2]
