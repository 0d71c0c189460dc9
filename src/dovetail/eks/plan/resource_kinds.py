"""Resource kinds: names, attributes and comparison rules of each.

Handlers for these kinds are in ``resources``.
"""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from dovetail.model.frozen import FrozenDict

FAILED_VALUE: Final = "(creation failed)"
"""Value of an immutable property of a failed resource: it forces a replacement."""


class Attribute(msgspec.Struct, frozen=True):
    """A value of an existing resource that others refer to."""

    cloudformation: str
    """Argument of ``Fn::GetAtt``; empty if ``Ref`` returns the value."""
    terraform: str
    """Attribute of the Terraform resource or data source."""


class ResourceKind(msgspec.Struct, frozen=True, kw_only=True):
    """One resource kind."""

    name: str
    display_name: str
    """Name in messages: "security group"."""
    cloudformation: str = ""
    """CloudFormation type; empty if there is none."""
    terraform: str = ""
    """Terraform type; empty if there is none."""
    attributes: Mapping[str, Attribute] = FrozenDict()
    name_property: str = ""
    """Property with our name; empty if found by tags or by the resources it joins."""
    immutable: frozenset[str] = frozenset()
    """Properties that cannot be updated: a change replaces the resource."""
    unordered: frozenset[str] = frozenset()
    """Properties whose lists are sets: their order does not matter."""
    json_text: frozenset[str] = frozenset()
    """Properties that are JSON text: compared after parsing."""
    fully_managed: frozenset[str] = frozenset()
    """Properties without foreign keys: keys that are not desired are removed.

    ``*`` stands for all properties, also those that are not desired.
    """
    defaults: Mapping[str, Any] = FrozenDict()
    """Values of properties that are absent: those that a removed property goes back to."""
    volatile: frozenset[str] = frozenset()
    """Attributes that every update changes: a launch template's version."""
    taggable: bool = True
    """True if it can have tags."""
    shared: bool = False
    """True if it belongs to the account: created if absent, never deleted."""
    create_seconds: int = 2
    """Typical duration of a creation in seconds."""
    update_seconds: Mapping[str, int] = FrozenDict()
    """Typical duration of an update in seconds, by property, for those that take long."""
    rolling: frozenset[str] = frozenset()
    """Properties whose update replaces nodes: it takes its time once per batch of nodes."""


def _kind(
    name: str,
    display_name: str,
    types: tuple[str, str],
    *,
    attributes: Mapping[str, tuple[str, str]] = FrozenDict(),
    name_property: str = "",
    immutable: str = "",
    taggable: bool = True,
    shared: bool = False,
    create_seconds: int = 2,
    update_seconds: Mapping[str, int] = FrozenDict(),
    defaults: Mapping[str, Any] = FrozenDict(),
    **sets: str,
) -> ResourceKind:
    """Return a kind; ``immutable`` and the other ``sets`` are names separated by spaces."""
    return ResourceKind(
        name=name,
        display_name=display_name,
        cloudformation=types[0],
        terraform=types[1],
        attributes=FrozenDict({key: Attribute(*value) for key, value in attributes.items()}),
        name_property=name_property,
        immutable=frozenset(immutable.split()) | ({name_property} if name_property else frozenset()),
        taggable=taggable,
        shared=shared,
        create_seconds=create_seconds,
        update_seconds=FrozenDict(update_seconds),
        defaults=FrozenDict(defaults),
        **{field: frozenset(names.split()) for field, names in sets.items()},
    )


_ID: Final = {"id": ("", "id")}
IPV6_SUBNET_NUMBERS: Final = (*range(26), *range(128, 154))
"""Numbers of /64 blocks for subnets: private by the zone's letter, public from 128."""

