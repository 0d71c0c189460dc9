"""cluster.yaml: the top-level model."""

from typing import Any, Literal

from pydantic import Field

from dovetail.eks.config.access import Access, AccountId, Iam, SecretsEncryptionEntry
from dovetail.eks.config.addons import Addons, Controller, Logging
from dovetail.eks.config.base import ConfigModel, Text
from dovetail.eks.config.network import Endpoint, Ingress, NodeSecurityGroup, Vpc
from dovetail.eks.config.node_groups import ControllerCompute, NodeGroup, ServiceAccount
from dovetail.eks.config.nodepools import NodeClassEntry, NodePoolEntry

NAME = r"^[0-9A-Za-z][A-Za-z0-9_-]*$"


class ClusterConfig(ConfigModel):
    """An EKS cluster with node autoscaling."""

    name: str = Field(pattern=NAME, max_length=100, description="The cluster's name.")
    region: Text
    account: AccountId | None = Field(
        default=None, description="The AWS account; if set, credentials of other accounts are rejected."
    )
    version: str = Field(pattern=r"^1\.[0-9]+$", description="Kubernetes version, in quotes: '1.33'.")
    support: Literal["standard", "extended"] | None = Field(
        default=None,
        description="At the end of a version's standard support, EKS upgrades the control plane (standard), "
        "or bills six times the price (extended, EKS's default).",
    )
    tags: dict[Text, str] = Field(default={}, description="Tags of all resources that are created.")
    vpc: Vpc | None = Field(default=None, description="The network; a new VPC by default.")
    ip_family: Literal["ipv4", "ipv6"] = Field(
        default="ipv4",
        description="Addresses of pods and Services; EKS cannot change it later. A new VPC gets IPv6 blocks.",
    )
    service_cidr: str | None = Field(
        default=None, description="IPv4 block of Services; chosen by EKS by default, and not changed later."
    )
    endpoint: Endpoint = Field(default_factory=Endpoint)
    ingress: list[Ingress] = Field(default=[], description="Additional traffic that nodes accept.")
    node_security_group: NodeSecurityGroup = Field(default_factory=NodeSecurityGroup)
    logging: Logging = Field(default_factory=Logging)
    secrets_encryption: SecretsEncryptionEntry = Field(
        default=None, description="Encrypt Kubernetes Secrets with a KMS key: true, or a map with keyArn."
    )
    home: ControllerCompute = Field(
        description="Where the controller runs: a kind, or a map with kind and settings."
    )
    identity: Literal["pod-identity", "irsa"] | None = Field(
        default=None, description="How pods get their roles; Pod Identity by default, irsa on Fargate."
    )
    iam: Iam = Field(default_factory=Iam)
    access: Access = Field(default_factory=Access)
    controller: Controller = Field(default_factory=Controller)
    node_classes: list[NodeClassEntry] = Field(
        default=[{"name": "default"}], description="One named 'default' by default."
    )
    node_pools: list[NodePoolEntry] = Field(min_length=1)
    node_groups: list[NodeGroup] = Field(default=[], description="Additional managed node groups.")
    service_accounts: list[ServiceAccount] = Field(default=[])
    addons: Addons = Field(default_factory=Addons)
    objects: list[dict[str, Any]] = Field(
        default=[], description="Additional Kubernetes objects, applied last."
    )

    @property
    def uses_irsa(self) -> bool:
        """True if pods get their roles through the cluster's OIDC provider."""
        if self.identity is not None:
            return self.identity == "irsa"
        return self.home.kind == "fargate"
