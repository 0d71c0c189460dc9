"""Resolution of node classes in the simulated account."""

from typing import Any

import pytest

from dovetail.model import labels as label_keys
from dovetail.simulator.ec2.nodeclass_resolver import AccountNetwork
from tests.simulator.ec2.harness import REGION, A, B, Ec2Harness, a_claim


def a_class(**spec: Any) -> dict[str, Any]:
    tagged = [{"tags": {"karpenter.sh/discovery": "my-cluster"}}]
    usual = {
        "subnetSelectorTerms": tagged,
        "securityGroupSelectorTerms": tagged,
        "amiSelectorTerms": [{"alias": "al2023@latest"}],
        "role": "nodes",
    }
    return {"metadata": {"name": "default"}, "spec": {**usual, **spec}}


def test_a_node_class_resolves_a_subnet_in_every_zone_and_everything_else() -> None:
    harness = Ec2Harness()

    resolved = harness.do(harness.cloud.resolve_nodeclass(a_class()))

    zones = [(subnet["zone"], subnet["zoneID"]) for subnet in resolved.status["subnets"]]
    assert zones == [(A, "euw1-az1"), (B, "euw1-az2")]
    assert resolved.status["securityGroups"][0]["id"].startswith("sg-")
    assert len(resolved.status["amis"]) == 5
    assert resolved.status["instanceProfile"]
    assert not resolved.false_conditions


def test_a_node_class_with_invalid_kubelet_settings_is_not_ready() -> None:
    harness = Ec2Harness()

    resolved = harness.do(harness.cloud.resolve_nodeclass(a_class(kubelet={"nodeLabels": {"team": "a"}})))

    reason, message = resolved.false_conditions["ValidationSucceeded"]
    assert reason == "InvalidKubeletConfiguration"
    assert message.startswith("spec.kubelet.nodeLabels: no such field in the kubelet of Kubernetes 1.36")


@pytest.mark.parametrize(("enabled", "reasons"), [(False, ["KubeletExpressionsDisabled"]), (True, [])])
def test_kubelet_expressions_follow_the_feature_gate(enabled: bool, reasons: list[str]) -> None:
    harness = Ec2Harness(kubelet_expressions=enabled)

    resolved = harness.do(harness.cloud.resolve_nodeclass(a_class(kubelet={"maxPods": "vcpus * 10"})))

    assert [reason for reason, _ in resolved.false_conditions.values()] == reasons


def test_selectors_can_be_made_to_match_nothing() -> None:
    harness = Ec2Harness()
    harness.network = AccountNetwork.from_region(REGION, missing=["*=none", "al2@*"])
    harness.start_process()
    nothing = [{"tags": {"team": "none"}}]

    resolved = harness.do(
        harness.cloud.resolve_nodeclass(
            a_class(
                subnetSelectorTerms=nothing,
                securityGroupSelectorTerms=nothing,
                amiSelectorTerms=[{"alias": "al2@latest"}],
            )
        )
    )

    assert {kind: reason for kind, (reason, _) in resolved.false_conditions.items()} == {
        "SubnetsReady": "SubnetsNotFound",
        "SecurityGroupsReady": "SecurityGroupsNotFound",
        "AMIsReady": "AMINotFound",
    }
    assert not {"subnets", "securityGroups", "amis"} & resolved.status.keys()


def test_one_matching_term_is_enough() -> None:
    harness = Ec2Harness()
    harness.network = AccountNetwork.from_region(REGION, missing=["*=none"])
    harness.start_process()

    resolved = harness.do(
        harness.cloud.resolve_nodeclass(
            a_class(subnetSelectorTerms=[{"tags": {"team": "none"}}, {"id": "subnet-1"}])
        )
    )

    assert resolved.status["subnets"] == [{"id": "subnet-1", "zone": A, "zoneID": "euw1-az1"}]


def test_a_network_can_be_limited_to_some_zones() -> None:
    harness = Ec2Harness()
    harness.network = AccountNetwork.from_region(REGION, zones=[B])
    harness.start_process()

    resolved = harness.do(harness.cloud.resolve_nodeclass(a_class()))

    assert [subnet["zone"] for subnet in resolved.status["subnets"]] == [B]


def test_a_specified_instance_profile_is_used() -> None:
    harness = Ec2Harness()

    resolved = harness.do(harness.cloud.resolve_nodeclass(a_class(role=None, instanceProfile="mine")))

    assert resolved.status["instanceProfile"] == "mine"


def test_an_instance_boots_an_ami_of_its_node_class_for_its_architecture() -> None:
    harness = Ec2Harness()
    images = harness.do(harness.cloud.resolve_nodeclass(a_class())).status["amis"]

    launched = harness.do(harness.cloud.create(a_claim()))

    (image,) = [listed for listed in images if listed["id"] == launched.image_id]
    assert {"key": label_keys.ARCH, "operator": "In", "values": ["amd64"]} in image["requirements"]