_NETWORK: Final = (
    _kind("vpc", "VPC", ("AWS::EC2::VPC", "aws_vpc"), attributes=_ID, immutable="CidrBlock"),
    _kind(
        "subnet",
        "subnet",
        ("AWS::EC2::Subnet", "aws_subnet"),
        attributes=_ID,
        immutable="VpcId CidrBlock AvailabilityZone Ipv6CidrBlock",
    ),
    _kind(
        "vpc-ipv6-block",
        "IPv6 block of the VPC",
        ("AWS::EC2::VPCCidrBlock", "aws_vpc_ipv6_cidr_block_association"),
        # ``render`` computes them from the VPC's block.
        attributes={f"subnet-{number}": ("", "ipv6_cidr_block") for number in IPV6_SUBNET_NUMBERS},
        immutable="VpcId",
        taggable=False,
        create_seconds=10,
    ),
    _kind(
        "egress-only-gateway",
        "egress-only internet gateway",
        ("AWS::EC2::EgressOnlyInternetGateway", "aws_egress_only_internet_gateway"),
        attributes=_ID,
        immutable="VpcId",
    ),
    _kind(
        "internet-gateway",
        "internet gateway",
        ("AWS::EC2::InternetGateway", "aws_internet_gateway"),
        attributes=_ID,
    ),
    _kind(
        "internet-gateway-attachment",
        "internet gateway attachment",
        ("AWS::EC2::VPCGatewayAttachment", "aws_internet_gateway_attachment"),
        immutable="VpcId InternetGatewayId",
        taggable=False,
    ),
    _kind(
        "elastic-ip",
        "elastic IP address",
        ("AWS::EC2::EIP", "aws_eip"),
        attributes={"allocation-id": ("AllocationId", "id")},
        immutable="Domain",
    ),
    _kind(
        "nat-gateway",
        "NAT gateway",
        ("AWS::EC2::NatGateway", "aws_nat_gateway"),
        attributes=_ID,
        immutable="SubnetId AllocationId",
        create_seconds=120,
    ),
    _kind(
        "route-table",
        "route table",
        ("AWS::EC2::RouteTable", "aws_route_table"),
        attributes=_ID,
        immutable="VpcId",
    ),
    _kind(
        "route",
        "route",
        ("AWS::EC2::Route", "aws_route"),
        immutable="RouteTableId DestinationCidrBlock DestinationIpv6CidrBlock",
        taggable=False,
    ),
    _kind(
        "route-table-association",
        "route table association",
        ("AWS::EC2::SubnetRouteTableAssociation", "aws_route_table_association"),
        immutable="SubnetId RouteTableId",
        taggable=False,
    ),
    _kind(
        "security-group",
        "security group",
        ("AWS::EC2::SecurityGroup", "aws_security_group"),
        attributes={"id": ("GroupId", "id")},
        name_property="GroupName",
        immutable="GroupDescription VpcId",
        unordered="SecurityGroupEgress",
    ),
    _kind(
        "security-group-rule",
        "security group rule",
        ("AWS::EC2::SecurityGroupIngress", "aws_security_group_rule"),
        immutable="GroupId IpProtocol FromPort ToPort CidrIp SourceSecurityGroupId",
        taggable=False,
    ),
    _kind(
        "vpc-endpoint",
        "VPC endpoint",
        ("AWS::EC2::VPCEndpoint", "aws_vpc_endpoint"),
        attributes=_ID,
        immutable="VpcId ServiceName VpcEndpointType",
        unordered="SubnetIds SecurityGroupIds RouteTableIds",
        create_seconds=60,
    ),
    # Always external. Properties: Ids, or Tags (a map), and VpcId if it is known.
    _kind(
        "subnet-selection",
        "existing subnets",
        ("", "aws_subnets"),
        attributes={"ids": ("", "ids"), "vpc-id": ("", "vpc_id")},
        taggable=False,
    ),
    # Tags on external resources. Properties: ResourceIds, Tags (a map).
    _kind(
        "ec2-tags", "tags on existing resources", ("", "aws_ec2_tag"), unordered="ResourceIds", taggable=False
    ),
    _kind(
        "launch-template",
        "launch template",
        ("AWS::EC2::LaunchTemplate", "aws_launch_template"),
        attributes={"id": ("", "id"), "version": ("LatestVersionNumber", "latest_version")},
        name_property="LaunchTemplateName",
        unordered="SecurityGroupIds",
        volatile="version",
    ),
)

