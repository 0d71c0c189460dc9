"""Every kind of resource, and who reaches it."""

from dovetail.eks.aws_client import Reach
from dovetail.eks.kubernetes.api import KubeDoor
from dovetail.eks.kubernetes.helm import Helm
from dovetail.eks.resources.eks.access import AccessEntries, PodIdentities
from dovetail.eks.resources.eks.addons import Addons
from dovetail.eks.resources.eks.clusters import Clusters
from dovetail.eks.resources.eks.node_groups import FargateProfiles, NodeGroups
from dovetail.eks.resources.handler import Handler
from dovetail.eks.resources.iam.instance_profiles import InstanceProfiles
from dovetail.eks.resources.iam.oidc_providers import OidcProviders
from dovetail.eks.resources.iam.policies import Policies
from dovetail.eks.resources.iam.roles import Roles
from dovetail.eks.resources.interruption_queue import EventRules, QueuePolicies, Queues
from dovetail.eks.resources.kubernetes.helm_releases import HelmReleases
from dovetail.eks.resources.kubernetes.objects import KubeObjects
from dovetail.eks.resources.log_groups import LogGroups
from dovetail.eks.resources.network.existing_subnets import ForeignTags, SubnetSelections
from dovetail.eks.resources.network.launch_templates import LaunchTemplates
from dovetail.eks.resources.network.nat import ElasticIps, NatGateways
from dovetail.eks.resources.network.routes import Associations, Attachments, Routes, RouteTables
from dovetail.eks.resources.network.security_groups import SecurityGroupRules, SecurityGroups
from dovetail.eks.resources.network.vpc_endpoints import Endpoints
from dovetail.eks.resources.network.vpcs import InternetGateways, Subnets, Vpcs

FOUND_ALONE = (
    Vpcs,
    Subnets,
    InternetGateways,
    ElasticIps,
    NatGateways,
    RouteTables,
    Endpoints,
    SecurityGroups,
    SubnetSelections,
    LaunchTemplates,
    Roles,
    Policies,
    InstanceProfiles,
    Clusters,
    NodeGroups,
    FargateProfiles,
    Addons,
    Queues,
    EventRules,
    LogGroups,
)
"""Found by name or tag: can be looked for before anything else is known."""
JOINING = (
    Routes,
    Attachments,
    Associations,
    SecurityGroupRules,
    ForeignTags,
    OidcProviders,
    AccessEntries,
    PodIdentities,
    QueuePolicies,
)
"""Known by what they join: looked for once that has been found."""


def handlers(reach: Reach, door: KubeDoor, helm: Helm) -> tuple[list[Handler], list[Handler]]:
    """Return a handler for every kind: those to look with first, and those after them."""
    first: list[Handler] = [make(reach) for make in FOUND_ALONE]
    then: list[Handler] = [make(reach) for make in JOINING]
    then += [KubeObjects(reach, door), HelmReleases(reach, door, helm)]
    return first, then
