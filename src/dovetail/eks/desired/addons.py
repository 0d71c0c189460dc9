"""Add-ons: those of EKS, and those that Helm installs."""

import json
from collections.abc import Iterator
from typing import Any

from dovetail.eks.config.addons import Addon, ChartAddon
from dovetail.eks.config.cluster import ClusterSpec
from dovetail.eks.config.node_groups import HomeExisting, HomeFargate, HomeGroup
from dovetail.eks.desired.charts import ADDONS, Chart
from dovetail.eks.desired.names import CONTROLLER_TAINT, Names, pool_addresses
from dovetail.eks.desired.node_groups import home_addresses
from dovetail.eks.plan.resource import Resource


def addons(spec: ClusterSpec, names: Names) -> Iterator[Resource]:
    """Hand out all add-ons that are on."""
    for name, one in eks_addons(spec):
        yield _eks(name, one, spec, names)
    for name, chart in chart_addons(spec):
        yield _release(name, chart, spec)


def eks_addons(spec: ClusterSpec) -> Iterator[tuple[str, Addon]]:
    """Hand out EKS's add-ons that are on; an existing cluster keeps those that it has."""
    chosen = spec.addons
    said = chosen.model_fields_set
    for field, name, one in (
        ("vpc_cni", "vpc-cni", chosen.vpc_cni),
        ("kube_proxy", "kube-proxy", chosen.kube_proxy),
        ("coredns", "coredns", chosen.coredns),
    ):
        if one.enabled and (field in said or not isinstance(spec.home, HomeExisting)):
            yield name, one
    agent = chosen.pod_identity_agent
    if agent is None and not spec.uses_irsa and not isinstance(spec.home, HomeExisting):
        agent = Addon()
    if agent is not None and agent.enabled:
        yield "eks-pod-identity-agent", agent


def chart_addons(spec: ClusterSpec) -> Iterator[tuple[str, ChartAddon]]:
    """Hand out the add-ons that Helm installs, those that are on."""
    for name in ADDONS:
        one = getattr(spec.addons, name.replace("-", "_"))
        if one is not None and one.enabled:
            yield name, one


def system_addresses(spec: ClusterSpec) -> tuple[str, ...]:
    """Return what must be there before other software can run: a home, and DNS."""
    dns = [f"eks-addon/{name}" for name, _ in eks_addons(spec) if name == "coredns"]
    agent = [f"eks-addon/{name}" for name, _ in eks_addons(spec) if name.endswith("-agent")]
    return (*home_addresses(spec), *dns, *agent)


def _eks(name: str, one: Addon, spec: ClusterSpec, names: Names) -> Resource:
    properties: dict[str, Any] = {
        "ClusterName": names.of_cluster("name"),
        "AddonName": name,
        "ResolveConflicts": "OVERWRITE",
    }
    if one.version is not None:
        properties["AddonVersion"] = one.version
    values = {**(_dns_values(spec) if name == "coredns" else {}), **one.values}
    if values:
        properties["ConfigurationValues"] = json.dumps(values, sort_keys=True)
    return Resource(
        kind="eks-addon",
        name=name,
        properties=properties,
        # Pods of CoreDNS need a home; what runs on each node must be there before the nodes.
        depends_on=home_addresses(spec) if name == "coredns" else (),
    )


def _dns_values(spec: ClusterSpec) -> dict[str, Any]:
    if isinstance(spec.home, HomeFargate):
        return {"computeType": "Fargate"} if "kube-system" in spec.home.namespaces else {}
    if isinstance(spec.home, HomeGroup) and spec.home.taint:
        return {"tolerations": [{"key": CONTROLLER_TAINT, "operator": "Exists"}]}
    return {}


def _release(name: str, one: ChartAddon, spec: ClusterSpec) -> Resource:
    chart = ADDONS[name]
    namespace = one.namespace or chart.namespace
    properties: dict[str, Any] = {
        **_source(chart, one.repository),
        "version": one.version or chart.version,
        "namespace": namespace,
        "createNamespace": True,
        "values": one.values,
    }
    return Resource(
        kind="helm-release",
        name=f"{namespace}/{name}",
        properties=properties,
        # Their pods may need nodes that only the controller buys.
        depends_on=pool_addresses(spec),
    )


def _source(chart: Chart, elsewhere: str | None) -> dict[str, str]:
    """Return where a chart is: at its home, or under the same name in a repository or registry."""
    if elsewhere is None:
        known = {"chart": chart.chart, "repository": chart.repository}
        return {key: value for key, value in known.items() if value is not None}
    name = chart.chart.rpartition("/")[2]
    if elsewhere.startswith("oci://"):
        return {"chart": f"{elsewhere.rstrip('/')}/{name}"}
    return {"chart": name, "repository": elsewhere}