_IDENTITY: Final = (
    _kind(
        "iam-policy",
        "IAM policy",
        ("AWS::IAM::ManagedPolicy", "aws_iam_policy"),
        attributes={"arn": ("PolicyArn", "arn")},
        name_property="ManagedPolicyName",
        immutable="Path Description",
        unordered="Roles",
    ),
    _kind(
        "iam-role",
        "IAM role",
        ("AWS::IAM::Role", "aws_iam_role"),
        attributes={"arn": ("Arn", "arn"), "name": ("", "name")},
        name_property="RoleName",
        immutable="Path",
        unordered="ManagedPolicyArns",
        defaults={"PermissionsBoundary": ""},
        create_seconds=10,
    ),
    _kind(
        "instance-profile",
        "instance profile",
        ("AWS::IAM::InstanceProfile", "aws_iam_instance_profile"),
        attributes={"arn": ("Arn", "arn"), "name": ("", "name")},
        name_property="InstanceProfileName",
        immutable="Path",
    ),
    _kind(
        "oidc-provider",
        "OIDC provider",
        ("AWS::IAM::OIDCProvider", "aws_iam_openid_connect_provider"),
        attributes={"arn": ("Arn", "arn")},
        immutable="Url",
        unordered="ClientIdList",
    ),
)

_ACCOUNT: Final = (
    # Templates fail if it exists, so renderings create it in install.sh.
    _kind("service-linked-role", "service-linked role", ("", ""), taggable=False, shared=True),
)

_ENCRYPTION: Final = (
    _kind(
        "kms-key",
        "KMS key",
        ("AWS::KMS::Key", "aws_kms_key"),
        attributes={"arn": ("Arn", "arn"), "id": ("", "key_id")},
    ),
    _kind(
        "kms-alias",
        "KMS alias",
        ("AWS::KMS::Alias", "aws_kms_alias"),
        name_property="AliasName",
        taggable=False,
    ),
)

_EKS: Final = (
    _kind(
        "eks-cluster",
        "EKS cluster",
        ("AWS::EKS::Cluster", "aws_eks_cluster"),
        attributes={
            "name": ("", "name"),
            "arn": ("Arn", "arn"),
            "endpoint": ("Endpoint", "endpoint"),
            "certificate-authority": ("CertificateAuthorityData", "certificate_authority[0].data"),
            # With https://; ``issuer`` is the same without it.
            "issuer-url": ("OpenIdConnectIssuerUrl", "identity[0].oidc[0].issuer"),
            "issuer": ("OpenIdConnectIssuerUrl", "identity[0].oidc[0].issuer"),
            "security-group": ("ClusterSecurityGroupId", "vpc_config[0].cluster_security_group_id"),
        },
        name_property="Name",
        # Subnets and zones can change, within the same VPC.
        immutable="RoleArn KubernetesNetworkConfig",
        unordered="SubnetIds SecurityGroupIds PublicAccessCidrs EnabledTypes",
        defaults={
            "KubernetesNetworkConfig": {"IpFamily": "ipv4"},
            "UpgradePolicy": {"SupportType": "EXTENDED"},
        },
        create_seconds=600,
        update_seconds={"Version": 600, "ResourcesVpcConfig": 300, "Logging": 120, "AccessConfig": 60},
    ),
    _kind(
        "eks-node-group",
        "managed node group",
        ("AWS::EKS::Nodegroup", "aws_eks_node_group"),
        attributes={"arn": ("Arn", "arn")},
        name_property="NodegroupName",
        immutable="ClusterName NodeRole Subnets InstanceTypes CapacityType AmiType DiskSize",
        unordered="Subnets InstanceTypes Taints",
        fully_managed="Labels",
        defaults={"UpdateConfig": {"MaxUnavailable": 1}},
        create_seconds=180,
        update_seconds={"Version": 300, "LaunchTemplate": 300, "ScalingConfig": 60},
        rolling="Version LaunchTemplate",
    ),
    _kind(
        "eks-fargate-profile",
        "Fargate profile",
        ("AWS::EKS::FargateProfile", "aws_eks_fargate_profile"),
        attributes={"arn": ("Arn", "arn")},
        name_property="FargateProfileName",
        immutable="ClusterName PodExecutionRoleArn Subnets Selectors",
        unordered="Subnets Selectors",
        create_seconds=120,
    ),
    _kind(
        "eks-addon",
        "EKS add-on",
        ("AWS::EKS::Addon", "aws_eks_addon"),
        attributes={"arn": ("Arn", "arn")},
        name_property="AddonName",
        immutable="ClusterName",
        json_text="ConfigurationValues",
        fully_managed="ConfigurationValues",
        defaults={"ConfigurationValues": "{}", "ServiceAccountRoleArn": ""},
        create_seconds=60,
        update_seconds={"AddonVersion": 60, "ConfigurationValues": 60},
    ),
    _kind(
        "eks-access-entry",
        "access entry",
        ("AWS::EKS::AccessEntry", "aws_eks_access_entry"),
        attributes={"arn": ("AccessEntryArn", "access_entry_arn")},
        # AccessPolicies is a list of {PolicyArn, AccessScope: {Type, Namespaces}}.
        immutable="ClusterName PrincipalArn Type",
        unordered="KubernetesGroups AccessPolicies",
        defaults={"KubernetesGroups": [], "Username": "", "AccessPolicies": []},
    ),
    _kind(
        "pod-identity-association",
        "Pod Identity association",
        ("AWS::EKS::PodIdentityAssociation", "aws_eks_pod_identity_association"),
        attributes={"arn": ("AssociationArn", "association_arn")},
        immutable="ClusterName Namespace ServiceAccount",
    ),
)

