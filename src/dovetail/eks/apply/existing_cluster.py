"""Checks of an existing cluster before apply, for what its file relies on.

``home: existing`` adds a controller to a cluster that others created. What the file
neither creates nor changes must be there already. All errors are reported at once.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from dovetail.aws.filters import format_terms, selector_filters
from dovetail.eks.aws_client import AwsClient, Raw
from dovetail.eks.config.cluster import ClusterConfig
from dovetail.eks.config.node_groups import ExistingCluster
from dovetail.eks.desired.addons import enabled_eks_addons
from dovetail.eks.desired.control_plane import desired_access
from dovetail.eks.desired.iam_roles import node_role_name
from dovetail.eks.desired.names import Names
from dovetail.eks.desired.security_groups import creates_node_security_group
from dovetail.eks.kubernetes.api import DynamicClient
from dovetail.eks.plan.resource import DesiredResource
from dovetail.errors import DovetailError
from dovetail.model.frozen import FrozenDict
from dovetail.model.karpenter.ec2nodeclass_launch import SelectorTerm
from dovetail.ports.api_resources import DAEMON_SETS, DEPLOYMENTS, EC2_NODE_CLASSES, NODES
from dovetail.ports.kube_client import Object

_AGENT: Final = "eks-pod-identity-agent"
_CONFIG_MAP: Final = "CONFIG_MAP"
_OTHER_AUTOSCALERS: Final = ("karpenter", "cluster-autoscaler", "aws-cluster-autoscaler")
_NAME_LABEL: Final = "app.kubernetes.io/name"


class ExistingClusterError(DovetailError):
    """The existing cluster lacks something that the file relies on."""


class ExistingClusterReport(msgspec.Struct, frozen=True):
    """Errors of an existing cluster for this file, and advice."""

    errors: tuple[str, ...] = ()
    """Reasons why nodes would not be launched or not join."""
    advice: tuple[str, ...] = ()


async def examine_existing_cluster(
    config: ClusterConfig, desired: Sequence[DesiredResource], aws: AwsClient, kube: DynamicClient | None
) -> ExistingClusterReport:
    """Compare an existing cluster with what the file expects of it; changes nothing."""
    response = await aws.call_or_none("eks", "describe_cluster", name=config.name)
    if response is None or not isinstance(config.home, ExistingCluster):
        return ExistingClusterReport()
    cluster: Raw = response["cluster"]
    errors = [
        *[error async for error in _access_errors(config, aws, cluster)],
        *[error async for error in _identity_errors(config, aws, cluster, kube)],
        *[error async for error in _network_errors(config, desired, aws, cluster)],
    ]
    advice = [line async for line in _kubernetes_advice(config, kube)]
    return ExistingClusterReport(tuple(errors), tuple(advice))


async def _access_errors(config: ClusterConfig, aws: AwsClient, cluster: Raw) -> AsyncIterator[str]:
    """Yield what prevents that nodes authenticate."""
    mode = (cluster.get("accessConfig") or {}).get("authenticationMode") or _CONFIG_MAP
    names = Names.from_config(config)
    entries = [entry.name for entry in desired_access(config, names)]
    if entries and mode == _CONFIG_MAP:
        yield (
            f"access.mode: cluster {config.name} has authentication mode {_CONFIG_MAP}, and the file needs "
            f"access entries ({', '.join(entries)}): run aws eks update-cluster-config --name {config.name} "
            "--access-config authenticationMode=API_AND_CONFIG_MAP, or set access.mode: aws-auth and "
            "home.nodeRole to a role that aws-auth contains"
        )
    if mode != "API":
        return
    role = node_role_name(config, names)
    if config.access.mode == "aws-auth":
        yield (
            f"access.mode: cluster {config.name} has authentication mode API, which ignores aws-auth; "
            "set access.mode: entries"
        )
    elif not any(name.startswith("node-") for name in entries):
        arns = await aws.list_all("eks", "list_access_entries", "accessEntries", clusterName=config.name)
        if not any(arn.rpartition("/")[2] == role for arn in arns):
            yield (
                f"home.nodeRole: role {role} has no access entry in cluster {config.name}, so its nodes "
                "cannot join; create one of type EC2_LINUX, or leave nodeRole out"
            )


async def _identity_errors(
    config: ClusterConfig, aws: AwsClient, cluster: Raw, kube: DynamicClient | None
) -> AsyncIterator[str]:
    """Yield what prevents that the controller gets credentials."""
    if config.uses_irsa:
        issuer = ((cluster.get("identity") or {}).get("oidc") or {}).get("issuer", "")
        expects_provider = (
            isinstance(config.home, ExistingCluster) and config.home.oidc_provider == "existing"
        )
        if expects_provider and not await _has_provider(aws, issuer.partition("://")[2]):
            yield (
                f"home.oidcProvider: IAM has no OIDC provider for {issuer or 'this cluster'}; "
                "set oidcProvider: create"
            )
        return
    if (cluster.get("computeConfig") or {}).get("enabled"):
        return  # EKS Auto Mode has the agent built in.
    if any(name == _AGENT for name, _ in enabled_eks_addons(config)):
        return
    addons = await aws.list_all("eks", "list_addons", "addons", clusterName=config.name)
    if _AGENT not in addons and not await _has_agent(kube):
        yield (
            f"identity: cluster {config.name} has no Pod Identity agent (add-on {_AGENT}), so the controller "
            "would get no credentials; set addons.pod-identity-agent: true, or identity: irsa"
        )


async def _has_provider(aws: AwsClient, issuer: str) -> bool:
    method, key = "list_open_id_connect_providers", "OpenIDConnectProviderList"
    providers = await aws.list_all("iam", method, key)
    return any(provider["Arn"].partition("/")[2] == issuer for provider in providers)


async def _has_agent(kube: DynamicClient | None) -> bool:
    """Return True if the agent runs without the add-on."""
    return kube is not None and await kube.get(DAEMON_SETS, _AGENT, "kube-system") is not None


async def _network_errors(
    config: ClusterConfig, desired: Sequence[DesiredResource], aws: AwsClient, cluster: Raw
) -> AsyncIterator[str]:
    """Yield selectors of node classes that match nothing, or something in another VPC."""
    vpc = str((cluster.get("resourcesVpcConfig") or {}).get("vpcId") or "")
    existing = config.vpc.existing if config.vpc else None
    subnets_are_tagged_by_plan = existing is not None and existing.discovery == "tags"
    selectors = [] if subnets_are_tagged_by_plan else [("Subnets", "SubnetId", "subnetSelectorTerms")]
    if not creates_node_security_group(config):
        selectors.append(("SecurityGroups", "GroupId", "securityGroupSelectorTerms"))
    seen: set[str] = set()
    for node_class in desired:
        if node_class.properties.get("kind") != EC2_NODE_CLASSES.kind:
            continue
        for what, key, field in selectors:
            terms = _decode_terms(node_class.properties.get("spec", {}).get(field) or [])
            description = f"{field} {format_terms(terms)}"
            if description in seen:
                continue
            seen.add(description)
            for error in await _selection_errors(aws, what, key, terms, vpc):
                yield f"{_field(config, what)}: {description} of node class {_name(node_class)} {error}"


def _decode_terms(terms: Sequence[Mapping[str, Any]]) -> tuple[SelectorTerm, ...]:
    return tuple(
        SelectorTerm(
            id=str(term.get("id") or ""),
            name=str(term.get("name") or ""),
            tags=FrozenDict({str(name): str(value) for name, value in (term.get("tags") or {}).items()}),
        )
        for term in terms
    )


async def _selection_errors(
    aws: AwsClient, what: str, key: str, terms: Sequence[SelectorTerm], vpc: str
) -> list[str]:
    id_key = "subnet-id" if what == "Subnets" else "group-id"
    vpcs: dict[str, str] = {}
    for filters in selector_filters(terms, id_key=id_key, name_key="group-name"):
        for resource in await aws.describe_ec2(what, *filters):
            vpcs[str(resource[key])] = str(resource["VpcId"])
    if not vpcs:
        return ["match nothing in this account and region"]
    return [
        f"match {resource_id} in {vpcs[resource_id]}, but the cluster is in {vpc}"
        for resource_id in sorted(vpcs)
        if vpc and vpcs[resource_id] != vpc
    ]


def _field(config: ClusterConfig, what: str) -> str:
    """Return the field of cluster.yaml that selects the resources."""
    if config.vpc is None or config.vpc.existing is None:
        return "vpc.existing (not set)"
    return "vpc.existing.subnets" if what == "Subnets" else "vpc.existing.securityGroups"


def _name(resource: DesiredResource) -> str:
    return str(resource.properties.get("metadata", {}).get("name", ""))


async def _kubernetes_advice(config: ClusterConfig, kube: DynamicClient | None) -> AsyncIterator[str]:
    """Yield other autoscalers that run, and a cluster without a node for the controller."""
    if kube is None:
        return
    for deployment in await kube.list_objects(DEPLOYMENTS):
        name, namespace = deployment["metadata"]["name"], deployment["metadata"].get("namespace", "")
        if deployment.get("spec", {}).get("replicas", 1) == 0:
            continue
        names = {name, str((deployment["metadata"].get("labels") or {}).get(_NAME_LABEL, ""))}
        other = next((kind for kind in _OTHER_AUTOSCALERS if kind in names), "")
        if other and other != config.controller.kind:
            hint = "; see dovetail migrate check" if other == "karpenter" else ""
            yield (
                f"Deployment {namespace}/{name} ({other}) runs in cluster {config.name} and would add nodes "
                f"for the same pods: scale it to 0 first{hint}"
            )
    if not any(map(_can_host_controller, await kube.list_objects(NODES))):
        yield (
            f"cluster {config.name} has no ready node outside NodePools: the controller stays pending "
            "until there is one"
        )


def _can_host_controller(node: Object) -> bool:
    labels = node["metadata"].get("labels") or {}
    conditions = node.get("status", {}).get("conditions") or ()
    ready = any(item.get("type") == "Ready" and item.get("status") == "True" for item in conditions)
    return ready and "karpenter.sh/nodepool" not in labels
