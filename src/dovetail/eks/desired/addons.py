"""Desired add-ons: EKS add-ons, and Helm charts."""

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from dovetail.codec.text.suggestions import suggest
from dovetail.eks.config.addons import Addon, Addons, ChartAddon, EksAddon
from dovetail.eks.config.cluster import ClusterConfig
from dovetail.eks.config.node_groups import ControllerFargate, ControllerNodeGroup, ExistingCluster
from dovetail.eks.config.nodepools import NodeClassConfig
from dovetail.eks.desired.charts import ADDONS, EKS_ADDONS, Chart
from dovetail.eks.desired.iam_roles import addon_identity, has_windows_node_groups, pod_identity_association
from dovetail.eks.desired.names import CONTROLLER_TAINT, Names, nodepool_addresses
from dovetail.eks.desired.node_groups import compute_addresses, fargate_namespaces, gpu_notes
from dovetail.eks.plan.references import ref
from dovetail.eks.plan.resource import DesiredResource

POD_IDENTITY_AGENT: Final = "eks-pod-identity-agent"


def desired_addons(
    config: ClusterConfig, names: Names, newest_versions: Mapping[str, str]
) -> Iterator[DesiredResource]:
    """Yield all enabled add-ons; ``newest_versions`` are for those without a version."""
    for name, addon in enabled_eks_addons(config):
        yield _eks_addon(name, addon, addon.version or newest_versions.get(name), config, names)
    for name, addon in config.addons.others.items():
        if addon.enabled:
            yield from _other_eks_addon(
                name, addon, addon.version or newest_versions.get(name), config, names
            )
    for name, chart in enabled_chart_addons(config):
        yield _helm_release(name, chart, config)


def file_notes(config: ClusterConfig) -> Iterator[str]:
    """Yield what the user of a file should know: add-ons that may be mistyped, GPUs."""
    yield from gpu_notes(config)
    fields = {field.alias or name for name, field in Addons.model_fields.items()}
    for name in config.addons.others:
        hint = suggest(name, sorted({*EKS_ADDONS, *fields}))
        if name not in EKS_ADDONS and hint:
            yield f"addons.{name}: is taken as the name of an EKS add-on that is not known here{hint}"


def enabled_eks_addons(config: ClusterConfig) -> Iterator[tuple[str, Addon]]:
    """Yield the enabled EKS add-ons with a field; an existing cluster keeps those it has."""
    addons = config.addons
    set_fields = addons.model_fields_set
    for field, name, addon in (
        ("vpc_cni", "vpc-cni", addons.vpc_cni),
        ("kube_proxy", "kube-proxy", addons.kube_proxy),
        ("coredns", "coredns", addons.coredns),
    ):
        if addon.enabled and (field in set_fields or not isinstance(config.home, ExistingCluster)):
            yield name, addon
    agent = addons.pod_identity_agent
    if agent is None and not config.uses_irsa and not isinstance(config.home, ExistingCluster):
        agent = Addon()
    if agent is not None and agent.enabled:
        yield POD_IDENTITY_AGENT, agent


def enabled_chart_addons(config: ClusterConfig) -> Iterator[tuple[str, ChartAddon]]:
    """Yield the enabled add-ons that Helm installs."""
    for name in ADDONS:
        addon = getattr(config.addons, name.replace("-", "_"))
        if addon is not None and addon.enabled:
            yield name, addon


def system_addresses(config: ClusterConfig) -> tuple[str, ...]:
    """Return the prerequisites of other software: compute, DNS, Pod Identity agent."""
    dns = [f"eks-addon/{name}" for name, _ in enabled_eks_addons(config) if name == "coredns"]
    agent = [f"eks-addon/{name}" for name, _ in enabled_eks_addons(config) if name == POD_IDENTITY_AGENT]
    return (*compute_addresses(config), *dns, *agent)


def unpinned_addons(config: ClusterConfig) -> list[str]:
    """Return the enabled EKS add-ons that have no version in the file."""
    others = ((name, addon) for name, addon in config.addons.others.items() if addon.enabled)
    return [name for name, addon in (*enabled_eks_addons(config), *others) if addon.version is None]