_EVENTS_AND_LOGS: Final = (
    _kind(
        "sqs-queue",
        "SQS queue",
        ("AWS::SQS::Queue", "aws_sqs_queue"),
        attributes={"arn": ("Arn", "arn"), "name": ("QueueName", "name"), "url": ("", "url")},
        name_property="QueueName",
    ),
    _kind(
        "sqs-queue-policy",
        "SQS queue policy",
        ("AWS::SQS::QueuePolicy", "aws_sqs_queue_policy"),
        immutable="Queues",
        taggable=False,
    ),
    _kind(
        "event-rule",
        "EventBridge rule",
        ("AWS::Events::Rule", "aws_cloudwatch_event_rule"),
        attributes={"arn": ("Arn", "arn")},
        name_property="Name",
    ),
    _kind(
        "log-group",
        "log group",
        ("AWS::Logs::LogGroup", "aws_cloudwatch_log_group"),
        attributes={"arn": ("Arn", "arn")},
        name_property="LogGroupName",
    ),
)

_KUBERNETES: Final = (
    # Name: "namespace/release". Properties: chart (a path or oci:// address, or a name in
    # ``repository``), repository, version, namespace, createNamespace, values.
    _kind(
        "helm-release",
        "Helm release",
        ("", "helm_release"),
        fully_managed="values",
        taggable=False,
        create_seconds=45,
        update_seconds={"chart": 45, "version": 45, "values": 45},
    ),
    # Name: "Kind/name" or "Kind/namespace/name". Properties: the manifest; the live object is
    # reduced to the desired fields (see ``resources.kubernetes.objects``).
    _kind("kubernetes-object", "Kubernetes object", ("", ""), fully_managed="*", taggable=False),
)

KINDS: Final[Mapping[str, ResourceKind]] = FrozenDict(
    {
        kind.name: kind
        for kind in (*_NETWORK, *_IDENTITY, *_ACCOUNT, *_ENCRYPTION, *_EKS, *_EVENTS_AND_LOGS, *_KUBERNETES)
    }
)
"""Every kind, in creation order for resources without known dependencies."""
DELETED_WITH_CLUSTER: Final = frozenset(
    {"eks-addon", "eks-access-entry", "pod-identity-association", "helm-release", "kubernetes-object"}
)
"""Kinds that are deleted together with their EKS cluster."""
BLOCK_CLUSTER_DELETION: Final = frozenset({"eks-node-group", "eks-fargate-profile"})
"""Kinds that must be deleted before their EKS cluster."""
GLOBAL_KINDS: Final = frozenset(kind.name for kind in _IDENTITY)
"""Kinds that exist once per account, not once per region."""
