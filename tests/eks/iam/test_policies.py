"""Policies: the controller can change its own cluster, and no other."""

import json
from typing import Any

import pytest

from dovetail.eks.desired.desired_state import desired_state
from dovetail.eks.plan.planner import plan_changes
from dovetail.eks.plan.resource import ObservedState
from tests.support.eks.configs import ACCOUNT, EXAMPLES, a_cluster, an_example
from tests.support.iam.evaluator import Request, allows
from tests.support.iam.policies import policy_documents

OWN_TAGS = {
    "aws:ResourceTag/kubernetes.io/cluster/dev": "owned",
    "aws:ResourceTag/karpenter.sh/nodepool": "default",
}
FOREIGN_TAGS = {
    "aws:ResourceTag/kubernetes.io/cluster/prod": "owned",
    "aws:ResourceTag/karpenter.sh/nodepool": "default",
}
REQUEST_TAGS = {
    "aws:RequestTag/kubernetes.io/cluster/dev": "owned",
    "aws:RequestTag/eks:eks-cluster-name": "dev",
    "aws:RequestTag/karpenter.sh/nodepool": "default",
}
EC2 = "arn:aws:ec2:us-east-1:123456789012"
PROFILE = "arn:aws:iam::123456789012:instance-profile/karpenter/us-east-1/dev/uid/dev_1"


@pytest.fixture(scope="module")
def policies() -> list[dict[str, Any]]:
    return policy_documents(desired_state(a_cluster()), "dev-us-east-1-dovetail-")


@pytest.mark.parametrize("action", ["ec2:TerminateInstances", "ec2:CreateTags"])
def test_instances_of_the_cluster_can_be_changed(policies: list[dict[str, Any]], action: str) -> None:
    request = Request(
        action=action,
        resource=f"{EC2}:instance/i-1",
        context={**OWN_TAGS, "aws:TagKeys": ["Name", "karpenter.sh/nodeclaim"]},
    )

    assert allows(policies, request)


@pytest.mark.parametrize("action", ["ec2:TerminateInstances", "ec2:CreateTags"])
@pytest.mark.parametrize("tags", [FOREIGN_TAGS, {}, {"aws:ResourceTag/Name": "other"}])
def test_instances_of_another_or_no_cluster_cannot_be_changed(
    policies: list[dict[str, Any]], action: str, tags: dict[str, str]
) -> None:
    request = Request(action=action, resource=f"{EC2}:instance/i-1", context=tags)

    assert not allows(policies, request)


@pytest.mark.parametrize("tags", [FOREIGN_TAGS, {}])
def test_launch_templates_of_another_cluster_can_be_neither_used_nor_deleted(
    policies: list[dict[str, Any]], tags: dict[str, str]
) -> None:
    template = f"{EC2}:launch-template/lt-1"

    for action in ("ec2:RunInstances", "ec2:CreateFleet", "ec2:DeleteLaunchTemplate"):
        assert not allows(policies, Request(action=action, resource=template, context=tags))
        assert allows(policies, Request(action=action, resource=template, context=OWN_TAGS))


def test_launch_without_the_cluster_tags_is_denied(policies: list[dict[str, Any]]) -> None:
    for kind in ("instance", "volume", "network-interface", "fleet", "spot-instances-request"):
        launch = {"action": "ec2:CreateFleet", "resource": f"{EC2}:{kind}/x"}
        foreign = {key.replace("/dev", "/prod"): value for key, value in REQUEST_TAGS.items()}

        assert allows(policies, Request(**launch, context=REQUEST_TAGS))
        assert not allows(policies, Request(**launch))
        assert not allows(policies, Request(**launch, context=foreign))


def test_instance_cannot_be_tagged_into_another_cluster(policies: list[dict[str, Any]]) -> None:
    for keys in (["kubernetes.io/cluster/prod"], ["karpenter.sh/nodepool"], ["Name", "Owner"]):
        request = Request(
            action="ec2:CreateTags", resource=f"{EC2}:instance/i-1", context={**OWN_TAGS, "aws:TagKeys": keys}
        )

        assert not allows(policies, request)


def test_only_the_node_role_can_be_passed_and_only_to_ec2(policies: list[dict[str, Any]]) -> None:
    role = "arn:aws:iam::123456789012:role/dev-us-east-1-node"
    to_ec2 = {"iam:PassedToService": "ec2.amazonaws.com"}

    assert allows(policies, Request(action="iam:PassRole", resource=role, context=to_ec2))
    admin = role.replace("dev-us-east-1-node", "admin")
    assert not allows(policies, Request(action="iam:PassRole", resource=admin, context=to_ec2))
    to_lambda = {"iam:PassedToService": "lambda.amazonaws.com"}
    assert not allows(policies, Request(action="iam:PassRole", resource=role, context=to_lambda))


