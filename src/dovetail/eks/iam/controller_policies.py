"""Permissions of the controller: six policies, one per topic.

All writes are restricted to the tags of this cluster, in the request and on the
resource. So two clusters in one account cannot change each other's resources. The
controller sends these tags with every launch.
"""

from typing import Any, Final

from dovetail.eks.iam.documents import Document, Statement, allow, arn, document
from dovetail.eks.plan.references import aws_ref

_LAUNCHED: Final = (
    "fleet",
    "instance",
    "volume",
    "network-interface",
    "launch-template",
    "spot-instances-request",
)
_POOL: Final = "karpenter.sh/nodepool"
_CLASS: Final = "karpenter.k8s.aws/ec2nodeclass"
_CLUSTER: Final = "eks:eks-cluster-name"
_REGION: Final = "topology.kubernetes.io/region"
_READS: Final = (
    "AvailabilityZones",
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


def controller_policies(
    *, cluster: str, cluster_arn: str, node_role_arn: str, queue_arn: str | None
) -> dict[str, Document]:
    """Return the controller's policies, by a short name."""
    policies = {
        "NodeLifecycle": _node_lifecycle(cluster),
        "InstanceProfiles": _instance_profiles(cluster, node_role_arn),
        "Cluster": document(allow("AllowAPIServerEndpointDiscovery", ["eks:DescribeCluster"], [cluster_arn])),
        "ZonalShift": document(
            allow(
                "AllowZonalShiftStatusReadOnly",
                ["arc-zonal-shift:GetManagedResource"],
                ["*"],
                {"StringEquals": {"arc-zonal-shift:ResourceIdentifier": cluster_arn}},
            )
        ),
        "Discovery": _discovery(),
    }
    if queue_arn is not None:
        actions = ["sqs:DeleteMessage", "sqs:GetQueueUrl", "sqs:ReceiveMessage"]
        policies["Interruption"] = document(allow("AllowInterruptionQueueActions", actions, [queue_arn]))
    return policies


def _ec2(*kinds: str) -> list[str]:
    return [arn("ec2", f"{kind}/*", account="*") for kind in kinds]


def _on_resource(cluster: str) -> dict[str, Any]:
    return {
        "StringEquals": {f"aws:ResourceTag/kubernetes.io/cluster/{cluster}": "owned"},
        "StringLike": {f"aws:ResourceTag/{_POOL}": "*"},
    }


def _in_request(cluster: str) -> dict[str, Any]:
    return {
        "StringEquals": {
            f"aws:RequestTag/kubernetes.io/cluster/{cluster}": "owned",
            f"aws:RequestTag/{_CLUSTER}": cluster,
        },
        "StringLike": {f"aws:RequestTag/{_POOL}": "*"},
    }


def _node_lifecycle(cluster: str) -> Document:
    launching = ["ec2:RunInstances", "ec2:CreateFleet"]
    created = {"ec2:CreateAction": ["RunInstances", "CreateFleet", "CreateLaunchTemplate"]}
    in_request = _in_request(cluster)
    at_creation = {**in_request, "StringEquals": {**in_request["StringEquals"], **created}}
    afterwards = {
        **_on_resource(cluster),
        "StringEqualsIfExists": {f"aws:RequestTag/{_CLUSTER}": cluster},
        "ForAllValues:StringEquals": {"aws:TagKeys": [_CLUSTER, "karpenter.sh/nodeclaim", "Name"]},
    }
    return document(
        allow(
            "AllowScopedEC2InstanceAccessActions",
            launching,
            [
                arn("ec2", "image/*", account=""),
                arn("ec2", "snapshot/*", account=""),
                *_ec2("security-group", "subnet", "capacity-reservation", "placement-group"),
            ],
        ),
        allow(
            "AllowScopedEC2LaunchTemplateAccessActions",
            launching,
            _ec2("launch-template"),
            _on_resource(cluster),
        ),
        allow(
            "AllowScopedEC2InstanceActionsWithTags",
            [*launching, "ec2:CreateLaunchTemplate"],
            _ec2(*_LAUNCHED),
            in_request,
        ),
        allow("AllowScopedResourceCreationTagging", ["ec2:CreateTags"], _ec2(*_LAUNCHED), at_creation),
        allow("AllowScopedResourceTagging", ["ec2:CreateTags"], _ec2("instance"), afterwards),
        allow(
            "AllowScopedDeletion",
            ["ec2:TerminateInstances", "ec2:DeleteLaunchTemplate"],
            _ec2("instance", "launch-template"),
            _on_resource(cluster),
        ),
    )


def _profile_tags(where: str, cluster: str) -> dict[str, Any]:
    return {
        "StringEquals": {
            f"aws:{where}/kubernetes.io/cluster/{cluster}": "owned",
            f"aws:{where}/{_REGION}": aws_ref("region"),
        },
        "StringLike": {f"aws:{where}/{_CLASS}": "*"},
    }


def _merge_conditions(*conditions: dict[str, Any]) -> dict[str, Any]:
    merged: dict[str, Any] = {}
    for condition in conditions:
        for operator, tests in condition.items():
            merged.setdefault(operator, {}).update(tests)
    return merged


def _instance_profiles(cluster: str, node_role_arn: str) -> Document:
    profiles = [arn("iam", "instance-profile/*", region="")]
    request_tags = _merge_conditions(
        _profile_tags("RequestTag", cluster), {"StringEquals": {f"aws:RequestTag/{_CLUSTER}": cluster}}
    )
    there = _profile_tags("ResourceTag", cluster)
    return document(
        allow(
            "AllowPassingInstanceRole",
            ["iam:PassRole"],
            [node_role_arn],
            {"StringEquals": {"iam:PassedToService": ["ec2.amazonaws.com", "ec2.amazonaws.com.cn"]}},
        ),
        allow(
            "AllowScopedInstanceProfileCreationActions", ["iam:CreateInstanceProfile"], profiles, request_tags
        ),
        allow(
            "AllowScopedInstanceProfileTagActions",
            ["iam:TagInstanceProfile"],
            profiles,
            _merge_conditions(request_tags, there),
        ),
        allow(
            "AllowScopedInstanceProfileActions",
            [
                "iam:AddRoleToInstanceProfile",
                "iam:RemoveRoleFromInstanceProfile",
                "iam:DeleteInstanceProfile",
            ],
            profiles,
            there,
        ),
    )


def _discovery() -> Document:
    here: dict[str, Any] = {"StringEquals": {"aws:RequestedRegion": aws_ref("region")}}
    statements: list[Statement] = [
        allow("AllowRegionalReadActions", [f"ec2:Describe{what}" for what in _READS], ["*"], here),
        allow(
            "AllowSSMReadActions", ["ssm:GetParameter"], [arn("ssm", "parameter/aws/service/*", account="")]
        ),
        allow("AllowPricingReadActions", ["pricing:GetProducts"], ["*"]),
        allow("AllowUnscopedInstanceProfileListAction", ["iam:ListInstanceProfiles"], ["*"]),
        allow(
            "AllowInstanceProfileReadActions",
            ["iam:GetInstanceProfile"],
            [arn("iam", "instance-profile/*", region="")],
        ),
    ]
    return document(*statements)
