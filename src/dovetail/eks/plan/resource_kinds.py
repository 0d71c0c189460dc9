"""What is known about each kind of resource, apart from how to reach it."""

from collections.abc import Mapping
from typing import Final

import msgspec

from dovetail.model.frozen import FrozenDict


class Attribute(msgspec.Struct, frozen=True):
    """How others refer to something that a resource only has once it exists."""

    cloudformation: str
    """An argument for ``Fn::GetAtt``; empty for what ``Ref`` gives."""
    terraform: str
    """An attribute of the Terraform resource or data source."""


class KindFacts(msgspec.Struct, frozen=True, kw_only=True):
    """One kind: its names elsewhere, its attributes, what cannot be changed in place."""

    name: str
    called: str
    """In a sentence: "security group"."""
    cloudformation: str = ""
    """The type there; empty where CloudFormation cannot make such a thing."""
    terraform: str = ""
    attributes: Mapping[str, Attribute] = FrozenDict()
    identity: str = ""
    """The property that holds our name; empty for what is found by tags or by what it joins."""
    fixed: frozenset[str] = frozenset()
    """Properties that cannot change: another value means another resource."""
    unordered: frozenset[str] = frozenset()
    """Properties whose lists are sets: two orders of the same members are equal."""
    json_text: frozenset[str] = frozenset()
    """Properties that are JSON written as text: compared by what they say."""
    exact: frozenset[str] = frozenset()
    """Properties that are wholly ours: a key that is there and not wanted has to go.

    ``*`` stands for all of them, and for properties that are not wanted at all.
    """
    moving: frozenset[str] = frozenset()
    """Attributes that are others after every change: a launch template's version."""
    tagged: bool = True
    """Whether it carries tags."""
    slow: int = 2
    """About how many seconds making it takes, for the progress bar."""


def _facts(
    name: str,
    called: str,
    types: tuple[str, str],
    *,
    attributes: Mapping[str, tuple[str, str]] = FrozenDict(),
    identity: str = "",
    fixed: str = "",
    unordered: str = "",
    json_text: str = "",
    exact: str = "",
    moving: str = "",
    tagged: bool = True,
    slow: int = 2,
) -> KindFacts:
    return KindFacts(
        name=name,
        called=called,
        cloudformation=types[0],
        terraform=types[1],
        attributes=FrozenDict({key: Attribute(*value) for key, value in attributes.items()}),
        identity=identity,
        fixed=frozenset(fixed.split()) | ({identity} if identity else frozenset()),
        unordered=frozenset(unordered.split()),
        json_text=frozenset(json_text.split()),
        exact=frozenset(exact.split()),
        moving=frozenset(moving.split()),
        tagged=tagged,
        slow=slow,
    )


_ID: Final = {"id": ("", "id")}

