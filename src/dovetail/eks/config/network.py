"""cluster.yaml: the network that the cluster lives in."""

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field

from dovetail.eks.config.base import Part, Text

SubnetId = Annotated[str, Field(pattern=r"^subnet-[0-9a-z]+$")]
GroupId = Annotated[str, Field(pattern=r"^sg-[0-9a-z]+$")]
VpcId = Annotated[str, Field(pattern=r"^vpc-[0-9a-z]+$")]


class Nat(StrEnum):
    """How private subnets reach the internet."""

    SINGLE = "single"
    PER_ZONE = "per-zone"
    NONE = "none"


class CreatedVpc(Part):
    """A VPC of its own."""

    cidr: str = Field(default="10.0.0.0/16", description="Addresses of the VPC, as a.b.c.d/n.")
    zones: list[Text] | Annotated[int, Field(ge=2, le=6)] = Field(
        default=3, description="Names of the zones, or how many of the region's."
    )
    private_subnets: list[str] = Field(
        default=[],
        description="Addresses of the private subnets, one a zone; cut from the VPC if absent.",
    )
    public_subnets: list[str] = Field(
        default=[],
        description="Addresses of the public subnets, one a zone; cut from the VPC if absent.",
    )
    nat: Nat = Field(
        default=Nat.SINGLE, description="NAT gateways: one for all, one a zone, or none."
    )
    endpoints: list[Text] = Field(
        default=[],
        description="VPC endpoints by service name (s3, ecr.api …); nat: none adds those that "
        "a private cluster needs.",
    )


class Selection(Part):
    """Things that are there, by id or by tags."""

    ids: list[Text] = Field(default=[], description="Ids; nothing else may be given beside them.")
    tags: dict[Text, Text] = Field(
        default={}, description="Tags that they carry; '*' for any value."
    )


class ExistingVpc(Part):
    """A VPC that is there already."""

    id: VpcId | None = Field(
        default=None, description="The VPC; found through the subnets if absent."
    )
    subnets: Selection = Field(description="Private subnets for nodes and the control plane.")
    control_plane_subnets: list[SubnetId] = Field(
        default=[], description="Subnets for the control plane's own interfaces, if not the same."
    )
    security_groups: Selection | None = Field(
        default=None, description="Groups for nodes; one is made if absent."
    )
    discovery: Literal["ids", "tags"] = Field(
        default="ids",
        description="How node classes find subnets: by id, or by the tag karpenter.sh/discovery, "
        "which is then put on them.",
    )


class Vpc(Part):
    """The network: one of its own, or one that is there."""

    create: CreatedVpc | None = Field(default=None, description="Make a VPC for the cluster.")
    existing: ExistingVpc | None = Field(default=None, description="Use a VPC that is there.")


class Endpoint(Part):
    """Who reaches the Kubernetes API server."""

    public: bool = Field(default=True, description="Reachable from the internet.")
    private: bool = Field(default=True, description="Reachable from the VPC.")
    public_cidrs: list[str] = Field(
        default=[], description="Who may come from the internet; everybody if absent."
    )
    vpn_cidrs: list[str] = Field(
        default=[], description="Networks (a VPN's) that may reach the private endpoint."
    )


class Ingress(Part):
    """Traffic that nodes accept, beside that of the cluster itself."""

    protocol: Literal["tcp", "udp"] = "tcp"
    ports: Annotated[str | int, Field(description="A port (443) or a range (30000-32767).")]
    cidrs: list[str] = Field(
        default=["0.0.0.0/0"], min_length=1, description="Where it comes from."
    )
