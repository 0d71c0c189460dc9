"""Prices of nodes from their labels, whatever created them."""

import pytest

from dovetail.core.cost.node_groups import GroupKind, NodeGroup, find_node_group
from dovetail.core.cost.node_prices import NodePrices, PricedNode, get_fargate_size
from dovetail.data.bundled import bundled_catalog, bundled_prices
from dovetail.model.frozen import FrozenDict
from dovetail.model.kube.pod import Pod, PodSpec
from dovetail.model.kube.resources import CPU, MEMORY, Resources
from dovetail.model.node import NodeObject

GI = 2**30
PLACE = {"topology.kubernetes.io/region": "us-east-1", "topology.kubernetes.io/zone": "us-east-1a"}
M5 = {"node.kubernetes.io/instance-type": "m5.large", **PLACE}


def price(labels: dict[str, str], *pods: Pod, provider_id: str = "aws:///us-east-1a/i-1") -> PricedNode:
    node = NodeObject(name="node", labels=FrozenDict(labels), provider_id=provider_id)
    return NodePrices(bundled_catalog(), bundled_prices(), "us-east-1").price(node, pods)


def fargate_pod(cpu: int, memory: int, provisioned: str = "") -> Pod:
    annotations = {"CapacityProvisioned": provisioned} if provisioned else {}
    spec = PodSpec(requests=Resources({CPU: cpu, MEMORY: memory}))
    return Pod(name="pod", annotations=FrozenDict(annotations), spec=spec)


@pytest.mark.parametrize(
    ("labels", "group"),
    [
        ({"eks.amazonaws.com/nodegroup": "web"}, NodeGroup(GroupKind.MANAGED, "web")),
        ({"alpha.eksctl.io/nodegroup-name": "web"}, NodeGroup(GroupKind.EKSCTL, "web")),
        (
            {"eks.amazonaws.com/nodegroup": "a", "alpha.eksctl.io/nodegroup-name": "b"},
            NodeGroup(GroupKind.MANAGED, "a"),
        ),
        ({"kops.k8s.io/instancegroup": "nodes"}, NodeGroup(GroupKind.KOPS, "nodes")),
        ({"node-group": "batch"}, NodeGroup(GroupKind.AUTO_SCALING, "batch")),
        ({"karpenter.sh/nodepool": "default"}, NodeGroup(GroupKind.NODEPOOL, "default")),
        ({"karpenter.sh/provisioner-name": "old"}, NodeGroup(GroupKind.NODEPOOL, "old")),
        (
            {"karpenter.sh/nodepool": "general-purpose", "eks.amazonaws.com/compute-type": "auto"},
            NodeGroup(GroupKind.AUTO_MODE, "general-purpose"),
        ),
        ({"eks.amazonaws.com/compute-type": "fargate"}, NodeGroup(GroupKind.FARGATE)),
        ({"eks.amazonaws.com/compute-type": "hybrid"}, NodeGroup(GroupKind.HYBRID)),
        ({"cloud.google.com/gke-nodepool": "pool-1"}, NodeGroup(GroupKind.GKE, "pool-1")),
        ({"kubernetes.azure.com/agentpool": "system"}, NodeGroup(GroupKind.AKS, "system")),
        ({}, NodeGroup(GroupKind.OTHER)),
    ],
)
def test_labels_name_the_group_of_a_node(labels: dict[str, str], group: NodeGroup) -> None:
    assert find_node_group(labels) == group


@pytest.mark.parametrize(
    "labels",
    [
        {"karpenter.sh/capacity-type": "spot"},
        {"eks.amazonaws.com/capacityType": "SPOT"},
        {"node.kubernetes.io/lifecycle": "spot"},
        {"lifecycle": "Ec2Spot"},
    ],
)
def test_a_spot_node_is_cheaper_than_an_on_demand_node(labels: dict[str, str]) -> None:
    spot, on_demand = price({**M5, **labels}), price({**M5, "karpenter.sh/capacity-type": "on-demand"})

    assert spot.capacity_type == "spot"
    assert spot.price is not None
    assert on_demand.price is not None
    assert 0 < spot.price < on_demand.price == pytest.approx(0.096)


def test_a_node_without_capacity_type_is_on_demand_and_says_so() -> None:
    node = price({**M5, "eks.amazonaws.com/nodegroup": "web"})

    assert node.price == pytest.approx(0.096)
    assert node.note == "capacity type assumed: on-demand"


def test_old_labels_of_region_and_type_are_read() -> None:
    labels = {
        "beta.kubernetes.io/instance-type": "m5.large",
        "failure-domain.beta.kubernetes.io/region": "eu-west-1",
    }

    in_ireland = price(labels)

    assert in_ireland.price is not None
    assert in_ireland.price > 0.096


@pytest.mark.parametrize(
    ("labels", "provider_id", "reason"),
    [
        ({}, "aws:///us-east-1a/i-1", "no label node.kubernetes.io/instance-type"),
        (
            {**M5, "node.kubernetes.io/instance-type": "m99.large"},
            "aws:///us-east-1a/i-1",
            "no on-demand price of m99.large in us-east-1 is known",
        ),
        ({"cloud.google.com/gke-nodepool": "p"}, "gce://p/z/n", "a node of GKE; only AWS prices are known"),
        ({}, "azure:///subscriptions/x", "a node of AKS; only AWS prices are known"),
        (
            {"eks.amazonaws.com/compute-type": "hybrid"},
            "eks-hybrid:///us-east-1/c/mi-1",
            "a hybrid node; AWS charges per vCPU-hour, the hardware is yours",
        ),
    ],
)
def test_a_node_without_a_price_says_why(labels: dict[str, str], provider_id: str, reason: str) -> None:
    node = price(labels, provider_id=provider_id)

    assert (node.price, node.note) == (None, reason)


def test_auto_mode_says_that_its_fee_is_not_counted() -> None:
    node = price({**M5, "eks.amazonaws.com/compute-type": "auto", "karpenter.sh/capacity-type": "on-demand"})

    assert node.note == "the fee of EKS Auto Mode is not counted"


def test_fargate_bills_the_size_that_it_provisioned() -> None:
    labels = {**PLACE, "eks.amazonaws.com/compute-type": "fargate"}

    node = price(labels, fargate_pod(100, GI, "0.5vCPU 2GB"), provider_id="aws:///x/fargate-ip-10-0-0-1")

    assert node.price == pytest.approx(0.5 * 0.04048 + 2 * 0.004445)
    assert node.group.kind is GroupKind.FARGATE


@pytest.mark.parametrize(
    ("cpu", "memory", "size"),
    [
        (100, 100 * 2**20, (0.25, 0.5)),
        (250, GI // 4, (0.25, 0.5)),
        (250, GI // 2, (0.25, 1)),
        (300, GI, (0.5, 2)),
        (1000, 20 * GI, (4, 21)),
        (9000, 40 * GI, (16, 48)),
        (20_000, GI, None),
    ],
)
def test_fargate_rounds_requests_up_to_a_size(
    cpu: int, memory: int, size: tuple[float, float] | None
) -> None:
    assert get_fargate_size(fargate_pod(cpu, memory)) == size


def test_a_fargate_node_without_its_pod_has_no_price() -> None:
    node = price({**PLACE, "eks.amazonaws.com/compute-type": "fargate"})

    assert node.price is None
    assert "without its pod" in node.note
