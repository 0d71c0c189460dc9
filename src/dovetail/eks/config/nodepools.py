"""cluster.yaml: NodePools and node classes, in short form or as full objects."""

from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, Tag

from dovetail.eks.config.base import KubeName, Labels, Part, Text
from dovetail.eks.config.node_groups import Architecture, TaintSpec

Duration = Annotated[
    int | str,
    Field(description="Seconds as a number, or as 30s, 10m, 720h; Never for never."),
]
Whole = dict[str, Any]
"""An object as kubectl takes it: apiVersion, kind, metadata, spec."""


class PoolLimits(Part):
    """How much a NodePool may buy altogether."""

    cpu: int | str | None = None
    memory: str | None = None
    nodes: int | None = Field(default=None, ge=0)


class Pool(Part):
    """A NodePool in a few words."""

    name: KubeName
    node_class: KubeName | None = Field(
        default=None, description="The first one of nodeClasses if absent."
    )
    architectures: list[Architecture] = Field(default=["amd64"], min_length=1)
    capacity_types: list[Literal["on-demand", "spot", "reserved"]] = Field(
        default=["on-demand"], min_length=1
    )
    categories: list[Text] = Field(default=[], description="Letters of families: c, m, r …")
    families: list[Text] = Field(default=[], description="Instance families: m6i, c7g …")
    sizes: list[Text] = Field(default=[], description="Sizes: large, 2xlarge …")
    instance_types: list[Text] = Field(default=[])
    newer_than: int | None = Field(
        default=None, ge=0, description="Generation that families must be newer than."
    )
    zones: list[Text] = Field(default=[])
    requirements: list[dict[str, Any]] = Field(
        default=[], description="Further requirements, as a NodePool writes them."
    )
    limits: PoolLimits = Field(default_factory=PoolLimits)
    ttl_after_empty: Duration | None = Field(
        default=None, description="Give nodes back once empty for so long, and for no other reason."
    )
    consolidate_after: Duration | None = Field(
        default=None,
        description="Give nodes back or swap them once unchanged for so long (default 0s).",
    )
    expire_after: Duration = Field(default="720h", description="Replace nodes at this age.")
    termination_grace_period: Duration | None = None
    budget: str = Field(default="10%", description="Nodes that may go at the same time.")
    weight: int | None = Field(default=None, ge=1, le=100)
    labels: Labels = Field(default={})
    taints: list[TaintSpec] = Field(default=[])
    startup_taints: list[TaintSpec] = Field(default=[])


class Class(Part):
    """A node class in a few words."""

    name: KubeName
    image: Text = Field(
        default="al2023@latest",
        description="family@version (al2023, bottlerocket …) or the id of an AMI (ami-…).",
    )
    image_family: Text | None = Field(default=None, description="With an AMI's id: its family.")
    disk_gib: int | None = Field(default=None, ge=1, le=16384)
    user_data: str | None = None
    hop_limit: int = Field(
        default=1, ge=1, le=64, description="2 lets pods reach the instance metadata service."
    )
    detailed_monitoring: bool = False
    tags: dict[Text, str] = Field(default={})


def _form(value: Any) -> str:
    return "full" if isinstance(value, dict) and "apiVersion" in value else "short"


AnyPool = Annotated[
    Annotated[Pool, Tag("short")] | Annotated[Whole, Tag("full")], Discriminator(_form)
]
AnyClass = Annotated[
    Annotated[Class, Tag("short")] | Annotated[Whole, Tag("full")], Discriminator(_form)
]


def name_of(one: Pool | Class | Whole) -> str:
    """Return the name of an object, whichever way it was written."""
    if isinstance(one, dict):
        meta = one.get("metadata")
        return str(meta.get("name", "")) if isinstance(meta, dict) else ""
    return one.name
