"""Upgrades: a new Kubernetes version reaches control plane, add-ons, groups and nodes."""

from typing import Any

import pytest

from dovetail.aws.claim_tags import CLUSTER_TAG
from dovetail.eks.apply.executor import StepError
from dovetail.eks.config.cluster import ClusterConfig
from dovetail.eks.config.node_groups import NodeGroup
from dovetail.eks.versions import VersionError
from dovetail.model.labels import NODEPOOL
from tests.support.eks.configs import a_cluster
from tests.support.moto.cluster_account import TestAccount
from tests.support.moto.eks import supported_versions

pytestmark = pytest.mark.slow

NETWORK = {"create": {"cidr": "10.0.0.0/16", "zones": 2}}
GROUP = {"name": "batch", "instanceTypes": ["m5.large"], "desired": 3, "min": 0}


def the_cluster(version: str, **fields: Any) -> ClusterConfig:
    return a_cluster(version=version, vpc=NETWORK, nodeGroups=[GROUP], **fields)


def running_versions(account: TestAccount) -> dict[str, str]:
    cluster, members = account.eks.seen()["dev"]
    versions = {"control plane": cluster["version"]}
    versions |= {name: group["version"] for name, group in members["node-groups"].items()}
    return versions | {name: addon["addonVersion"] for name, addon in members["addons"].items()}


def expected_versions(version: str) -> dict[str, str]:
    addons = ("vpc-cni", "kube-proxy", "coredns", "eks-pod-identity-agent")
    newest = {name: supported_versions(name, version)[-1] for name in addons}
    return {"control plane": version, "controller": version, "batch": version, **newest}


def test_new_version_updates_control_plane_then_addons_then_node_groups(account: TestAccount) -> None:
    account.apply(the_cluster("1.33"))
    before = running_versions(account)

    result = account.apply(the_cluster("1.34"))

    assert before == expected_versions("1.33")
    assert running_versions(account) == expected_versions("1.34")
    rolling = "POST /clusters/dev/node-groups/batch/update-version"
    assert account.moto.middleware.calls[rolling] == 1
    order = [step.address for step in result.done]
    assert order[:2] == ["eks-cluster/dev", "eks-addon/kube-proxy"]
    assert set(order[2:4]) == {"eks-node-group/batch", "eks-node-group/controller"}
    assert order[4:] == ["eks-addon/coredns"]
    assert account.plan(the_cluster("1.34")).steps == ()
    assert account.destroy(the_cluster("1.34")) == []


def test_plan_of_an_upgrade_has_the_duration_of_each_step(account: TestAccount) -> None:
    account.apply(the_cluster("1.33"))

    plan = account.plan(the_cluster("1.34"))

    seconds = {step.address: step.seconds for step in plan.steps}
    assert seconds["eks-cluster/dev"] == 600
    assert seconds["eks-addon/kube-proxy"] == 60
    assert seconds["eks-node-group/batch"] == 3 * 300
    # The controller's group has two nodes: DNS waits for it, not for the other group.
    assert plan.seconds() == 600 + 60 + max(3 * 300, 2 * 300 + 60)


@pytest.mark.parametrize("steps", [1, 3])
def test_killed_upgrade_is_continued(account: TestAccount, steps: int) -> None:
    account.apply(the_cluster("1.33"))
    account.apply(the_cluster("1.34"), steps=steps)

    account.apply(the_cluster("1.34"))

    assert running_versions(account) == expected_versions("1.34")
    assert account.plan(the_cluster("1.34")).steps == ()


def test_pinned_addon_keeps_its_version(account: TestAccount) -> None:
    pinned = {"kube-proxy": {"version": "v1.33.3-eksbuild.2"}}
    account.apply(the_cluster("1.33", addons=pinned))

    account.apply(the_cluster("1.34", addons=pinned))

    assert running_versions(account)["kube-proxy"] == "v1.33.3-eksbuild.2"
    assert running_versions(account)["coredns"] == supported_versions("coredns", "1.34")[-1]


@pytest.mark.parametrize(
    ("version", "message"),
    [
        ("1.35", "EKS upgrades one minor version at a time: 1.34 first, then the next, up to 1.35"),
        ("1.32", "the cluster runs 1.33; EKS cannot downgrade to 1.32"),
    ],
)
def test_other_version_changes_are_refused(account: TestAccount, version: str, message: str) -> None:
    account.apply(the_cluster("1.33"))

    with pytest.raises(VersionError, match=message):
        account.plan(the_cluster(version))


