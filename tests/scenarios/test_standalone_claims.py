"""Claims that somebody wrote by hand, without a NodePool: E2E2."""

from datetime import timedelta
from typing import Any

from dovetail.data.bundled import bundled_catalog, bundled_prices
from dovetail.model import labels as label_keys
from dovetail.ports.api_resources import NODE_CLAIMS, NODES
from dovetail.simulator.apiserver.options import ListOptions
from dovetail.simulator.apiserver.storage.frozen_object import thaw
from dovetail.simulator.cluster import Box
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
    wanted = {"key": label_keys.INSTANCE_TYPE, "operator": "In", "values": ["m5.large"]}
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodeClaim",
        "metadata": {"name": "by-hand", "labels": {"team": "a"}},
        "spec": {
            "nodeClassRef": {
                "group": "karpenter.k8s.aws",
                "kind": "EC2NodeClass",
                "name": node_class,
            },
            "requirements": [wanted],
            "taints": [{"key": "team", "value": "a", "effect": "NoSchedule"}],
        },
    }


def after(seconds: float, node_class: str = "default") -> Box:
    """The cluster so long after the claim was written."""
    box = Box(
        read_scenario("by-hand.yaml", STORY), catalog=bundled_catalog(), prices=bundled_prices()
    )
    box.engine.run(until=box.engine.now() + timedelta(seconds=3))
    box.api.create(NODE_CLAIMS, a_claim(node_class))
    box.engine.run(until=box.engine.now() + timedelta(seconds=seconds))
    return box


def test_a_claim_written_by_hand_becomes_a_node_with_all_that_it_says() -> None:
    box = after(30)

    (node,) = box.api.list(NODES, ListOptions(labels="team=a")).items
    (ready,) = [
        one["status"]
        for one in box.api.get(NODE_CLAIMS, "by-hand")["status"]["conditions"]
        if one["type"] == "Ready"
    ]
    assert ready == "True"
    assert thaw(node["spec"]["taints"]) == [{"key": "team", "value": "a", "effect": "NoSchedule"}]
    assert node["metadata"]["labels"][label_keys.INSTANCE_TYPE] == "m5.large"
    assert box.ec2.ledger.machines == 1 + 1
    assert box.invariants.violations == []


def test_a_claim_without_its_node_class_goes_and_nothing_is_bought() -> None:
    box = after(30, node_class="missing")

    assert box.api.list(NODE_CLAIMS).items == []
    assert box.ec2.ledger.machines == 1
