"""Kubelet expressions in a whole cluster: capacity of nodes, drift, and a class that is not ready."""

from typing import Any

import pytest

from dovetail.model.settings import FeatureGates
from dovetail.ports.api_resources import EC2_NODE_CLASSES, NODES
from dovetail.simulator.apiserver.options import PatchType
from dovetail.simulator.cluster import SimulatedCluster
from tests.support.simulator.clusters import a_node_class, a_pool, an_app, build_cluster, build_scenario, wait

KUBELET = {"maxPods": "vcpus + 7", "kubeReserved": {"cpu": "vcpus * 50"}}


def cluster_with(kubelet: dict[str, Any], *, gate: bool) -> SimulatedCluster:
    node_class = a_node_class()
    node_class["spec"]["kubelet"] = kubelet
    # Nodes that are in use all the time, and still may be replaced because of drift.
    pool = a_pool(disruption={"consolidateAfter": "Never", "budgets": [{"nodes": "100%"}]})
    scenario = build_scenario(objects=(node_class, pool, an_app(replicas=2)))
    cluster = build_cluster(scenario, gates=FeatureGates(NodeClassCEL=gate))
    wait(cluster, 90)
    return cluster


def nodes(cluster: SimulatedCluster) -> list[dict[str, Any]]:
    """Return the nodes of the NodePool, by name."""
    ready = [
        node
        for node in cluster.api.list(NODES).items
        if node["metadata"]["labels"].get("karpenter.sh/initialized") == "true"
    ]
    return sorted(ready, key=lambda node: str(node["metadata"]["name"]))


def condition(cluster: SimulatedCluster) -> dict[str, str]:
    status = cluster.api.get(EC2_NODE_CLASSES, "default")["status"]
    conditions = {entry["type"]: entry for entry in status["conditions"]}
    return dict(conditions["ValidationSucceeded"])


def test_nodes_have_the_capacity_that_expressions_give() -> None:
    cluster = cluster_with(KUBELET, gate=True)

    assert condition(cluster)["status"] == "True"
    assert [node["status"]["capacity"]["pods"] for node in nodes(cluster)] == ["9", "9"]
    assert {node["status"]["allocatable"]["cpu"] for node in nodes(cluster)} == {"1900m"}
    assert cluster.invariants.violations == []


def test_a_changed_expression_replaces_the_nodes() -> None:
    cluster = cluster_with(KUBELET, gate=True)
    before = {node["metadata"]["name"] for node in nodes(cluster)}
    change = {"spec": {"kubelet": {"maxPods": "vcpus + 18"}}}

    cluster.api.patch(EC2_NODE_CLASSES, "default", change, PatchType.MERGE)
    wait(cluster, 900)

    assert before.isdisjoint(node["metadata"]["name"] for node in nodes(cluster))
    assert [node["status"]["capacity"]["pods"] for node in nodes(cluster)] == ["20", "20"]
    assert cluster.invariants.violations == []


@pytest.mark.parametrize(
    ("kubelet", "gate", "reason"),
    [
        (KUBELET, False, "KubeletExpressionsDisabled"),
        ({"maxPods": "vcpu * 2"}, True, "KubeletExpressionInvalid"),
        ({"maxPods": "vcpus - 3"}, True, "KubeletExpressionEvaluationFailed"),
        ({"registryPullQPS": "5"}, True, "InvalidKubeletConfiguration"),
    ],
)
def test_nothing_is_launched_from_a_class_with_a_problem(
    kubelet: dict[str, Any], gate: bool, reason: str
) -> None:
    cluster = cluster_with(kubelet, gate=gate)

    assert nodes(cluster) == []
    assert (condition(cluster)["status"], condition(cluster)["reason"]) == ("False", reason)
