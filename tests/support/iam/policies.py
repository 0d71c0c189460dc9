"""Policies of the controller: those of ``dovetail cluster``, and Karpenter's."""

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import msgspec

from dovetail.eks.desired.desired_state import desired_state
from dovetail.eks.plan.references import resolve_references
from dovetail.eks.plan.resolver import resolve_reference
from dovetail.eks.plan.resource import Account, DesiredResource, ObservedState
from tests.support.eks.configs import ACCOUNT, a_cluster

Documents = list[dict[str, Any]]
_EC2_CREATED = (
    "fleet",
    "instance",
    "volume",
    "network-interface",
    "launch-template",
    "spot-instances-request",
)
_KARPENTER_READS = (
    "CapacityReservations",
    "Images",
    "InstanceStatus",
    "InstanceTypeOfferings",
    "InstanceTypes",
    "Instances",
    "LaunchTemplates",
    "PlacementGroups",
    "SecurityGroups",
    "SpotPriceHistory",
    "Subnets",
)


def policy_documents(
    resources: Sequence[DesiredResource], prefix: str, account: Account = ACCOUNT
) -> Documents:
    """Return the documents of policies whose names begin with a prefix."""
    by_address = {resource.address: resource for resource in resources}
    empty_account = ObservedState(account=account)
    return [
        resolve_references(
            resource.properties["PolicyDocument"],
            lambda reference: resolve_reference(reference, observed=empty_account, desired=by_address),
        )
        for resource in resources
        if resource.kind == "iam-policy" and resource.name.startswith(prefix)
    ]


@cache
def dovetail_policies(cluster: str, region: str) -> Documents:
    """Return the policies that ``dovetail cluster`` creates for the controller."""
    account = msgspec.structs.replace(ACCOUNT, region=region, partition=partition_of(region))
    return policy_documents(
        desired_state(a_cluster(name=cluster, iam={"prefix": cluster})), f"{cluster}-dovetail-", account
    )


def partition_of(region: str) -> str:
    """Return the partition of a region."""
    partitions = {"cn-": "aws-cn", "us-gov-": "aws-us-gov", "us-iso-": "aws-iso"}
    return next((name for prefix, name in partitions.items() if region.startswith(prefix)), "aws")


def karpenter_policies(cluster: str, region: str, *, role: str, account: str = "123456789012") -> Documents:
    """Return what the policies of Karpenter 1.14's CloudFormation template allow."""
    arn = f"arn:{partition_of(region)}"
    ec2 = [f"{arn}:ec2:{region}:*:{kind}/*" for kind in _EC2_CREATED]
    instance, template = ec2[1], ec2[4]
    used = [f"{arn}:ec2:{region}::{kind}/*" for kind in ("image", "snapshot")]
    used += [
        f"{arn}:ec2:{region}:*:{kind}/*"
        for kind in ("security-group", "subnet", "capacity-reservation", "placement-group")
    ]
    launch = ["ec2:RunInstances", "ec2:CreateFleet"]
    owned = f"kubernetes.io/cluster/{cluster}"
    profiles = f"{arn}:iam::{account}:instance-profile/*"
    cluster_arn = f"{arn}:eks:{region}:{account}:cluster/{cluster}"
    on_node = _condition("ResourceTag", {owned: "owned"}, "karpenter.sh/nodepool")
    for_node = _condition(
        "RequestTag", {owned: "owned", "eks:eks-cluster-name": cluster}, "karpenter.sh/nodepool"
    )
    created = {"ec2:CreateAction": ["RunInstances", "CreateFleet", "CreateLaunchTemplate"]}
    at_creation = {**for_node, "StringEquals": {**for_node["StringEquals"], **created}}
    later = {
        **on_node,
        "StringEqualsIfExists": {"aws:RequestTag/eks:eks-cluster-name": cluster},
        "ForAllValues:StringEquals": {
            "aws:TagKeys": ["eks:eks-cluster-name", "karpenter.sh/nodeclaim", "Name"]
        },
    }
    class_key, region_tag = "karpenter.k8s.aws/ec2nodeclass", {"topology.kubernetes.io/region": region}
    on_profile = _condition("ResourceTag", {owned: "owned", **region_tag}, class_key)
    named = {"eks:eks-cluster-name": cluster}
    for_profile = _condition("RequestTag", {owned: "owned", **named, **region_tag}, class_key)
    to_ec2 = {"StringEquals": {"iam:PassedToService": ["ec2.amazonaws.com", "ec2.amazonaws.com.cn"]}}
    statements = [
        _allow(launch, used),
        _allow(launch, template, on_node),
        _allow([*launch, "ec2:CreateLaunchTemplate"], ec2, for_node),
        _allow("ec2:CreateTags", ec2, at_creation),
        _allow("ec2:CreateTags", instance, later),
        _allow(["ec2:TerminateInstances", "ec2:DeleteLaunchTemplate"], [instance, template], on_node),
        _allow("iam:PassRole", f"{arn}:iam::{account}:role/{role}", to_ec2),
        _allow("iam:CreateInstanceProfile", profiles, for_profile),
        _allow(
            [f"iam:{verb}InstanceProfile" for verb in ("AddRoleTo", "RemoveRoleFrom", "Delete")],
            profiles,
            on_profile,
        ),
        _allow("eks:DescribeCluster", cluster_arn),
        _allow(
            [f"sqs:{verb}" for verb in ("DeleteMessage", "GetQueueUrl", "ReceiveMessage")],
            f"{arn}:sqs:{region}:{account}:{cluster}",
        ),
        _allow(
            "arc-zonal-shift:GetManagedResource",
            "*",
            {"StringEquals": {"arc-zonal-shift:ResourceIdentifier": cluster_arn}},
        ),
        _allow(
            [f"ec2:Describe{what}" for what in _KARPENTER_READS],
            "*",
            {"StringEquals": {"aws:RequestedRegion": region}},
        ),
        _allow("ssm:GetParameter", f"{arn}:ssm:{region}::parameter/aws/service/*"),
        _allow("pricing:GetProducts", "*"),
        _allow("iam:ListInstanceProfiles", "*"),
        _allow("iam:GetInstanceProfile", profiles),
    ]
    return [{"Version": "2012-10-17", "Statement": statements}]


def _allow(actions: Any, resources: Any, condition: Mapping[str, Any] | None = None) -> dict[str, Any]:
    return {"Effect": "Allow", "Action": actions, "Resource": resources, "Condition": condition or {}}


def _condition(where: str, equal: Mapping[str, str], any_value: str) -> dict[str, Any]:
    """Return a condition on tags: some with their value, one with any value."""
    return {
        "StringEquals": {f"aws:{where}/{key}": value for key, value in equal.items()},
        "StringLike": {f"aws:{where}/{any_value}": "*"},
    }
