"""cluster.yaml as a whole."""

from typing import Any, Literal

from pydantic import Field

from dovetail.eks.config.access import Access, AccountId, Iam
from dovetail.eks.config.addons import Addons, Controller, Logging
from dovetail.eks.config.base import Part, Text
from dovetail.eks.config.network import Endpoint, Ingress, Vpc
from dovetail.eks.config.node_groups import Home, NodeGroup, ServiceAccount
from dovetail.eks.config.nodepools import AnyClass, AnyPool

NAME = r"^[0-9A-Za-z][A-Za-z0-9_-]*$"


class ClusterSpec(Part):
    """A cluster on EKS, prepared for nodes that come and go with the pods."""

    name: str = Field(pattern=NAME, max_length=100, description="The cluster's name.")
    region: Text
    account: AccountId | None = Field(
        default=None, description="The AWS account; anything else is refused if given."
    )
    version: str = Field(
        pattern=r"^1\.[0-9]+$", description="Kubernetes version, in quotes: '1.33'."
    )
    tags: dict[Text, str] = Field(default={}, description="Tags for everything that is made.")
    vpc: Vpc | None = Field(default=None, description="The network; a VPC of its own if absent.")
    endpoint: Endpoint = Field(default_factory=Endpoint)
    ingress: list[Ingress] = Field(default=[], description="Further traffic that nodes accept.")
    logging: Logging = Field(default_factory=Logging)
    home: Home = Field(description="Where the controller lives: a word, or kind with settings.")
    identity: Literal["pod-identity", "irsa"] | None = Field(
        default=None,
        description="How pods get their roles; Pod Identity if absent, irsa on Fargate.",
    )
    iam: Iam = Field(default_factory=Iam)
    access: Access = Field(default_factory=Access)
    controller: Controller = Field(default_factory=Controller)
    node_classes: list[AnyClass] = Field(
        default=[{"name": "default"}], description="One named 'default' if absent."
    )
    node_pools: list[AnyPool] = Field(min_length=1)
    node_groups: list[NodeGroup] = Field(default=[], description="Managed node groups beside.")
    service_accounts: list[ServiceAccount] = Field(default=[])
    addons: Addons = Field(default_factory=Addons)
    objects: list[dict[str, Any]] = Field(
        default=[], description="Further Kubernetes objects, applied at the end."
    )

    @property
    def uses_irsa(self) -> bool:
        """Whether pods get their roles from the cluster's OIDC provider."""
        if self.identity is not None:
            return self.identity == "irsa"
        return self.home.kind == "fargate"