def _eks_addon(
    name: str, addon: Addon, version: str | None, config: ClusterConfig, names: Names
) -> DesiredResource:
    properties: dict[str, Any] = {
        "ClusterName": names.cluster_ref("name"),
        "AddonName": name,
        "ResolveConflicts": "OVERWRITE",
    }
    if version is not None:
        properties["AddonVersion"] = version
    defaults: dict[str, Any] = {}
    if name == "coredns":
        defaults = _dns_values(config)
    elif name == "vpc-cni" and _has_windows_nodes(config):
        defaults = {"enableWindowsIpam": "true"}
    values = {**defaults, **addon.values}
    if values:
        properties["ConfigurationValues"] = json.dumps(values, sort_keys=True)
    return DesiredResource(
        kind="eks-addon",
        name=name,
        properties=properties,
        # CoreDNS pods need nodes. The other add-ons run on each node and must exist before.
        depends_on=compute_addresses(config) if name == "coredns" else (),
    )


def _other_eks_addon(
    name: str, addon: EksAddon, version: str | None, config: ClusterConfig, names: Names
) -> Iterator[DesiredResource]:
    """Yield an add-on that pods of the cluster use, and the association with its role."""
    resource = _eks_addon(name, addon, version, config, names)
    properties: dict[str, Any] = dict(resource.properties)
    # Their pods may need nodes that only the controller launches.
    dependencies = [*nodepool_addresses(config)]
    identity, role = addon_identity(name, addon), names.addon_role(name)
    if identity is not None and config.uses_irsa:
        properties["ServiceAccountRoleArn"] = ref(f"iam-role/{role}", "arn")
        if getattr(config.home, "oidc_provider", "create") == "create":
            dependencies.append(f"oidc-provider/{names.cluster}")
    elif identity is not None:
        association = pod_identity_association(names, identity.namespace, identity.service_account, role)
        yield association
        # Pods get the role only if the association exists when they start.
        dependencies.append(association.address)
    yield msgspec.structs.replace(resource, properties=properties, depends_on=tuple(dependencies))


def _has_windows_nodes(config: ClusterConfig) -> bool:
    """Return True if the VPC CNI must assign addresses to pods on Windows nodes."""
    images = [
        entry.image if isinstance(entry, NodeClassConfig) else str(entry.get("spec", {}))
        for entry in config.node_classes
    ]
    return has_windows_node_groups(config) or any("windows" in image.lower() for image in images)


def _dns_values(config: ClusterConfig) -> dict[str, Any]:
    if isinstance(config.home, ControllerFargate):
        return {"computeType": "Fargate"} if "kube-system" in config.home.namespaces else {}
    if isinstance(config.home, ControllerNodeGroup) and config.home.taint:
        return {"tolerations": [{"key": CONTROLLER_TAINT, "operator": "Exists"}]}
    return {}


def _helm_release(name: str, addon: ChartAddon, config: ClusterConfig) -> DesiredResource:
    chart = ADDONS[name]
    namespace = addon.namespace or chart.namespace
    properties: dict[str, Any] = {
        **_source(chart, addon.repository),
        "version": addon.version or chart.version,
        "namespace": namespace,
        "createNamespace": True,
        "values": {**_fargate_values(name, namespace, config), **addon.values},
    }
    return DesiredResource(
        kind="helm-release",
        name=f"{namespace}/{name}",
        properties=properties,
        # Their pods may need nodes that only the controller launches.
        depends_on=nodepool_addresses(config),
    )


def _fargate_values(name: str, namespace: str, config: ClusterConfig) -> dict[str, Any]:
    """Return values for charts whose default port is reserved on Fargate.

    AWS reserves port 10250 there for the kubelet; its documentation of
    metrics-server uses 10251.
    """
    if name == "metrics-server" and namespace in fargate_namespaces(config):
        return {"containerPort": 10251}
    return {}


def _source(chart: Chart, repository: str | None) -> dict[str, str]:
    """Return the source of a chart: its own, or a mirror with the same name."""
    if repository is None:
        source = {"chart": chart.chart, "repository": chart.repository}
        return {key: value for key, value in source.items() if value is not None}
    name = chart.chart.rpartition("/")[2]
    if repository.startswith("oci://"):
        return {"chart": f"{repository.rstrip('/')}/{name}"}
    return {"chart": name, "repository": repository}
