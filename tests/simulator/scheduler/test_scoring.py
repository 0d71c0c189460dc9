"""Scoring: which of several feasible nodes a pod gets."""

from typing import Any

from dovetail.ports.api_resources import NODES
from tests.support.simulator.scheduler import SchedulerCluster, a_node, pod

PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
ZONE = "topology.kubernetes.io/zone"


def a_cluster(*nodes: dict[str, Any]) -> SchedulerCluster:
    cluster = SchedulerCluster()
    for node in nodes:
        cluster.create(NODES, node)
    return cluster


def preference(name: str, weight: int = 100, key: str = ZONE) -> list[dict[str, Any]]:
    term = {"labelSelector": {"matchLabels": {"app": name}}, "topologyKey": key}
    return [{"weight": weight, "podAffinityTerm": term}]


def test_ties_are_broken_by_node_name() -> None:
    cluster = a_cluster(a_node("b"), a_node("a"), a_node("c"))

    cluster.add(pod("web", requests={"cpu": "1"}))
    cluster.settle()

    assert cluster.node_of("web") == "a"


def test_pods_go_to_the_least_allocated_node() -> None:
    cluster = a_cluster(a_node("a"), a_node("b"), a_node("c"))

    for number in range(6):
        cluster.add(pod(f"p{number}", requests={"cpu": "500m", "memory": "2Gi"}))
    cluster.settle()

    placed = list(cluster.placements().values())
    assert [placed.count(name) for name in "abc"] == [2, 2, 2]


def test_pods_without_requests_are_spread_too() -> None:
    cluster = a_cluster(a_node("a"), a_node("b"))

    cluster.add(*(pod(f"p{number}") for number in range(4)))
    cluster.settle()

    placed = list(cluster.placements().values())
    assert [placed.count(name) for name in "ab"] == [2, 2]


def test_a_pod_goes_where_cpu_and_memory_stay_balanced() -> None:
    cluster = a_cluster(a_node("a", cpu="8", memory="16Gi"), a_node("b", cpu="8", memory="16Gi"))
    cluster.add(pod("cpu", requests={"cpu": "4", "memory": "1Gi"}))
    cluster.settle()
    cluster.add(pod("memory", requests={"cpu": "500m", "memory": "8Gi"}))
    cluster.settle()

    cluster.add(pod("more-memory", requests={"cpu": "100m", "memory": "6Gi"}))
    cluster.settle()

    assert cluster.node_of("cpu") != cluster.node_of("memory")
    assert cluster.node_of("more-memory") == cluster.node_of("cpu")


def test_a_node_with_a_prefer_no_schedule_taint_is_used_last() -> None:
    cluster = a_cluster(a_node("a", taints=["x=y:PreferNoSchedule"]), a_node("b", cpu="1"))

    cluster.add(*(pod(f"p{number}", requests={"cpu": "500m"}) for number in range(3)))
    cluster.settle()

    assert sorted(map(str, cluster.placements().values())) == ["a", "b", "b"]


def test_preferred_node_affinity_outweighs_slightly_more_free_resources() -> None:
    cluster = a_cluster(a_node("a", cpu="5"), a_node("b", labels={"disk": "fast"}))
    fast = {"matchExpressions": [{"key": "disk", "operator": "In", "values": ["fast"]}]}
    affinity = {"nodeAffinity": {PREFERRED: [{"weight": 10, "preference": fast}]}}

    cluster.add(pod("web", affinity=affinity))
    cluster.settle()

    assert cluster.node_of("web") == "b"


def test_preferred_pod_affinity_and_anti_affinity_are_followed_if_possible() -> None:
    cluster = a_cluster(a_node("a", zone="a"), a_node("b", zone="b"))
    db = pod("db", labels={"app": "db"}, nodeSelector={ZONE: "b"}, requests={"cpu": "500m"})
    cluster.add(db)
    cluster.settle()

    cluster.add(
        pod("near", affinity={"podAffinity": {PREFERRED: preference("db")}}),
        pod("away", affinity={"podAntiAffinity": {PREFERRED: preference("db")}}),
    )
    cluster.settle()

    assert (cluster.node_of("near"), cluster.node_of("away")) == ("b", "a")


def test_preferences_of_running_pods_attract_others() -> None:
    cluster = a_cluster(a_node("a", zone="a"), a_node("b", zone="b"))
    affinity = {"podAffinity": {PREFERRED: preference("web")}}
    cluster.add(pod("db", nodeSelector={ZONE: "b"}, requests={"cpu": "500m"}, affinity=affinity))
    cluster.settle()

    cluster.add(pod("web", labels={"app": "web"}))
    cluster.settle()

    assert cluster.node_of("web") == "b"


def test_schedule_anyway_spreads_over_zones_of_unequal_size() -> None:
    nodes = [a_node("a1", zone="a", cpu="32"), a_node("b1", zone="b"), a_node("c1", zone="c")]
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
