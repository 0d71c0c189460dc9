"""cluster.yaml: the top-level model."""

from typing import Any, Literal

from pydantic import Field

from dovetail.eks.config.access import Access, AccountId, Iam
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
    tags: dict[Text, str] = Field(default={}, description="Tags of all resources that are created.")
    vpc: Vpc | None = Field(default=None, description="The network; a new VPC by default.")
    endpoint: Endpoint = Field(default_factory=Endpoint)
    ingress: list[Ingress] = Field(default=[], description="Additional traffic that nodes accept.")
    node_security_group: NodeSecurityGroup = Field(default_factory=NodeSecurityGroup)
    logging: Logging = Field(default_factory=Logging)
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
