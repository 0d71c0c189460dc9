"""cluster.yaml: the controller and the add-ons."""

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, ConfigDict, Field

from dovetail.eks.config.base import ConfigModel, KubeName, Text


class Controller(ConfigModel):
    """The autoscaler."""

    kind: Literal["dovetail", "karpenter"] = Field(
        default="dovetail", description="Dovetail, or upstream Karpenter."
    )
    version: Text | None = Field(default=None, description="Version of the chart.")
    image: Text | None = Field(
        default=None,
        description="Address of the image built from deploy/Dockerfile: repository, with :tag or "
        "@digest. Upstream's chart has its own.",
    )
    chart: Text | None = Field(
        default=None, description="Location of the chart: a path or an oci:// address."
    )
    crd_chart: Text | None = Field(default=None, description="Location of the chart with the CRDs.")
    release: KubeName | None = Field(default=None, description="Name of the Helm release.")
    namespace: KubeName = "kube-system"
    create_namespace: bool = True
    service_account: KubeName | None = None
    replicas: int = Field(default=2, ge=1, le=10)
    interruption_queue: bool = Field(
        default=True, description="Create an SQS queue for interruption events, and its EventBridge rules."
    )
    regional_sts: bool = Field(
        default=False, description="Use the regional STS endpoint for pod roles (for example a VPC endpoint)."
    )
    resources: dict[str, Any] = Field(
        default={"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"memory": "1Gi"}}
    )
    settings: dict[str, Any] = Field(default={}, description="Additional settings of the controller.")
    values: dict[str, Any] = Field(default={}, description="Additional chart values; they take precedence.")


class Addon(ConfigModel):
    """One add-on."""

    enabled: bool = True
    version: Text | None = Field(default=None, description="The newest compatible version by default.")
    values: dict[str, Any] = Field(
        default={}, description="Configuration of the EKS add-on, or chart values."
    )


class AddonRole(ConfigModel):
    """The IAM role of an EKS add-on's service account."""

    service_account: KubeName | None = Field(
        default=None, description="The service account; known for the add-ons of AWS."
    )
    namespace: KubeName | None = Field(default=None, description="kube-system by default.")
    policies: list[Text] | None = Field(
        default=None, description="ARNs of policies, or names of AWS managed ones; known for some add-ons."
    )
    statements: list[dict[str, Any]] = Field(default=[], description="IAM statements of its own policy.")


class EksAddon(Addon):
    """An EKS add-on by its name in EKS."""

    role: AddonRole | None = Field(
        default=None, description="Its role; by default that which AWS recommends, if it is known here."
    )


class ChartAddon(Addon):
    """An add-on that Helm installs."""

    namespace: KubeName | None = None
    repository: Text | None = Field(default=None, description="Another repository or registry of the chart.")


def _from_switch(value: Any) -> Any:
    if isinstance(value, bool):
        return {"enabled": value}
    return {} if value is None else value


_Eks = Annotated[Addon, BeforeValidator(_from_switch)]
_AnyEks = Annotated[EksAddon, BeforeValidator(_from_switch)]
_Chart = Annotated[ChartAddon, BeforeValidator(_from_switch)]


class Addons(ConfigModel):
    """Add-ons by name; ``name: true`` enables one with its defaults.

    A name that is no field here is that of an EKS add-on: aws-ebs-csi-driver.
    """

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, _AnyEks] = Field(init=False)

    vpc_cni: _Eks = Field(default_factory=Addon, alias="vpc-cni")
    coredns: _Eks = Field(default_factory=Addon)
    kube_proxy: _Eks = Field(default_factory=Addon, alias="kube-proxy")
    pod_identity_agent: _Eks | None = Field(
        default=None, alias="pod-identity-agent", description="Enabled by default where Pod Identity is used."
    )
    metrics_server: _Chart | None = Field(default=None, alias="metrics-server")
    kube_state_metrics: _Chart | None = Field(default=None, alias="kube-state-metrics")
    keda: _Chart | None = None
    vertical_pod_autoscaler: _Chart | None = Field(default=None, alias="vertical-pod-autoscaler")
    kube_ops_view: _Chart | None = Field(default=None, alias="kube-ops-view")
    node_termination_handler: _Chart | None = Field(
        default=None,
        alias="node-termination-handler",
        description="Conflicts with the controller's interruption queue: both would drain nodes.",
    )

    @property
    def others(self) -> dict[str, EksAddon]:
        """The EKS add-ons that have no field of their own, by name."""
        return dict(self.__pydantic_extra__ or {})


class Logging(ConfigModel):
    """Logs of the control plane."""

    types: list[Literal["api", "audit", "authenticator", "controllerManager", "scheduler"]] = Field(
        default=[]
    )
    retention_days: int = 7
