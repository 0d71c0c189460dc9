"""Inter-pod filters: affinity, anti-affinity, topology spread."""

from typing import Any

import pytest

from dovetail.ports.api_resources import NAMESPACES, NODES
from tests.support.simulator.scheduler import SchedulerCluster, a_node, pod

ZONE = "topology.kubernetes.io/zone"
HOST = "kubernetes.io/hostname"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def a_cluster(*nodes: dict[str, Any]) -> SchedulerCluster:
    cluster = SchedulerCluster()
    for node in nodes:
        cluster.create(NODES, node)
    return cluster


def two_zones() -> SchedulerCluster:
    return a_cluster(
        a_node("a1", zone="a"), a_node("a2", zone="a"), a_node("b1", zone="b"), a_node("b2", zone="b")
    )


def app(name: str, **more: Any) -> dict[str, Any]:
    return pod(name, labels={"app": name.rstrip("0123456789")}, **more)


def term(name: str, key: str = ZONE, **more: Any) -> dict[str, Any]:
    return {"labelSelector": {"matchLabels": {"app": name}}, "topologyKey": key, **more}


def near(*terms: dict[str, Any]) -> dict[str, Any]:
    return {"podAffinity": {REQUIRED: [*terms]}}


def apart(*terms: dict[str, Any]) -> dict[str, Any]:
    return {"podAntiAffinity": {REQUIRED: [*terms]}}


def spread(name: str, key: str = ZONE, **more: Any) -> list[dict[str, Any]]:
    constraint = {
        "topologyKey": key,
        "maxSkew": 1,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": name}},
        **more,
    }
    return [constraint]


def on(zone: str) -> dict[str, str]:
    return {ZONE: zone}


def test_a_pod_with_required_affinity_goes_to_the_domain_of_its_peer() -> None:
    cluster = two_zones()
    cluster.add(app("db", nodeSelector=on("b")))
    cluster.settle()

    cluster.add(app("web", affinity=near(term("db"))))
    cluster.settle()

    assert str(cluster.node_of("web")).startswith("b")


def test_a_pod_with_required_affinity_waits_for_its_peer() -> None:
    cluster = two_zones()
    cluster.add(app("web", affinity=near(term("db"))))
    cluster.settle()
    rejected = cluster.unschedulable_message("web")

    cluster.add(app("db", nodeSelector=on("b")))
    cluster.wait(1)

    assert rejected == "0/4 nodes are available: 4 node(s) didn't match pod affinity rules."
    assert str(cluster.node_of("web")).startswith("b")


def test_the_first_of_a_self_affine_group_starts_anywhere_and_the_others_follow() -> None:
    cluster = two_zones()

    cluster.add(*(app(f"web{n}", affinity=near(term("web", HOST))) for n in range(4)))
    cluster.settle()

    assert len(set(cluster.placements().values())) == 1


def test_a_node_without_the_topology_label_does_not_satisfy_affinity() -> None:
    cluster = a_cluster(a_node("n1"))

    cluster.add(app("web", affinity=near(term("web", "rack"))))
    cluster.settle()

    assert cluster.node_of("web") is None


def test_one_pod_must_match_all_affinity_terms() -> None:
    cluster = two_zones()
    cluster.add(app("db", nodeSelector=on("a")), app("cache", nodeSelector=on("a")))
    cluster.settle()

    cluster.add(app("web", affinity=near(term("db"), term("cache"))))
    cluster.settle()

    assert "pod affinity rules" in cluster.unschedulable_message("web")


def test_pods_with_mutual_anti_affinity_get_a_node_each() -> None:
    cluster = two_zones()

    cluster.add(*(app(f"web{n}", affinity=apart(term("web", HOST))) for n in range(5)))
    cluster.settle()

    placed = [node for node in cluster.placements().values() if node]
    assert sorted(placed) == ["a1", "a2", "b1", "b2"]
    assert cluster.unschedulable_message("web4") == (
        "0/4 nodes are available: 4 node(s) didn't match pod anti-affinity rules."
    )


def test_anti_affinity_of_running_pods_is_respected() -> None:
    cluster = two_zones()
    cluster.add(app("quiet", nodeSelector=on("a"), affinity=apart(term("loud"))))
    cluster.settle()

    cluster.add(app("loud1"), app("loud2", nodeSelector=on("a")))
    cluster.settle()

    assert str(cluster.node_of("loud1")).startswith("b")
    assert "existing pods anti-affinity rules" in cluster.unschedulable_message("loud2")
    cluster.remove("quiet")
    cluster.wait(1)
    assert str(cluster.node_of("loud2")).startswith("a")


def test_terms_apply_to_the_namespaces_they_name_or_select() -> None:
    cluster = two_zones()
    cluster.create(NAMESPACES, {"metadata": {"name": "red", "labels": {"team": "red"}}})
    cluster.add({**app("db", namespace="red", nodeSelector=on("b"))})
    cluster.settle()
    team = {"matchLabels": {"team": "red"}}

    cluster.add(
        app("own", affinity=near(term("db"))),
        app("named", affinity=near(term("db", namespaces=["red"]))),
        app("chosen", affinity=near(term("db", namespaceSelector=team))),
        app("all", affinity=near(term("db", namespaceSelector={}))),
    )
    cluster.settle()

    placements = cluster.placements()
    assert placements["own"] is None
    assert all(str(placements[name]).startswith("b") for name in ("named", "chosen", "all"))


