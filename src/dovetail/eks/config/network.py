"""cluster.yaml: the network of the cluster."""

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field

from dovetail.eks.config.base import ConfigModel, Text

SubnetId = Annotated[str, Field(pattern=r"^subnet-[0-9a-z]+$")]
GroupId = Annotated[str, Field(pattern=r"^sg-[0-9a-z]+$")]
VpcId = Annotated[str, Field(pattern=r"^vpc-[0-9a-z]+$")]


class Nat(StrEnum):
    """NAT gateways, for internet access of private subnets."""

    SINGLE = "single"
    PER_ZONE = "per-zone"
    NONE = "none"


class CreatedVpc(ConfigModel):
    """A VPC to create."""

    cidr: str = Field(default="10.0.0.0/16", description="CIDR block of the VPC.")
    zones: list[Text] | Annotated[int, Field(ge=2, le=6)] = Field(
        default=3, description="Names of zones, or their number."
    )
    private_subnets: list[str] = Field(
        default=[], description="CIDR blocks of private subnets, one per zone; by default split from the VPC."
    )
    public_subnets: list[str] = Field(
        default=[], description="CIDR blocks of public subnets, one per zone; by default split from the VPC."
    )
    nat: Nat = Field(default=Nat.SINGLE, description="NAT gateways: one, one per zone, or none.")
    endpoints: list[Text] = Field(
        default=[],
        description="VPC endpoints by service name (s3, ecr.api …); nat: none adds those that "
        "a private cluster needs.",
    )


class Selection(ConfigModel):
    """Existing resources, selected by id or by tags."""

    ids: list[Text] = Field(default=[], description="Ids; not together with tags.")
    tags: dict[Text, Text] = Field(default={}, description="Tags; '*' for any value.")


class ExistingVpc(ConfigModel):
    """An existing VPC."""

    id: VpcId | None = Field(default=None, description="The VPC; by default that of the subnets.")
    subnets: Selection = Field(description="Private subnets for nodes and the control plane.")
    control_plane_subnets: list[SubnetId] = Field(
        default=[], description="Subnets of the control plane's interfaces, if different."
    )
    security_groups: Selection | None = Field(
        default=None, description="Security groups of nodes; by default one is created."
    )
    discovery: Literal["ids", "tags"] = Field(
        default="ids",
        description="How node classes select subnets: by id, or by the tag karpenter.sh/discovery, "
        "which is then added to them.",
    )


class Vpc(ConfigModel):
    """The network: a VPC to create, or an existing one."""

    create: CreatedVpc | None = Field(default=None, description="Create a VPC for the cluster.")
    existing: ExistingVpc | None = Field(default=None, description="Use an existing VPC.")


class Endpoint(ConfigModel):
    """Network access to the Kubernetes API server."""

    public: bool = Field(default=True, description="Reachable from the internet.")
    private: bool = Field(default=True, description="Reachable from the VPC.")
    public_cidrs: list[str] = Field(
        default=[], description="Allowed sources on the internet; all by default."
    )
    vpn_cidrs: list[str] = Field(
        default=[], description="Networks (of a VPN) with access to the private endpoint."
    )


class NodeSecurityGroup(ConfigModel):
    """The security group of nodes that NodePools launch, if it is created."""

    tags: dict[Text, str] = Field(
        default={}, description="Additional tags of this security group alone; they override tags."
    )


class Ingress(ConfigModel):
    """Traffic that nodes accept, in addition to the cluster's own."""

    protocol: Literal["tcp", "udp"] = "tcp"
    ports: Annotated[str | int, Field(description="A port (443) or a range (30000-32767).")]
    cidrs: list[str] = Field(default=["0.0.0.0/0"], min_length=1, description="Allowed sources.")
