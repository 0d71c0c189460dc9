"""Every kind of resource, and who reaches it."""

from dovetail.infra.handling import Handler
from dovetail.infra.helm import Helm
from dovetail.infra.kinds.addon import Addons
from dovetail.infra.kinds.compute import FargateProfiles, NodeGroups
from dovetail.infra.kinds.ekscluster import Clusters
from dovetail.infra.kinds.endpoint import Endpoints
from dovetail.infra.kinds.entry import AccessEntries, PodIdentities
from dovetail.infra.kinds.helmrelease import HelmReleases
from dovetail.infra.kinds.iampolicy import Policies
from dovetail.infra.kinds.iamrole import Roles
from dovetail.infra.kinds.kubeobject import KubeObjects
from dovetail.infra.kinds.launchtemplate import LaunchTemplates
from dovetail.infra.kinds.loggroup import LogGroups
from dovetail.infra.kinds.nat import ElasticIps, NatGateways
from dovetail.infra.kinds.oidc import OidcProviders
from dovetail.infra.kinds.profile import InstanceProfiles
from dovetail.infra.kinds.queue import EventRules, QueuePolicies, Queues
from dovetail.infra.kinds.routing import Associations, Attachments, Routes, RouteTables
from dovetail.infra.kinds.securitygroup import SecurityGroupRules, SecurityGroups
from dovetail.infra.kinds.selection import ForeignTags, SubnetSelections
from dovetail.infra.kinds.vpc import InternetGateways, Subnets, Vpcs
from dovetail.infra.kubedoor import KubeDoor
from dovetail.infra.reach import Reach

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