def test_upgrade_with_nodes_that_are_too_old_is_refused_until_they_follow(account: TestAccount) -> None:
    account.apply(the_cluster("1.33"))
    account.eks.parts["dev"]["node-groups"]["batch"]["version"] = "1.30"

    with pytest.raises(VersionError, match=r"node group batch runs 1\.30.*apply 1\.33 first"):
        account.plan(the_cluster("1.34"))
    account.apply(the_cluster("1.33"))
    account.apply(the_cluster("1.34"))

    assert running_versions(account) == expected_versions("1.34")


def test_failed_update_of_a_node_group_is_reported_with_its_pods(account: TestAccount) -> None:
    account.apply(the_cluster("1.33"))
    error = {
        "errorCode": "PodEvictionFailure",
        "errorMessage": "Reached max retries",
        "resourceIds": ["web-1"],
    }
    account.eks.failed_updates["batch"] = [error]

    with pytest.raises(StepError, match=r"batch was not updated: PodEvictionFailure: .* \(web-1\)"):
        account.apply(the_cluster("1.34"))
    account.eks.failed_updates.clear()
    account.apply(the_cluster("1.34"))

    assert running_versions(account) == expected_versions("1.34")


def test_plan_announces_the_drift_of_nodes(account: TestAccount) -> None:
    pools = [{"name": "default"}, {"name": "frozen", "budget": "0"}, {"name": "fixed", "nodeClass": "fixed"}]
    classes = [{"name": "default"}, {"name": "fixed", "image": "ami-0123456789abcdef0"}]
    fields = {"nodePools": pools, "nodeClasses": classes}
    account.apply(the_cluster("1.33", **fields))
    for pool, count in (("default", 12), ("frozen", 1), ("fixed", 2)):
        launch(account, pool, count)

    follow_ups = account.plan(the_cluster("1.34", **fields)).follow_ups

    assert [(work.message, work.seconds) for work in follow_ups] == [
        ("drift replaces 12 nodes of NodePool default by nodes of 1.34", 6 * 240),
        (
            "drift replaces 1 node of NodePool frozen by nodes of 1.34, "
            "as soon as its disruption budget allows it",
            None,
        ),
        (
            "2 nodes of NodePool fixed keep their AMI: EC2NodeClass fixed selects it without an alias; "
            "select an AMI of Kubernetes 1.34",
            None,
        ),
    ]
    assert account.plan(the_cluster("1.33", **fields)).follow_ups == ()


def launch(account: TestAccount, pool: str, count: int) -> None:
    ec2 = account.client("ec2")
    image = ec2.describe_images(Owners=["amazon"])["Images"][0]["ImageId"]
    tags = [{"Key": CLUSTER_TAG, "Value": "dev"}, {"Key": NODEPOOL, "Value": pool}]
    ec2.run_instances(
        ImageId=image,
        MinCount=count,
        MaxCount=count,
        TagSpecifications=[{"ResourceType": "instance", "Tags": tags}],
    )


def test_node_group_of_an_existing_cluster_follows_its_version(account: TestAccount) -> None:
    group = NodeGroup.model_validate({**GROUP, "name": "extra"})
    config = account.prepared("existing-cluster").model_copy(update={"node_groups": [group]})
    account.apply(config)
    account.eks.clusters[config.name]["version"] = "1.34"

    result = account.apply(config)

    assert [step.address for step in result.done] == ["eks-node-group/extra"]
    assert account.eks.seen()[config.name][1]["node-groups"]["extra"]["version"] == "1.34"
    assert account.plan(config).steps == ()


def test_pods_on_fargate_are_to_be_restarted(account: TestAccount) -> None:
    account.apply(a_cluster(version="1.33", vpc=NETWORK, home="fargate"))

    plan = account.plan(a_cluster(version="1.34", vpc=NETWORK, home="fargate"))

    assert [work.message for work in plan.follow_ups] == [
        "pods of namespace kube-system on Fargate keep their kubelet until you restart them: "
        "kubectl rollout restart deployment -n kube-system"
    ]
