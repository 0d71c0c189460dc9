"""Registry: the handler of every resource kind."""

from dovetail.eks.aws_client import AwsClient
from dovetail.eks.kubernetes.api import ApiAccess
from dovetail.eks.kubernetes.helm import Helm
from dovetail.eks.resources.ec2.existing_subnets import Ec2TagsHandler, SubnetSelectionHandler
from dovetail.eks.resources.ec2.ipv6 import EgressOnlyGatewayHandler, VpcIpv6BlockHandler
from dovetail.eks.resources.ec2.launch_templates import LaunchTemplateHandler
from dovetail.eks.resources.ec2.routes import (
    InternetGatewayAttachmentHandler,
    RouteHandler,
    RouteTableAssociationHandler,
    RouteTableHandler,
)
from dovetail.eks.resources.ec2.security_groups import SecurityGroupHandler, SecurityGroupRuleHandler
from dovetail.eks.resources.ec2.vpc import (
    ElasticIpHandler,
    InternetGatewayHandler,
    NatGatewayHandler,
    SubnetHandler,
    VpcEndpointHandler,
    VpcHandler,
)
from dovetail.eks.resources.eks.access import AccessEntryHandler, PodIdentityAssociationHandler
from dovetail.eks.resources.eks.clusters import AddonHandler, ClusterHandler
from dovetail.eks.resources.eks.node_groups import FargateProfileHandler, NodeGroupHandler
from dovetail.eks.resources.handler import Handler
from dovetail.eks.resources.iam import (
    InstanceProfileHandler,
    OidcProviderHandler,
    PolicyHandler,
    RoleHandler,
    ServiceLinkedRoleHandler,
)
from dovetail.eks.resources.interruption_queue import EventRuleHandler, QueueHandler, QueuePolicyHandler
from dovetail.eks.resources.kms import KmsAliasHandler, KmsKeyHandler
from dovetail.eks.resources.kubernetes.helm import HelmReleaseHandler
from dovetail.eks.resources.kubernetes.objects import KubernetesObjectHandler
from dovetail.eks.resources.log_groups import LogGroupHandler

INDEPENDENT = (
    VpcHandler,
    SubnetHandler,
    EgressOnlyGatewayHandler,
    InternetGatewayHandler,
    ElasticIpHandler,
    NatGatewayHandler,
    RouteTableHandler,
    VpcEndpointHandler,
    SecurityGroupHandler,
    SubnetSelectionHandler,
    LaunchTemplateHandler,
    RoleHandler,
    PolicyHandler,
    InstanceProfileHandler,
    ServiceLinkedRoleHandler,
    KmsKeyHandler,
    KmsAliasHandler,
    ClusterHandler,
    NodeGroupHandler,
    FargateProfileHandler,
    AddonHandler,
    QueueHandler,
    EventRuleHandler,
    LogGroupHandler,
)
"""Found by name or tag: observed first."""
DEPENDENT = (
    VpcIpv6BlockHandler,
    RouteHandler,
    InternetGatewayAttachmentHandler,
    RouteTableAssociationHandler,
    SecurityGroupRuleHandler,
    Ec2TagsHandler,
    OidcProviderHandler,
    AccessEntryHandler,
    PodIdentityAssociationHandler,
    QueuePolicyHandler,
)
"""Identified by the resources that they join: observed once those are known."""


def handlers(aws: AwsClient, api_access: ApiAccess, helm: Helm) -> tuple[list[Handler], list[Handler]]:
    """Return a handler for every kind, in two groups: observed first, and second."""
    first: list[Handler] = [handler_class(aws) for handler_class in INDEPENDENT]
    second: list[Handler] = [handler_class(aws) for handler_class in DEPENDENT]
    second += [KubernetesObjectHandler(aws, api_access), HelmReleaseHandler(aws, api_access, helm)]
    return first, second
