"""Names and addresses of resources, and the discovery tag."""

from collections.abc import Iterable
from typing import Final

import msgspec

from dovetail.eks.config.cluster import ClusterConfig
from dovetail.eks.config.node_groups import ExistingCluster
from dovetail.eks.config.nodepools import entry_name
from dovetail.eks.plan.references import ref
from dovetail.eks.plan.resource import FILE_TAGS_TAG

DISCOVERY: Final = "karpenter.sh/discovery"
"""Tag by which node classes select subnets and security groups."""
_MAX_TAG_VALUE: Final = 256
"""Characters that AWS allows."""
MAX_ROLE_NAME: Final = 64
"""Characters that IAM allows."""
CONTROLLER_TAINT: Final = "karpenter.sh/controller"


class Names(msgspec.Struct, frozen=True):
    """Names that several resources refer to."""

    cluster: str
    prefix: str
    controller: str
    """Kind of the controller, which is also its name in the cluster."""

    @classmethod
    def from_config(cls, config: ClusterConfig) -> "Names":
        """Return the names of a cluster's resources."""
        # IAM is global: names differ from those of the same cluster in another region.
        prefix = config.iam.prefix or f"{config.name}-{config.region}"
        return cls(config.name, prefix, config.controller.kind)

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
    def node_group_role(self) -> str:
        return f"{self.prefix}-node-group"

    @property
    def windows_node_group_role(self) -> str:
        return f"{self.prefix}-node-group-windows"

    @property
    def fargate_role(self) -> str:
        return f"{self.prefix}-fargate"

    @property
    def controller_role(self) -> str:
        return f"{self.prefix}-{self.controller}"

    def controller_policy(self, about: str) -> str:
        return f"{self.prefix}-{self.controller}-{about}"

    def service_account_role(self, namespace: str, name: str) -> str:
        return f"{self.prefix}-{namespace}-{name}"

    def addon_role(self, addon: str) -> str:
        return f"{self.prefix}-{addon}"

    @property
    def ipv6_policy(self) -> str:
        """Policy of nodes whose network plugin assigns IPv6 addresses."""
        return f"{self.prefix}-cni-ipv6"

    @property
    def endpoint_security_group(self) -> str:
        return f"{self.cluster}-endpoints"

    @property
    def node_security_group(self) -> str:
        """Security group of nodes that NodePools launch."""
        return f"{self.cluster}-node"

    @property
    def ingress_security_group(self) -> str:
        """Security group of managed node groups with the rules of ``ingress``."""
        return f"{self.cluster}-ingress"

    @property
    def key_alias(self) -> str:
        """Alias of the KMS key that encrypts Secrets."""
        return f"alias/dovetail/{self.cluster}"

    @property
    def cluster_address(self) -> str:
        return f"eks-cluster/{self.cluster}"

    def cluster_ref(self, attribute: str) -> str:
        """Return a reference to an attribute of the cluster."""
        return ref(self.cluster_address, attribute)


def release_name(config: ClusterConfig) -> str:
    """Return the name of the controller's Helm release."""
    return config.controller.release or config.controller.kind


def service_account_name(config: ClusterConfig) -> str:
    """Return the name of the controller's service account."""
    return config.controller.service_account or release_name(config)


def uses_existing_cluster(config: ClusterConfig) -> bool:
    """Return True if the file uses an existing cluster."""
    return isinstance(config.home, ExistingCluster)


def nodepool_addresses(config: ClusterConfig) -> tuple[str, ...]:
    """Return the addresses of the NodePools."""
    return tuple(f"kubernetes-object/NodePool/{entry_name(entry)}" for entry in config.node_pools)


def recorded_keys(tags: Iterable[str]) -> dict[str, str]:
    """Return the tag with the keys of the file's tags, if AWS can store them in one."""
    keys = sorted(tags)
    text = " ".join(keys)
    is_valid = keys and len(text) <= _MAX_TAG_VALUE and not any(" " in key for key in keys)
    return {FILE_TAGS_TAG: text} if is_valid else {}