_NETWORK: Final = (
    _facts("vpc", "VPC", ("AWS::EC2::VPC", "aws_vpc"), attributes=_ID, fixed="CidrBlock"),
    _facts(
        "subnet",
        "subnet",
        ("AWS::EC2::Subnet", "aws_subnet"),
        attributes=_ID,
        fixed="VpcId CidrBlock AvailabilityZone",
    ),
    _facts(
        "internet-gateway",
        "internet gateway",
        ("AWS::EC2::InternetGateway", "aws_internet_gateway"),
        attributes=_ID,
    ),
    _facts(
        "internet-gateway-attachment",
        "attachment of the internet gateway",
        ("AWS::EC2::VPCGatewayAttachment", "aws_internet_gateway_attachment"),
        fixed="VpcId InternetGatewayId",
        tagged=False,
    ),
    _facts(
        "elastic-ip",
        "elastic IP address",
        ("AWS::EC2::EIP", "aws_eip"),
        attributes={"allocation-id": ("AllocationId", "id")},
        fixed="Domain",
    ),
    _facts(
        "nat-gateway",
        "NAT gateway",
        ("AWS::EC2::NatGateway", "aws_nat_gateway"),
        attributes=_ID,
        fixed="SubnetId AllocationId",
        slow=120,
    ),
    _facts(
        "route-table",
        "route table",
        ("AWS::EC2::RouteTable", "aws_route_table"),
        attributes=_ID,
        fixed="VpcId",
    ),
    _facts(
        "route",
        "route",
        ("AWS::EC2::Route", "aws_route"),
        fixed="RouteTableId DestinationCidrBlock",
        tagged=False,
    ),
    _facts(
        "route-table-association",
        "association of a route table",
        ("AWS::EC2::SubnetRouteTableAssociation", "aws_route_table_association"),
        fixed="SubnetId RouteTableId",
        tagged=False,
    ),
    _facts(
        "vpc-endpoint",
        "VPC endpoint",
        ("AWS::EC2::VPCEndpoint", "aws_vpc_endpoint"),
        attributes=_ID,
        fixed="VpcId ServiceName VpcEndpointType",
        unordered="SubnetIds SecurityGroupIds RouteTableIds",
        slow=60,
    ),
    _facts(
        "security-group",
        "security group",
        ("AWS::EC2::SecurityGroup", "aws_security_group"),
        attributes={"id": ("GroupId", "id")},
        identity="GroupName",
        fixed="GroupDescription VpcId",
        unordered="SecurityGroupEgress",
    ),
    _facts(
        "security-group-rule",
        "rule of a security group",
        ("AWS::EC2::SecurityGroupIngress", "aws_security_group_rule"),
        fixed="GroupId IpProtocol FromPort ToPort CidrIp SourceSecurityGroupId",
        tagged=False,
    ),
    # Only ever given. Properties: Ids, or Tags (a map), and VpcId if that is known.
    _facts(
        "subnet-selection",
        "subnets that were there before",
        ("", "aws_subnets"),
        attributes={"ids": ("", "ids"), "vpc-id": ("", "vpc_id")},
        tagged=False,
    ),
    # Tags on what was there before us. Properties: ResourceIds, Tags (a map).
    _facts(
        "ec2-tags",
        "tags on what was there before",
        ("", "aws_ec2_tag"),
        unordered="ResourceIds",
        tagged=False,
    ),
    _facts(
        "launch-template",
        "launch template",
        ("AWS::EC2::LaunchTemplate", "aws_launch_template"),
        attributes={
            "id": ("", "id"),
            "version": ("LatestVersionNumber", "latest_version"),
        },
        identity="LaunchTemplateName",
        moving="version",
    ),
)

_IDENTITY: Final = (
    _facts(
        "iam-policy",
        "IAM policy",
        ("AWS::IAM::ManagedPolicy", "aws_iam_policy"),
        attributes={"arn": ("PolicyArn", "arn")},
        identity="ManagedPolicyName",
        fixed="Path Description",
        unordered="Roles",
    ),
    _facts(
        "iam-role",
        "IAM role",
        ("AWS::IAM::Role", "aws_iam_role"),
        attributes={"arn": ("Arn", "arn"), "name": ("", "name")},
        identity="RoleName",
        fixed="Path",
        unordered="ManagedPolicyArns",
        slow=10,
    ),
    _facts(
        "instance-profile",
        "instance profile",
        ("AWS::IAM::InstanceProfile", "aws_iam_instance_profile"),
        attributes={"arn": ("Arn", "arn"), "name": ("", "name")},
        identity="InstanceProfileName",
        fixed="Path",
    ),
    _facts(
        "oidc-provider",
        "OIDC provider",
        ("AWS::IAM::OIDCProvider", "aws_iam_openid_connect_provider"),
        attributes={"arn": ("Arn", "arn")},
        fixed="Url",
        unordered="ClientIdList",
    ),
)

