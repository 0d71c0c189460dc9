"""What everything is called: names, addresses, and the tags by which it is found."""

from typing import Final

import msgspec

from dovetail.eks.config.cluster import ClusterSpec
from dovetail.eks.config.node_groups import HomeExisting
from dovetail.eks.config.nodepools import name_of
from dovetail.eks.plan.references import ref

DISCOVERY: Final = "karpenter.sh/discovery"
"""The tag by which node classes find subnets and security groups."""
ROLE_LIMIT: Final = 64
CONTROLLER_TAINT: Final = "karpenter.sh/controller"


class Names(msgspec.Struct, frozen=True):
    """Names that more than one resource needs."""

    cluster: str
    prefix: str
    controller: str
    """The controller's kind, which is what it is called in the cluster as well."""

    @classmethod
    def of(cls, spec: ClusterSpec) -> "Names":
        """Return the names for a cluster."""
        return cls(spec.name, spec.iam.prefix or spec.name, spec.controller.kind)

    @property
    def cluster_role(self) -> str:
        return f"{self.prefix}-cluster"

    @property
    def node_role(self) -> str:
        return f"{self.prefix}-node"

    @property
    def instance_profile(self) -> str:
        return f"{self.prefix}-node"

    @property
    def group_role(self) -> str:
        return f"{self.prefix}-node-group"

    @property
    def fargate_role(self) -> str:
        return f"{self.prefix}-fargate"

    @property
    def controller_role(self) -> str:
        return f"{self.prefix}-{self.controller}"

    def controller_policy(self, about: str) -> str:
        return f"{self.prefix}-{self.controller}-{about}"

    def account_role(self, namespace: str, name: str) -> str:
        return f"{self.prefix}-{namespace}-{name}"

    @property
    def endpoint_group(self) -> str:
        return f"{self.cluster}-endpoints"

    @property
    def node_group(self) -> str:
        """The security group of nodes that pods call for."""
        return f"{self.cluster}-node"

    @property
    def cluster_address(self) -> str:
        return f"eks-cluster/{self.cluster}"

    def of_cluster(self, attribute: str) -> str:
        """Return a reference to an attribute of the cluster."""
        return ref(self.cluster_address, attribute)


def release_of(spec: ClusterSpec) -> str:
    """Return the name of the controller's Helm release."""
    return spec.controller.release or spec.controller.kind


def service_account_of(spec: ClusterSpec) -> str:
    """Return the name of the controller's service account."""
    return spec.controller.service_account or release_of(spec)


def is_existing(spec: ClusterSpec) -> bool:
    """Tell whether the cluster was there before us."""
    return isinstance(spec.home, HomeExisting)


def pool_addresses(spec: ClusterSpec) -> tuple[str, ...]:
    """Return the addresses of the NodePools."""
    return tuple(f"kubernetes-object/NodePool/{name_of(one)}" for one in spec.node_pools)
