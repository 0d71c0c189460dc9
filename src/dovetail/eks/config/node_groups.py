"""cluster.yaml: where the controller itself lives, and the node groups beside."""

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from dovetail.eks.config.base import Arn, KubeName, Labels, Part, Text

Capacity = Literal["on-demand", "spot"]
Architecture = Literal["amd64", "arm64"]


class TaintSpec(Part):
    """A taint, as Kubernetes writes it."""

    key: Text
    value: str = ""
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] = "NoSchedule"


class NodeGroup(Part):
    """A managed node group: machines that stay."""

    name: KubeName = Field(max_length=63)
    instance_types: list[Text] = Field(
        default=[], description="General-purpose ones of size large that the region has if absent."
    )
    architecture: Architecture = "amd64"
    capacity_type: Capacity = "on-demand"
    desired: int = Field(default=2, ge=0)
    min: int = Field(default=1, ge=0)
    max: int = Field(default=3, ge=1)
    max_unavailable_percentage: int | None = Field(default=None, ge=1, le=100)
    disk_gib: int = Field(default=20, ge=8, le=16384, description="Size of the root volume.")
    labels: Labels = Field(default={})
    taints: list[TaintSpec] = Field(default=[])
    launch_template: bool = Field(
        default=True, description="Give it a launch template (IMDSv2, encrypted gp3 root volume)."
    )


class HomeGroup(NodeGroup):
    """The controller on a small managed node group, kept free of other pods."""

    kind: Literal["managed-node-group"]
    name: KubeName = Field(default="controller", max_length=63)
    min: int = Field(default=2, ge=1)
    taint: bool = Field(
        default=True, description="Keep other pods off; CoreDNS and the controller tolerate it."
    )
    selector: Labels = Field(
        default={"karpenter.sh/controller": "true"},
        min_length=1,
        description="Labels of the group, and the controller's node selector.",
    )


class HomeFargate(Part):
    """The controller, and the system's namespaces, on Fargate: no node groups at all."""

    kind: Literal["fargate"]
    namespaces: list[KubeName] = Field(
        default=["kube-system"],
        min_length=1,
        description="Whose pods run on Fargate; the controller's namespace always does.",
    )


class HomeExisting(Part):
    """A cluster that is there: it is looked up, never made or removed."""

    kind: Literal["existing"]
    node_role: Text | None = Field(
        default=None,
        description="Name of the role that the cluster's nodes have; ours will share it.",
    )
    ssm: bool = Field(default=False, description="Let SSM manage nodes of that role.")
    oidc_provider: Literal["existing", "create"] = Field(
        default="existing",
        description="Whether IAM knows the cluster's OIDC provider already (for irsa).",
    )
    node_selector: Labels = Field(default={}, description="Where the controller may run.")


def _from_word(value: Any) -> Any:
    return {"kind": value} if isinstance(value, str) else value


Home = Annotated[
    Annotated[HomeGroup | HomeFargate | HomeExisting, Field(discriminator="kind")],
    BeforeValidator(_from_word),
]


class ServiceAccount(Part):
    """A service account whose pods may use AWS."""

    name: KubeName
    namespace: KubeName = "default"
    policies: list[Arn] = Field(default=[], description="ARNs of policies that its role gets.")
    statements: list[dict[str, Any]] = Field(
        default=[], description="IAM statements for a policy of its own."
    )
    annotations: Labels = Field(default={})