_EKS: Final = (
    _facts(
        "eks-cluster",
        "EKS cluster",
        ("AWS::EKS::Cluster", "aws_eks_cluster"),
        attributes={
            "name": ("", "name"),
            "arn": ("Arn", "arn"),
            "endpoint": ("Endpoint", "endpoint"),
            "certificate-authority": (
                "CertificateAuthorityData",
                "certificate_authority[0].data",
            ),
            # With https:// in front; ``issuer`` is the same without it.
            "issuer-url": ("OpenIdConnectIssuerUrl", "identity[0].oidc[0].issuer"),
            "issuer": ("OpenIdConnectIssuerUrl", "identity[0].oidc[0].issuer"),
            "security-group": (
                "ClusterSecurityGroupId",
                "vpc_config[0].cluster_security_group_id",
            ),
        },
        identity="Name",
        # The lists of subnets and zones inside may change, within the same VPC.
        fixed="RoleArn KubernetesNetworkConfig EncryptionConfig",
        unordered="SubnetIds SecurityGroupIds PublicAccessCidrs EnabledTypes",
        slow=600,
    ),
    _facts(
        "eks-node-group",
        "managed node group",
        ("AWS::EKS::Nodegroup", "aws_eks_node_group"),
        attributes={"arn": ("Arn", "arn")},
        identity="NodegroupName",
        fixed="ClusterName NodeRole Subnets InstanceTypes CapacityType AmiType",
        unordered="Subnets InstanceTypes Taints",
        exact="Labels",
        slow=180,
    ),
    _facts(
        "eks-fargate-profile",
        "Fargate profile",
        ("AWS::EKS::FargateProfile", "aws_eks_fargate_profile"),
        attributes={"arn": ("Arn", "arn")},
        identity="FargateProfileName",
        fixed="ClusterName PodExecutionRoleArn Subnets Selectors",
        unordered="Subnets Selectors",
        slow=120,
    ),
    _facts(
        "eks-addon",
        "EKS add-on",
        ("AWS::EKS::Addon", "aws_eks_addon"),
        attributes={"arn": ("Arn", "arn")},
        identity="AddonName",
        fixed="ClusterName",
        json_text="ConfigurationValues",
        slow=60,
    ),
    _facts(
        "eks-access-entry",
        "access entry",
        ("AWS::EKS::AccessEntry", "aws_eks_access_entry"),
        attributes={"arn": ("AccessEntryArn", "access_entry_arn")},
        # AccessPolicies is a list of {PolicyArn, AccessScope: {Type, Namespaces}}.
        fixed="ClusterName PrincipalArn Type",
        unordered="KubernetesGroups AccessPolicies",
    ),
    _facts(
        "pod-identity-association",
        "Pod Identity association",
        ("AWS::EKS::PodIdentityAssociation", "aws_eks_pod_identity_association"),
        attributes={"arn": ("AssociationArn", "association_arn")},
        fixed="ClusterName Namespace ServiceAccount",
    ),
)

_AROUND: Final = (
    _facts(
        "sqs-queue",
        "SQS queue",
        ("AWS::SQS::Queue", "aws_sqs_queue"),
        attributes={
            "arn": ("Arn", "arn"),
            "name": ("QueueName", "name"),
            "url": ("", "url"),
        },
        identity="QueueName",
    ),
    _facts(
        "sqs-queue-policy",
        "policy of the SQS queue",
        ("AWS::SQS::QueuePolicy", "aws_sqs_queue_policy"),
        fixed="Queues",
        tagged=False,
    ),
    _facts(
        "event-rule",
        "EventBridge rule",
        ("AWS::Events::Rule", "aws_cloudwatch_event_rule"),
        attributes={"arn": ("Arn", "arn")},
        identity="Name",
    ),
    _facts(
        "log-group",
        "log group",
        ("AWS::Logs::LogGroup", "aws_cloudwatch_log_group"),
        attributes={"arn": ("Arn", "arn")},
        identity="LogGroupName",
    ),
)

_KUBERNETES: Final = (
    # Name: "namespace/release". Properties: chart (a path or oci:// address, or a name in
    # ``repository``), repository, version, namespace, createNamespace, values.
    _facts(
        "helm-release",
        "Helm release",
        ("", "helm_release"),
        exact="values",
        tagged=False,
        slow=45,
    ),
    # Name: "Kind/name" or "Kind/namespace/name". Properties: the manifest itself; what is there
    # is seen through what is wanted (see ``kubernetes.objects``).
    _facts("kubernetes-object", "Kubernetes object", ("", ""), exact="*", tagged=False),
)

KINDS: Final[Mapping[str, KindFacts]] = FrozenDict(
    {one.name: one for one in (*_NETWORK, *_IDENTITY, *_EKS, *_AROUND, *_KUBERNETES)}
)
"""Every kind, in the order in which things that we know nothing else of are made."""
