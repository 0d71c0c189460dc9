"""Standalone NodeClaims, without a NodePool: E2E2."""

from datetime import timedelta
from typing import Any

from dovetail.data.bundled import bundled_catalog, bundled_prices
from dovetail.model import labels as label_keys
from dovetail.ports.api_resources import NODE_CLAIMS, NODES
from dovetail.simulator.apiserver.options import ListOptions
from dovetail.simulator.apiserver.storage.frozen_object import thaw
from dovetail.simulator.cluster import SimulatedCluster
from dovetail.simulator.scenario.load import read_scenario

STORY = b"""
name: by-hand
about: a node class, and nobody who buys by himself
home: {count: 1, instanceType: t3.small}
cloud: {start: 1, boot: 4}
kubelet: {nodeReady: 1}
manifests:
  - apiVersion: karpenter.k8s.aws/v1
    kind: EC2NodeClass
    metadata: {name: default}
    spec:
      role: KarpenterNodeRole
      amiSelectorTerms: [{alias: al2023@latest}]
      subnetSelectorTerms: [{tags: {karpenter.sh/discovery: sandbox}}]
      securityGroupSelectorTerms: [{tags: {karpenter.sh/discovery: sandbox}}]
"""


def a_claim(node_class: str) -> dict[str, Any]:
    requirement = {"key": label_keys.INSTANCE_TYPE, "operator": "In", "values": ["m5.large"]}
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodeClaim",
        "metadata": {"name": "by-hand", "labels": {"team": "a"}},
        "spec": {
            "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": node_class},
            "requirements": [requirement],
            "taints": [{"key": "team", "value": "a", "effect": "NoSchedule"}],
        },
    }


def after(seconds: float, node_class: str = "default") -> SimulatedCluster:
    """The cluster some seconds after the claim was created."""
    cluster = SimulatedCluster(
        read_scenario("by-hand.yaml", STORY), catalog=bundled_catalog(), prices=bundled_prices()
    )
    cluster.clock.run(until=cluster.clock.now() + timedelta(seconds=3))
    cluster.api.create(NODE_CLAIMS, a_claim(node_class))
    cluster.clock.run(until=cluster.clock.now() + timedelta(seconds=seconds))
    return cluster


def test_a_standalone_claim_becomes_a_node_with_all_of_its_spec() -> None:
    cluster = after(30)

    (node,) = cluster.api.list(NODES, ListOptions(label_selector="team=a")).items
    (ready,) = [
        condition["status"]
        for condition in cluster.api.get(NODE_CLAIMS, "by-hand")["status"]["conditions"]
        if condition["type"] == "Ready"
    ]
    assert ready == "True"
    assert thaw(node["spec"]["taints"]) == [{"key": "team", "value": "a", "effect": "NoSchedule"}]
    assert node["metadata"]["labels"][label_keys.INSTANCE_TYPE] == "m5.large"
    assert cluster.ec2.billing.instance_count == 1 + 1
    assert cluster.invariants.violations == []


def test_a_claim_without_its_node_class_is_deleted_and_nothing_is_launched() -> None:
    cluster = after(30, node_class="missing")

    assert cluster.api.list(NODE_CLAIMS).items == []
    assert cluster.ec2.billing.instance_count == 1
