"""What the controller may do to its own cluster, and to nobody else's."""

import json
from typing import Any

import pytest

from dovetail.eks.desired.desired_state import wanted
from dovetail.eks.plan.planner import plan
from dovetail.eks.plan.references import resolved
from dovetail.eks.plan.resolver import found
from dovetail.eks.plan.resource import Observed, Resource
from tests.support.clusters import ACCOUNT, EXAMPLES, a_cluster, an_example
from tests.support.iam import Request, allows

OURS = {
    "aws:ResourceTag/kubernetes.io/cluster/dev": "owned",
    "aws:ResourceTag/karpenter.sh/nodepool": "default",
}
THEIRS = {
    "aws:ResourceTag/kubernetes.io/cluster/prod": "owned",
    "aws:ResourceTag/karpenter.sh/nodepool": "default",
}
ASKED = {
    "aws:RequestTag/kubernetes.io/cluster/dev": "owned",
    "aws:RequestTag/eks:eks-cluster-name": "dev",
    "aws:RequestTag/karpenter.sh/nodepool": "default",
}
EC2 = "arn:aws:ec2:us-east-1:123456789012"
PROFILE = "arn:aws:iam::123456789012:instance-profile/karpenter/us-east-1/dev/uid/dev_1"


def documents(resources: tuple[Resource, ...], prefix: str) -> list[dict[str, Any]]:
    by_address = {one.address: one for one in resources}
    nothing = Observed(account=ACCOUNT)
    return [
        resolved(
            one.properties["PolicyDocument"],
            lambda reference: found(reference, observed=nothing, wanted=by_address),
        )
        for one in resources
        if one.kind == "iam-policy" and one.name.startswith(prefix)
    ]


@pytest.fixture(scope="module")
def policies() -> list[dict[str, Any]]:
    return documents(wanted(a_cluster()), "dev-dovetail-")


@pytest.mark.parametrize("action", ["ec2:TerminateInstances", "ec2:CreateTags"])
def test_instances_of_its_own_cluster_may_be_touched(
    policies: list[dict[str, Any]], action: str
) -> None:
    request = Request(
        action=action,
        resource=f"{EC2}:instance/i-1",
        context={**OURS, "aws:TagKeys": ["Name", "karpenter.sh/nodeclaim"]},
    )

    assert allows(policies, request)


@pytest.mark.parametrize("action", ["ec2:TerminateInstances", "ec2:CreateTags"])
@pytest.mark.parametrize("tags", [THEIRS, {}, {"aws:ResourceTag/Name": "somebody's"}])
def test_instances_of_another_cluster_or_of_none_may_not_be_touched(
    policies: list[dict[str, Any]], action: str, tags: dict[str, str]
) -> None:
    request = Request(action=action, resource=f"{EC2}:instance/i-1", context=tags)

    assert not allows(policies, request)


@pytest.mark.parametrize("tags", [THEIRS, {}])
def test_launch_templates_of_another_cluster_may_be_neither_used_nor_deleted(
    policies: list[dict[str, Any]], tags: dict[str, str]
) -> None:
    template = f"{EC2}:launch-template/lt-1"

    for action in ("ec2:RunInstances", "ec2:CreateFleet", "ec2:DeleteLaunchTemplate"):
        assert not allows(policies, Request(action=action, resource=template, context=tags))
        assert allows(policies, Request(action=action, resource=template, context=OURS))


def test_a_launch_without_the_clusters_tags_is_denied(policies: list[dict[str, Any]]) -> None:
    for kind in ("instance", "volume", "network-interface", "fleet", "spot-instances-request"):
        launch = {"action": "ec2:CreateFleet", "resource": f"{EC2}:{kind}/x"}
        foreign = {key.replace("/dev", "/prod"): value for key, value in ASKED.items()}

        assert allows(policies, Request(**launch, context=ASKED))
        assert not allows(policies, Request(**launch))
        assert not allows(policies, Request(**launch, context=foreign))


