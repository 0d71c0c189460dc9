"""cluster.yaml: compute of the controller, node groups, service accounts."""

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from dovetail.eks.config.base import Arn, ConfigModel, KubeName, Labels, Text

Capacity = Literal["on-demand", "spot"]
Architecture = Literal["amd64", "arm64"]
WINDOWS_DISK_GIB = 50
"""Smallest root volume of the Windows AMIs of EKS."""


GroupImage = Literal[
    "al2023",
    "bottlerocket",
    "windows-2019-core",
    "windows-2019-full",
    "windows-2022-core",
    "windows-2022-full",
    "windows-2025-core",
    "windows-2025-full",
]


class TaintConfig(ConfigModel):
    """A Kubernetes taint."""

    key: Text
    value: str = ""
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] = "NoSchedule"


class NodeGroup(ConfigModel):
    """A managed node group."""

    name: KubeName = Field(max_length=63)
    instance_types: list[Text] = Field(
        default=[], description="By default general-purpose types of size large that the region offers."
    )
    architecture: Architecture = "amd64"
    image: GroupImage = Field(
        default="al2023",
        description="Operating system of the AMI; with drivers if the instance types have GPUs or Neuron.",
    )
    capacity_type: Capacity = "on-demand"
    desired: int = Field(default=2, ge=0)
    min: int = Field(default=1, ge=0)
    max: int = Field(default=3, ge=1)
    max_unavailable_percentage: int | None = Field(default=None, ge=1, le=100)
    disk_gib: int = Field(
        default=20,
        ge=8,
        le=16384,
        description="Size of the root volume, of Bottlerocket's data volume; 50 by default with Windows.",
    )
    labels: Labels = Field(default={})
    taints: list[TaintConfig] = Field(
        default=[], description="With Windows, os=windows:NoSchedule by default."
    )
    launch_template: bool = Field(
        default=True, description="Use a launch template (IMDSv2, encrypted gp3 root volume)."
    )

    @property
    def is_windows(self) -> bool:
        """True if the nodes run Windows."""
        return self.image.startswith("windows-")

    @property
    def volume_gib(self) -> int:
        """Size of the volume, by default that of the operating system."""
        is_default = "disk_gib" not in self.model_fields_set
        return WINDOWS_DISK_GIB if self.is_windows and is_default else self.disk_gib

    @property
    def all_taints(self) -> list[TaintConfig]:
        """The taints, by default those that keep pods of another operating system away."""
        if self.is_windows and "taints" not in self.model_fields_set:
            return [TaintConfig(key="os", value="windows")]
        return list(self.taints)


class ControllerNodeGroup(NodeGroup):
    """Home kind managed-node-group: a small node group for the controller."""

    kind: Literal["managed-node-group"]
    name: KubeName = Field(default="controller", max_length=63)
    min: int = Field(default=2, ge=1)
    taint: bool = Field(default=True, description="Taint the nodes; CoreDNS and the controller tolerate it.")
    selector: Labels = Field(
        default={"karpenter.sh/controller": "true"},
        min_length=1,
        description="Labels of the node group, and the controller's node selector.",
    )


class ControllerFargate(ConfigModel):
    """Home kind fargate: the controller and system namespaces, without node groups."""

    kind: Literal["fargate"]
    namespaces: list[KubeName] = Field(
        default=["kube-system"],
        min_length=1,
        description="Namespaces that run on Fargate, besides the controller's.",
    )


class ExistingCluster(ConfigModel):
    """Home kind existing: an existing cluster, never created or deleted."""

    kind: Literal["existing"]
    node_role: Text | None = Field(
        default=None, description="Name of the role of the cluster's nodes, for launched nodes too."
    )
    ssm: bool = Field(default=False, description="Allow SSM to manage nodes with that role.")
    oidc_provider: Literal["existing", "create"] = Field(
        default="existing", description="Whether the cluster's OIDC provider exists in IAM (for irsa)."
    )
    node_selector: Labels = Field(default={}, description="Node selector of the controller.")


def _from_kind(value: Any) -> Any:
    return {"kind": value} if isinstance(value, str) else value


ControllerCompute = Annotated[
    Annotated[ControllerNodeGroup | ControllerFargate | ExistingCluster, Field(discriminator="kind")],
    BeforeValidator(_from_kind),
]


class ServiceAccount(ConfigModel):
    """A service account with an IAM role."""

    name: KubeName
    namespace: KubeName = "default"
    policies: list[Arn] = Field(default=[], description="ARNs of policies of its role.")
    statements: list[dict[str, Any]] = Field(default=[], description="IAM statements of its own policy.")
    annotations: Labels = Field(default={})
