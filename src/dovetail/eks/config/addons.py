"""cluster.yaml: the controller and the add-ons."""

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from dovetail.eks.config.base import KubeName, Part, Text


class Controller(Part):
    """The autoscaler."""

    kind: Literal["dovetail", "karpenter"] = Field(
        default="dovetail", description="Ours, or upstream's chart on the same foundations."
    )
    version: Text | None = Field(default=None, description="Version of the chart.")
    image: Text | None = Field(
        default=None,
        description="Where you keep the image that deploy/Dockerfile makes: repository, :tag and "
        "@digest if any. Upstream's chart knows its own.",
    )
    chart: Text | None = Field(
        default=None, description="Where the chart is: a path or an oci:// address."
    )
    crd_chart: Text | None = Field(
        default=None, description="The same for the chart with the CRDs."
    )
    release: KubeName | None = Field(default=None, description="Name of the Helm release.")
    namespace: KubeName = "kube-system"
    create_namespace: bool = True
    service_account: KubeName | None = None
    replicas: int = Field(default=2, ge=1, le=10)
    interruption_queue: bool = Field(
        default=True, description="A queue for AWS's warnings, with the rules that fill it."
    )
    regional_sts: bool = Field(
        default=False,
        description="Have pods ask the region's STS for their roles (a VPC endpoint's, say).",
    )
    resources: dict[str, Any] = Field(
        default={"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"memory": "1Gi"}}
    )
    settings: dict[str, Any] = Field(default={}, description="Further settings of the controller.")
    values: dict[str, Any] = Field(default={}, description="Further values of the chart; they win.")


class Addon(Part):
    """One add-on."""

    enabled: bool = True
    version: Text | None = Field(default=None, description="The newest that fits if absent.")
    values: dict[str, Any] = Field(
        default={}, description="Its settings: configuration or chart values."
    )


class ChartAddon(Addon):
    """An add-on that Helm installs."""

    namespace: KubeName | None = None
    repository: Text | None = Field(
        default=None, description="Where the chart is, if not at its home."
    )


def _from_switch(value: Any) -> Any:
    if isinstance(value, bool):
        return {"enabled": value}
    return {} if value is None else value


_Eks = Annotated[Addon, BeforeValidator(_from_switch)]
_Chart = Annotated[ChartAddon, BeforeValidator(_from_switch)]


class Addons(Part):
    """Add-ons by name; ``name: true`` takes one as it comes."""

    vpc_cni: _Eks = Field(default_factory=Addon, alias="vpc-cni")
    coredns: _Eks = Field(default_factory=Addon)
    kube_proxy: _Eks = Field(default_factory=Addon, alias="kube-proxy")
    pod_identity_agent: _Eks | None = Field(
        default=None,
        alias="pod-identity-agent",
        description="On by default where Pod Identity is used.",
    )
    metrics_server: _Chart | None = Field(default=None, alias="metrics-server")
    kube_state_metrics: _Chart | None = Field(default=None, alias="kube-state-metrics")
    keda: _Chart | None = None
    vertical_pod_autoscaler: _Chart | None = Field(default=None, alias="vertical-pod-autoscaler")
    kube_ops_view: _Chart | None = Field(default=None, alias="kube-ops-view")
    node_termination_handler: _Chart | None = Field(
        default=None,
        alias="node-termination-handler",
        description="Refused together with the controller's interruption queue: both would drain.",
    )


class Logging(Part):
    """The control plane's logs."""

    types: list[Literal["api", "audit", "authenticator", "controllerManager", "scheduler"]] = Field(
        default=[]
    )
    retention_days: int = 7
