"""Node groups: what created a node, and under which name, read from its labels."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

import msgspec

from dovetail.model import labels as label_keys

COMPUTE_TYPE: Final = "eks.amazonaws.com/compute-type"
MANAGED_NODE_GROUP: Final = "eks.amazonaws.com/nodegroup"
FARGATE_PROFILE: Final = "eks.amazonaws.com/fargate-profile"
EKSCTL_NODE_GROUP: Final = "alpha.eksctl.io/nodegroup-name"
EKSCTL_CLUSTER: Final = "alpha.eksctl.io/cluster-name"
_KOPS_GROUP: Final = "kops.k8s.io/instancegroup"
_GKE_POOL: Final = "cloud.google.com/gke-nodepool"
_AKS_POOL: Final = "kubernetes.azure.com/agentpool"
_OLD_POOL: Final = "karpenter.sh/provisioner-name"
_GROUP_NAMES: Final = ("node.kubernetes.io/node-group", "node-group", "nodegroup", "asg", "worker-group")
"""Labels that users and Terraform modules give to the nodes of an Auto Scaling group."""
_EKS_AUTO_MODE: Final = "eks.amazonaws.com/nodeclass"


class GroupKind(StrEnum):
    """The component that creates and removes the nodes of a group."""

    NODEPOOL = "NodePool"
    MANAGED = "managed node group"
    EKSCTL = "eksctl node group"
    KOPS = "kops instance group"
    AUTO_SCALING = "Auto Scaling group"
    FARGATE = "Fargate"
    AUTO_MODE = "EKS Auto Mode"
    HYBRID = "EKS Hybrid Nodes"
    GKE = "GKE"
    AKS = "AKS"
    OTHER = "other"


ADOPTABLE: Final = frozenset(
    (GroupKind.MANAGED, GroupKind.EKSCTL, GroupKind.KOPS, GroupKind.AUTO_SCALING, GroupKind.OTHER)
)
"""Groups of EC2 instances that NodePools could replace."""
_CONTROL_PLANE: Final = ("node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master")

_OTHER_CLOUDS: Final = (GroupKind.GKE, GroupKind.AKS)
_AWS_PROVIDERS: Final = ("aws", "eks-hybrid")


class NodeGroup(msgspec.Struct, frozen=True, order=True):
    """A group of nodes."""

    kind: GroupKind
    name: str = ""

    def __str__(self) -> str:
        return f"{self.kind} {self.name}" if self.name else str(self.kind)


def find_node_group(labels: Mapping[str, str], provider_id: str = "") -> NodeGroup:
    """Return the group of a node; of several labels the most specific one counts."""
    compute = labels.get(COMPUTE_TYPE, "")
    pool = labels.get(label_keys.NODEPOOL, "")
    if compute == "auto" or _EKS_AUTO_MODE in labels:
        return NodeGroup(GroupKind.AUTO_MODE, pool)
    if compute == "fargate" or "/fargate-" in provider_id:
        return NodeGroup(GroupKind.FARGATE, labels.get(FARGATE_PROFILE, ""))
    if compute == "hybrid" or provider_id.startswith("eks-hybrid:"):
        return NodeGroup(GroupKind.HYBRID)
    if pool or labels.get(_OLD_POOL):
        return NodeGroup(GroupKind.NODEPOOL, pool or labels[_OLD_POOL])
    for kind, key in (
        (GroupKind.MANAGED, MANAGED_NODE_GROUP),
        (GroupKind.EKSCTL, EKSCTL_NODE_GROUP),
        (GroupKind.KOPS, _KOPS_GROUP),
        (GroupKind.GKE, _GKE_POOL),
        (GroupKind.AKS, _AKS_POOL),
        *((GroupKind.AUTO_SCALING, key) for key in _GROUP_NAMES),
    ):
        if labels.get(key):
            return NodeGroup(kind, labels[key])
    if provider_id.startswith("gce:"):
        return NodeGroup(GroupKind.GKE)
    if provider_id.startswith("azure:"):
        return NodeGroup(GroupKind.AKS)
    return NodeGroup(GroupKind.OTHER)


def is_adoptable(labels: Mapping[str, str], group: NodeGroup) -> bool:
    """Return True if a NodePool could replace a node, or does if it is the node's group."""
    if any(key in labels for key in _CONTROL_PLANE):
        return False
    return group.kind in ADOPTABLE or group.kind is GroupKind.NODEPOOL


def find_other_cloud(labels: Mapping[str, str], provider_id: str) -> str:
    """Return the other cloud that a node is of, such as ``GKE``; empty for a node of AWS."""
    kind = find_node_group(labels, provider_id).kind
    if kind in _OTHER_CLOUDS:
        return str(kind)
    scheme, separator, _ = provider_id.partition(":")
    return scheme if separator and scheme not in _AWS_PROVIDERS else ""