def test_an_instance_cannot_be_tagged_into_another_cluster(policies: list[dict[str, Any]]) -> None:
    for keys in (["kubernetes.io/cluster/prod"], ["karpenter.sh/nodepool"], ["Name", "Owner"]):
        request = Request(
            action="ec2:CreateTags",
            resource=f"{EC2}:instance/i-1",
            context={**OURS, "aws:TagKeys": keys},
        )

        assert not allows(policies, request)


def test_only_the_nodes_role_may_be_passed_and_only_to_ec2(policies: list[dict[str, Any]]) -> None:
    role = "arn:aws:iam::123456789012:role/dev-node"
    to_ec2 = {"iam:PassedToService": "ec2.amazonaws.com"}

    assert allows(policies, Request(action="iam:PassRole", resource=role, context=to_ec2))
    admin = role.replace("dev-node", "admin")
    assert not allows(policies, Request(action="iam:PassRole", resource=admin, context=to_ec2))
    to_lambda = {"iam:PassedToService": "lambda.amazonaws.com"}
    assert not allows(policies, Request(action="iam:PassRole", resource=role, context=to_lambda))


def test_instance_profiles_of_another_cluster_may_not_be_touched(
    policies: list[dict[str, Any]],
) -> None:
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


def test_the_queue_of_another_cluster_may_not_be_read(policies: list[dict[str, Any]]) -> None:
    queue = "arn:aws:sqs:us-east-1:123456789012"

    assert allows(policies, Request(action="sqs:ReceiveMessage", resource=f"{queue}:dev"))
    assert not allows(policies, Request(action="sqs:ReceiveMessage", resource=f"{queue}:prod"))


def test_reading_is_allowed_in_its_own_region_only(policies: list[dict[str, Any]]) -> None:
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
def test_what_it_does_not_need_is_never_allowed(
    policies: list[dict[str, Any]], action: str
) -> None:
    everything = {**OURS, **ASKED, "aws:RequestedRegion": "us-east-1"}

    assert not allows(policies, Request(action=action, context=everything))
    assert not allows(
        policies, Request(action=action, resource=f"{EC2}:instance/i-1", context=everything)
    )


def test_the_controller_has_at_most_six_policies_each_below_iams_limit() -> None:
    longest = "c" * 52
    resources = wanted(a_cluster(name=longest, region="ap-southeast-5"))

    found = documents(resources, f"{longest}-dovetail-")

    assert 0 < len(found) <= 6
    # IAM counts characters without white space.
    assert max(len("".join(json.dumps(one).split())) for one in found) < 6144


@pytest.mark.parametrize("example", [one.stem for one in EXAMPLES])
def test_names_of_roles_and_policies_are_short_enough(example: str) -> None:
    resources = wanted(an_example(example))

    assert all(len(one.name) <= 64 for one in resources if one.kind == "iam-role")
    assert all(len(one.name) <= 128 for one in resources if one.kind == "iam-policy")


def test_a_service_account_of_another_namespace_cannot_take_the_controllers_role() -> None:
    resources = wanted(a_cluster(home="fargate"))

    role = next(one for one in resources if one.address == "iam-role/dev-dovetail")

    condition = role.properties["AssumeRolePolicyDocument"]["Statement"][0]["Condition"]
    assert condition["StringEquals"] == {
        "@{eks-cluster/dev:issuer}:aud": "sts.amazonaws.com",
        "@{eks-cluster/dev:issuer}:sub": "system:serviceaccount:kube-system:dovetail",
    }


def test_a_plan_for_an_empty_account_makes_everything_and_removes_nothing() -> None:
    resources = wanted(a_cluster())

    steps = plan(resources, Observed(account=ACCOUNT)).steps

    assert [one.address for one in steps] == [one.address for one in resources]
    assert {str(one.verb) for one in steps} == {"create"}
