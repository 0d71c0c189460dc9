"""cluster.yaml: NodePools and node classes, in short form or as full objects."""

from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, Tag

from dovetail.eks.config.base import ConfigModel, KubeName, Labels, Text
from dovetail.eks.config.node_groups import Architecture, TaintConfig

Duration = Annotated[
    int | str, Field(description="Seconds as a number, or text such as 30s, 10m, 720h; or Never.")
]
Manifest = dict[str, Any]
"""A full object: apiVersion, kind, metadata, spec."""


class NodePoolLimits(ConfigModel):
    """Limits of a NodePool."""

    cpu: int | str | None = None
    memory: str | None = None
    nodes: int | None = Field(default=None, ge=0)


class NodePoolConfig(ConfigModel):
    """A NodePool in short form."""

    name: KubeName
    node_class: KubeName | None = Field(default=None, description="The first of nodeClasses by default.")
    architectures: list[Architecture] = Field(default=["amd64"], min_length=1)
    capacity_types: list[Literal["on-demand", "spot", "reserved"]] = Field(
        default=["on-demand"], min_length=1
    )
    categories: list[Text] = Field(default=[], description="Instance categories: c, m, r …")
    families: list[Text] = Field(default=[], description="Instance families: m6i, c7g …")
    sizes: list[Text] = Field(default=[], description="Sizes: large, 2xlarge …")
    instance_types: list[Text] = Field(default=[])
    newer_than: int | None = Field(default=None, ge=0, description="Minimum generation, exclusive.")
    zones: list[Text] = Field(default=[])
    requirements: list[dict[str, Any]] = Field(
        default=[], description="Additional requirements, as in a NodePool."
    )
    limits: NodePoolLimits = Field(default_factory=NodePoolLimits)
    ttl_after_empty: Duration | None = Field(
        default=None, description="Delete nodes that are empty for this time; no other consolidation."
    )
    consolidate_after: Duration | None = Field(
        default=None, description="Consolidate nodes that are unchanged for this time (default 0s)."
    )
    expire_after: Duration = Field(default="720h", description="Replace nodes at this age.")
    termination_grace_period: Duration | None = None
    budget: str | None = Field(
        default=None,
        description="Nodes that can be disrupted at once; 10% by default, with ttlAfterEmpty all empty ones.",
    )
    weight: int | None = Field(default=None, ge=1, le=100)
    labels: Labels = Field(default={})
    taints: list[TaintConfig] = Field(default=[])
    startup_taints: list[TaintConfig] = Field(default=[])


class NodeClassConfig(ConfigModel):
    """A node class in short form."""

    name: KubeName
    image: Text = Field(
        default="al2023@latest",
        description="family@version (al2023, bottlerocket …) or the id of an AMI (ami-…).",
    )
    image_family: Text | None = Field(default=None, description="AMI family, with an AMI id.")
    disk_gib: int | None = Field(
        default=None, ge=1, le=16384, description="Size of the volume of images, pods and logs."
    )
    user_data: str | None = None
    hop_limit: int = Field(
        default=1, ge=1, le=64, description="2 gives pods access to the instance metadata service."
    )
    detailed_monitoring: bool = False
    tags: dict[Text, str] = Field(default={})


def _form(value: Any) -> str:
    return "full" if isinstance(value, dict) and "apiVersion" in value else "short"


NodePoolEntry = Annotated[
    Annotated[NodePoolConfig, Tag("short")] | Annotated[Manifest, Tag("full")], Discriminator(_form)
]
NodeClassEntry = Annotated[
    Annotated[NodeClassConfig, Tag("short")] | Annotated[Manifest, Tag("full")], Discriminator(_form)
]


def entry_name(entry: NodePoolConfig | NodeClassConfig | Manifest) -> str:
    """Return the name of an object in short or full form."""
    if isinstance(entry, dict):
        metadata = entry.get("metadata")
        return str(metadata.get("name", "")) if isinstance(metadata, dict) else ""
    return entry.name
