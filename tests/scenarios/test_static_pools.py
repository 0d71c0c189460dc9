"""A static NodePool in a whole cluster."""

from typing import Any

from dovetail.model.settings import FeatureGates
from dovetail.ports.api_resources import NODE_CLAIMS, NODE_POOLS, NODES
from dovetail.simulator.apiserver.options import PatchType
from dovetail.simulator.cluster import SimulatedCluster
from tests.support.simulator.clusters import a_node_class, a_pool, build_cluster, build_scenario, wait


def static_cluster(replicas: int, **spec: Any) -> SimulatedCluster:
    pool = a_pool(replicas=replicas, **spec)
    scenario = build_scenario(objects=(a_node_class(), pool))
    cluster = build_cluster(scenario, gates=FeatureGates(StaticCapacity=True))
    wait(cluster, 60)
    return cluster


def resize(cluster: SimulatedCluster, replicas: int) -> None:
    cluster.api.patch(NODE_POOLS, "default", {"spec": {"replicas": replicas}}, PatchType.MERGE)
    wait(cluster, 120)


def ready_nodes(cluster: SimulatedCluster) -> int:
    """Ready nodes of the NodePool, without those of the node group."""
    return sum(
        node["metadata"]["labels"].get("karpenter.sh/initialized") == "true"
        for node in cluster.api.list(NODES).items
    )


def test_static_nodes_are_launched_without_pods_and_kept_while_unused() -> None:
    cluster = static_cluster(3)
    before = ready_nodes(cluster)

    wait(cluster, 3600)

    assert before == 3
    assert ready_nodes(cluster) == 3
    assert cluster.api.get(NODE_POOLS, "default")["status"]["nodes"] == 3
    assert cluster.invariants.violations == []


def test_a_static_nodepool_is_scaled_up_and_down_to_zero() -> None:
    cluster = static_cluster(1)

    resize(cluster, 4)
    grown = ready_nodes(cluster)
    resize(cluster, 0)

    assert grown == 4
    assert ready_nodes(cluster) == 0
    assert cluster.api.list(NODE_CLAIMS).items == []
    assert cluster.ec2.billing.instance_count == 1  # The node of the node group.


def test_a_deleted_static_node_is_replaced() -> None:
    cluster = static_cluster(2)
    (first, *_) = [
        node["metadata"]["name"]
        for node in cluster.api.list(NODES).items
        if "karpenter.sh/nodepool" in node["metadata"]["labels"]
    ]

    cluster.api.delete(NODES, first)
    wait(cluster, 120)

    assert ready_nodes(cluster) == 2
    assert first not in {node["metadata"]["name"] for node in cluster.api.list(NODES).items}


def test_a_crash_during_a_scale_up_launches_nothing_twice() -> None:
    cluster = static_cluster(0)
    cluster.api.patch(NODE_POOLS, "default", {"spec": {"replicas": 3}}, PatchType.MERGE)
    wait(cluster, 0)

    cluster.restart()
    wait(cluster, 120)

    assert ready_nodes(cluster) == 3
    assert cluster.ec2.billing.instance_count == 1 + 3
