"""The controller: its charts, the values for them, and its identity."""

from collections.abc import Iterator, Mapping
from typing import Any

from dovetail.eks.config.cluster import ClusterSpec
from dovetail.eks.config.node_groups import HomeExisting, HomeFargate, HomeGroup
from dovetail.eks.desired.addons import system_addresses
from dovetail.eks.desired.charts import CONTROLLERS, Chart
from dovetail.eks.desired.names import CONTROLLER_TAINT, Names, release_of, service_account_of
from dovetail.eks.desired.network import Network
from dovetail.eks.plan.references import aws, ref
from dovetail.eks.plan.resource import Resource

REGIONAL_STS = "eks.amazonaws.com/sts-regional-endpoints"
ROLE_ARN = "eks.amazonaws.com/role-arn"


def release_address(spec: ClusterSpec) -> str:
    """Return the address of the controller's release."""
    return f"helm-release/{spec.controller.namespace}/{release_of(spec)}"


def crd_address(spec: ClusterSpec) -> str:
    """Return the address of the release that holds the CRDs."""
    return f"{release_address(spec)}-crd"


def controller(spec: ClusterSpec, names: Names, network: Network) -> Iterator[Resource]:
    """Hand out the CRDs, the controller, and the association with its role."""
    chart, crds = CONTROLLERS[spec.controller.kind]
    account = service_account_of(spec)
    identity: tuple[str, ...] = (f"iam-role/{names.controller_role}",)
    if not spec.uses_irsa:
        yield association(names, spec.controller.namespace, account, names.controller_role)
        identity = (f"pod-identity-association/{spec.controller.namespace}/{account}",)
    elif getattr(spec.home, "oidc_provider", "create") == "create":
        identity = (*identity, f"oidc-provider/{names.cluster}")
    yield Resource(
        kind="helm-release",
        name=f"{spec.controller.namespace}/{release_of(spec)}-crd",
        properties=_chart(spec, crds, spec.controller.crd_chart, {}),
        depends_on=(names.cluster_address,),
        why="NodePools, NodeClaims and node classes as kinds",
    )
    needs = [crd_address(spec), *identity, *system_addresses(spec)]
    if spec.controller.interruption_queue:
        needs.append(f"sqs-queue/{names.cluster}")
    yield Resource(
        kind="helm-release",
        name=f"{spec.controller.namespace}/{release_of(spec)}",
        properties=_chart(spec, chart, spec.controller.chart, chart_values(spec, names, network)),
        depends_on=tuple(needs),
        why="the controller",
    )


def association(names: Names, namespace: str, account: str, role: str) -> Resource:
    """Return what gives a service account its role by Pod Identity."""
    return Resource(
        kind="pod-identity-association",
        name=f"{namespace}/{account}",
        properties={
            "ClusterName": names.of_cluster("name"),
            "Namespace": namespace,
            "ServiceAccount": account,
            "RoleArn": ref(f"iam-role/{role}", "arn"),
        },
    )


def _chart(
    spec: ClusterSpec, chart: Chart, other: str | None, values: Mapping[str, Any]
) -> dict[str, Any]:
    properties: dict[str, Any] = {
        "chart": other or chart.chart,
        "namespace": spec.controller.namespace,
        "createNamespace": spec.controller.create_namespace,
        "values": dict(values),
    }
    version = spec.controller.version or chart.version
    return {**properties, "version": version} if version else properties


def chart_values(spec: ClusterSpec, names: Names, network: Network) -> dict[str, Any]:
    """Return the values of the controller's chart; the user's own win."""
    one = spec.controller
    annotations: dict[str, str] = {}
    if spec.uses_irsa:
        annotations[ROLE_ARN] = ref(f"iam-role/{names.controller_role}", "arn")
    if one.regional_sts:
        annotations[REGIONAL_STS] = "true"
    settings: dict[str, Any] = {
        "clusterName": names.cluster,
        "clusterEndpoint": names.of_cluster("endpoint"),
        **({"interruptionQueue": names.cluster} if one.interruption_queue else {}),
        **({"isolatedVPC": True} if network.isolated else {}),
        **one.settings,
    }
    values: dict[str, Any] = {
        "replicas": one.replicas,
        "serviceAccount": {
            "create": True,
            "name": service_account_of(spec),
            "annotations": annotations,
        },
        "settings": settings,
        "controller": {
            **({"image": _image(one.image)} if one.image else {}),
            "resources": one.resources,
            # Asking the instance metadata for it fails where the hop limit is 1.
            "env": [{"name": "AWS_REGION", "value": aws("region")}],
        },
        **_place(spec),
    }
    return _merged(values, one.values)


def _image(address: str) -> dict[str, str]:
    """Return an image's address in the parts that charts want."""
    rest, _, digest = address.partition("@")
    repository, colon, tag = rest.rpartition(":")
    if not colon or "/" in tag:  # That was a port.
        repository, tag = rest, ""
    found = {"repository": repository, "tag": tag, "digest": digest}
    return {key: value for key, value in found.items() if value}


def _place(spec: ClusterSpec) -> dict[str, Any]:
    home = spec.home
    if isinstance(home, HomeFargate):
        # Else it waits for CoreDNS, which may wait for nodes, which it would buy.
        return {"dnsPolicy": "Default"}
    if isinstance(home, HomeGroup):
        tolerations: list[dict[str, Any]] = [{"key": "CriticalAddonsOnly", "operator": "Exists"}]
        if home.taint:
            tolerations.append({"key": CONTROLLER_TAINT, "operator": "Exists"})
        selector = {"kubernetes.io/os": "linux", **home.selector}
        return {"nodeSelector": selector, "tolerations": tolerations}
    if isinstance(home, HomeExisting) and home.node_selector:
        return {"nodeSelector": {"kubernetes.io/os": "linux", **home.node_selector}}
    return {}


def _merged(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    found = dict(base)
    for key, value in over.items():
        inner = found.get(key)
        if isinstance(inner, Mapping) and isinstance(value, Mapping):
            found[key] = _merged(inner, value)
        else:
            found[key] = value
    return found