def test_instance_profiles_of_another_cluster_cannot_be_changed(policies: list[dict[str, Any]]) -> None:
    ours = {
        "aws:ResourceTag/kubernetes.io/cluster/dev": "owned",
        "aws:ResourceTag/topology.kubernetes.io/region": "us-east-1",
        "aws:ResourceTag/karpenter.k8s.aws/ec2nodeclass": "default",
    }
    theirs = {key.replace("/dev", "/prod"): value for key, value in ours.items()}

    for verb in ("AddRoleTo", "RemoveRoleFrom", "Delete"):
        action = f"iam:{verb}InstanceProfile"
        assert allows(policies, Request(action=action, resource=PROFILE, context=ours))
        assert not allows(policies, Request(action=action, resource=PROFILE, context=theirs))


def test_queue_of_another_cluster_cannot_be_read(policies: list[dict[str, Any]]) -> None:
    queue = "arn:aws:sqs:us-east-1:123456789012"

    assert allows(policies, Request(action="sqs:ReceiveMessage", resource=f"{queue}:dev"))
    assert not allows(policies, Request(action="sqs:ReceiveMessage", resource=f"{queue}:prod"))


def test_reads_are_allowed_in_the_own_region_only(policies: list[dict[str, Any]]) -> None:
    for what in ("Instances", "InstanceTypes", "Subnets", "Images", "AvailabilityZones"):
        here = {"aws:RequestedRegion": "us-east-1"}
        there = {"aws:RequestedRegion": "eu-west-1"}

        assert allows(policies, Request(action=f"ec2:Describe{what}", context=here))
        assert not allows(policies, Request(action=f"ec2:Describe{what}", context=there))


@pytest.mark.parametrize(
    "action",
    [
        "ec2:StopInstances",
        "ec2:DeleteVolume",
        "ec2:AuthorizeSecurityGroupIngress",
        "iam:CreateRole",
        "iam:AttachRolePolicy",
        "iam:CreateUser",
        "s3:GetObject",
        "eks:DeleteCluster",
        "sts:AssumeRole",
        "sqs:SendMessage",
    ],
)
def test_unneeded_actions_are_denied(policies: list[dict[str, Any]], action: str) -> None:
    everything = {**OWN_TAGS, **REQUEST_TAGS, "aws:RequestedRegion": "us-east-1"}

    assert not allows(policies, Request(action=action, context=everything))
    assert not allows(policies, Request(action=action, resource=f"{EC2}:instance/i-1", context=everything))


def test_controller_has_at_most_six_policies_below_the_size_limit() -> None:
    longest = "c" * 52
    resources = desired_state(a_cluster(name=longest, region="ap-southeast-5", iam={"prefix": longest}))

    policies = policy_documents(resources, f"{longest}-dovetail-")

    assert 0 < len(policies) <= 6
    # IAM counts characters without white space.
    assert max(len("".join(json.dumps(policy).split())) for policy in policies) < 6144


@pytest.mark.parametrize("example", [path.stem for path in EXAMPLES])
def test_names_of_roles_and_policies_are_within_iam_limits(example: str) -> None:
    resources = desired_state(an_example(example))

    assert all(len(resource.name) <= 64 for resource in resources if resource.kind == "iam-role")
    assert all(len(resource.name) <= 128 for resource in resources if resource.kind == "iam-policy")


def test_service_account_of_another_namespace_cannot_assume_the_controller_role() -> None:
    resources = desired_state(a_cluster(home="fargate"))

    role = next(resource for resource in resources if resource.address == "iam-role/dev-us-east-1-dovetail")

    condition = role.properties["AssumeRolePolicyDocument"]["Statement"][0]["Condition"]
    assert condition["StringEquals"] == {
        "@{eks-cluster/dev:issuer}:aud": "sts.amazonaws.com",
        "@{eks-cluster/dev:issuer}:sub": "system:serviceaccount:kube-system:dovetail",
    }


def test_plan_for_an_empty_account_creates_everything_and_deletes_nothing() -> None:
    resources = desired_state(a_cluster())

    steps = plan_changes(resources, ObservedState(account=ACCOUNT)).steps

    assert [step.address for step in steps] == [step.address for step in resources]
    assert {str(step.action) for step in steps} == {"create"}