def test_changed_namespace_labels_are_evaluated_again() -> None:
    cluster = two_zones()
    namespace = cluster.create(NAMESPACES, {"metadata": {"name": "red"}})
    cluster.add(app("db", namespace="red", nodeSelector=on("b")))
    team = {"matchLabels": {"team": "red"}}
    cluster.add(app("early", affinity=near(term("db", namespaceSelector=team))))
    cluster.settle()

    labels = {**namespace["metadata"]["labels"], "team": "red"}
    cluster.update(NAMESPACES, {**namespace, "metadata": {**namespace["metadata"], "labels": labels}})
    cluster.add(app("late", affinity=near(term("db", namespaceSelector=team))))
    cluster.wait(1)

    assert str(cluster.node_of("late")).startswith("b")
    assert str(cluster.node_of("early")).startswith("b")


def test_topology_spread_balances_pods_over_zones() -> None:
    cluster = a_cluster(a_node("a1", zone="a", cpu="64"), a_node("b1", zone="b"), a_node("c1", zone="c"))

    constraints = spread("web")
    cluster.add(*(app(f"web{n}", topologySpreadConstraints=constraints) for n in range(7)))
    cluster.settle()

    placed = list(cluster.placements().values())
    assert sorted(placed.count(name) for name in ("a1", "b1", "c1")) == [2, 2, 3]


def test_topology_spread_ignores_terminating_pods() -> None:
    cluster = a_cluster(a_node("a1", zone="a"), a_node("b1", zone="b", unschedulable=True))
    constraints = spread("web")
    cluster.add(app("web1", topologySpreadConstraints=constraints))
    cluster.settle()
    cluster.add(app("web2", topologySpreadConstraints=constraints))
    cluster.settle()
    rejected = cluster.unschedulable_message("web2")

    cluster.evict("web1", "default")
    cluster.wait(1)

    assert "topology spread constraints" in rejected
    assert cluster.node_of("web2") == "a1"


def test_nodes_that_the_pod_cannot_use_are_no_domains() -> None:
    cluster = a_cluster(a_node("a1", zone="a", labels={"disk": "fast"}), a_node("b1", zone="b"))
    fast = {"disk": "fast"}

    constraints = spread("web")
    cluster.add(*(app(f"web{n}", nodeSelector=fast, topologySpreadConstraints=constraints) for n in range(3)))
    cluster.settle()

    assert list(cluster.placements().values()) == ["a1"] * 3


@pytest.mark.parametrize(
    ("policy", "placed"), [({"nodeAffinityPolicy": "Ignore"}, 1), ({"nodeAffinityPolicy": "Honor"}, 3)]
)
def test_the_affinity_policy_decides_whether_other_nodes_count(policy: dict[str, str], placed: int) -> None:
    cluster = a_cluster(a_node("a1", zone="a", labels={"disk": "fast"}), a_node("b1", zone="b"))
    constraints = spread("web", **policy)

    for n in range(3):
        cluster.add(app(f"web{n}", nodeSelector={"disk": "fast"}, topologySpreadConstraints=constraints))
    cluster.settle()

    assert sum(node is not None for node in cluster.placements().values()) == placed


@pytest.mark.parametrize(("policy", "placed"), [("Ignore", 1), ("Honor", 3)])
def test_the_taint_policy_decides_whether_tainted_nodes_count(policy: str, placed: int) -> None:
    cluster = a_cluster(a_node("a1", zone="a"), a_node("b1", zone="b", taints=["x=y:NoSchedule"]))
    constraints = spread("web", nodeTaintsPolicy=policy)

    for n in range(3):
        cluster.add(app(f"web{n}", topologySpreadConstraints=constraints))
    cluster.settle()

    assert sum(node is not None for node in cluster.placements().values()) == placed


def test_fewer_domains_than_min_domains_keep_pods_pending() -> None:
    cluster = a_cluster(a_node("a1", zone="a"))
    constraints = spread("web", minDomains=2)
    cluster.add(*(app(f"web{n}", topologySpreadConstraints=constraints) for n in range(3)))
    cluster.settle()
    first = [node for node in cluster.placements().values() if node]

    cluster.create(NODES, a_node("b1", zone="b"))
    cluster.wait(5)

    assert first == ["a1"]
    assert sorted(map(str, cluster.placements().values())) in (["a1", "a1", "b1"], ["a1", "b1", "b1"])


def test_match_label_keys_separate_one_rollout_from_the_next() -> None:
    cluster = a_cluster(a_node("a1", zone="a"), a_node("b1", zone="b", unschedulable=True))
    constraints = spread("web", matchLabelKeys=["hash"])

    def rollout(name: str, hash_: str) -> dict[str, Any]:
        labels = {"app": "web", "hash": hash_}
        return pod(name, labels=labels, topologySpreadConstraints=constraints)

    cluster.add(rollout("old", "1"), rollout("old2", "1"), rollout("new", "2"))
    cluster.settle()

    assert cluster.placements() == {"old": "a1", "old2": None, "new": "a1"}


def test_a_node_without_the_topology_label_gets_no_spread_pod() -> None:
    cluster = a_cluster(a_node("n1"))

    cluster.add(app("web", topologySpreadConstraints=spread("web", "rack")))
    cluster.settle()

    assert "topology spread constraints" in cluster.unschedulable_message("web")


def test_relabelling_a_node_changes_the_domains() -> None:
    cluster = a_cluster(a_node("n1"))
    cluster.add(app("web", topologySpreadConstraints=spread("web", "rack")))
    cluster.settle()

    cluster.label_node("n1", rack="r1")
    cluster.wait(1)

    assert cluster.node_of("web") == "n1"
