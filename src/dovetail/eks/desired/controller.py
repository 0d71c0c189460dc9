"""Desired controller: its charts, their values, and its identity."""

from collections.abc import Iterator, Mapping
from typing import Any

from dovetail.eks.config.cluster import ClusterConfig
from dovetail.eks.config.node_groups import ControllerFargate, ControllerNodeGroup, ExistingCluster
from dovetail.eks.desired.addons import system_addresses
from dovetail.eks.desired.charts import CONTROLLERS, Chart
from dovetail.eks.desired.iam_roles import pod_identity_association
from dovetail.eks.desired.names import CONTROLLER_TAINT, Names, release_name, service_account_name
from dovetail.eks.desired.network import Network
from dovetail.eks.plan.references import aws_ref, ref
from dovetail.eks.plan.resource import DesiredResource

REGIONAL_STS = "eks.amazonaws.com/sts-regional-endpoints"
ROLE_ARN = "eks.amazonaws.com/role-arn"


def release_address(config: ClusterConfig) -> str:
    """Return the address of the controller's Helm release."""
    return f"helm-release/{config.controller.namespace}/{release_name(config)}"


def crd_address(config: ClusterConfig) -> str:
    """Return the address of the Helm release with the CRDs."""
    return f"{release_address(config)}-crd"


def desired_controller(config: ClusterConfig, names: Names, network: Network) -> Iterator[DesiredResource]:
    """Yield the CRDs, the controller, and the association with its role."""
    chart, crds = CONTROLLERS[config.controller.kind]
    account = service_account_name(config)
    identity: tuple[str, ...] = (f"iam-role/{names.controller_role}",)
    if not config.uses_irsa:
        yield pod_identity_association(names, config.controller.namespace, account, names.controller_role)
        identity = (f"pod-identity-association/{config.controller.namespace}/{account}",)
    elif getattr(config.home, "oidc_provider", "create") == "create":
        identity = (*identity, f"oidc-provider/{names.cluster}")
    yield DesiredResource(
        kind="helm-release",
        name=f"{config.controller.namespace}/{release_name(config)}-crd",
        properties=_chart_properties(config, crds, config.controller.crd_chart, {}),
        depends_on=(names.cluster_address,),
        purpose="CRDs of NodePools, NodeClaims and node classes",
    )
    dependencies = [crd_address(config), *identity, *system_addresses(config)]
    if config.controller.interruption_queue:
        dependencies.append(f"sqs-queue/{names.cluster}")
    yield DesiredResource(
        kind="helm-release",
        name=f"{config.controller.namespace}/{release_name(config)}",
        properties=_chart_properties(
            config, chart, config.controller.chart, chart_values(config, names, network)
        ),
        depends_on=tuple(dependencies),
        purpose="the controller",
    )


def _chart_properties(
    config: ClusterConfig, chart: Chart, chart_override: str | None, values: Mapping[str, Any]
) -> dict[str, Any]:
    properties: dict[str, Any] = {
        "chart": chart_override or chart.chart,
        "namespace": config.controller.namespace,
        "createNamespace": config.controller.create_namespace,
        "values": dict(values),
    }
    version = config.controller.version or chart.version
    return {**properties, "version": version} if version else properties


def chart_values(config: ClusterConfig, names: Names, network: Network) -> dict[str, Any]:
    """Return the values of the controller's chart; the user's take precedence."""
    controller = config.controller
    annotations: dict[str, str] = {}
    if config.uses_irsa:
        annotations[ROLE_ARN] = ref(f"iam-role/{names.controller_role}", "arn")
    if controller.regional_sts:
        annotations[REGIONAL_STS] = "true"
    settings: dict[str, Any] = {
        "clusterName": names.cluster,
        "clusterEndpoint": names.cluster_ref("endpoint"),
        **({"interruptionQueue": names.cluster} if controller.interruption_queue else {}),
        **({"isolatedVPC": True} if network.is_isolated else {}),
        **controller.settings,
    }
    values: dict[str, Any] = {
        "replicas": controller.replicas,
        "serviceAccount": {"create": True, "name": service_account_name(config), "annotations": annotations},
        "settings": settings,
        "controller": {
            **({"image": _image(controller.image)} if controller.image else {}),
            "resources": controller.resources,
            # Instance metadata is unreachable from pods where the hop limit is 1.
            "env": [{"name": "AWS_REGION", "value": aws_ref("region")}],
        },
        **_placement(config),
    }
    return _merge(values, controller.values)


def _image(address: str) -> dict[str, str]:
    """Split an image address into the parts that charts take."""
    name, _, digest = address.partition("@")
    repository, colon, tag = name.rpartition(":")
    if not colon or "/" in tag:  # A port, not a tag.
        repository, tag = name, ""
    parts = {"repository": repository, "tag": tag, "digest": digest}
    return {key: value for key, value in parts.items() if value}


def _placement(config: ClusterConfig) -> dict[str, Any]:
    compute = config.home
    if isinstance(compute, ControllerFargate):
        # Avoids a deadlock: the controller would wait for CoreDNS, and CoreDNS for nodes.
        return {"dnsPolicy": "Default"}
    if isinstance(compute, ControllerNodeGroup):
        tolerations: list[dict[str, Any]] = [{"key": "CriticalAddonsOnly", "operator": "Exists"}]
        if compute.taint:
            tolerations.append({"key": CONTROLLER_TAINT, "operator": "Exists"})
        selector = {"kubernetes.io/os": "linux", **compute.selector}
        return {"nodeSelector": selector, "tolerations": tolerations}
    if isinstance(compute, ExistingCluster) and compute.node_selector:
        return {"nodeSelector": {"kubernetes.io/os": "linux", **compute.node_selector}}
    return {}


def _merge(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(base)
    for key, value in over.items():
        inner = merged.get(key)
        if isinstance(inner, Mapping) and isinstance(value, Mapping):
            merged[key] = _merge(inner, value)
        else:
            merged[key] = value
    return merged
