"""Desired NodePools and node classes, from their short or full forms."""

from collections.abc import Iterator
from typing import Any, Final

from dovetail.core.instancetypes.ami_families import GIB, ami_family_facts
from dovetail.eks.config.cluster import ClusterConfig
from dovetail.eks.config.node_groups import TaintConfig
from dovetail.eks.config.nodepools import NodeClassConfig, NodePoolConfig, entry_name
from dovetail.eks.desired.control_plane import node_access_address
from dovetail.eks.desired.controller import crd_address, release_address
from dovetail.eks.desired.iam_roles import node_role_name
from dovetail.eks.desired.names import DISCOVERY, Names
from dovetail.eks.desired.network import Network
from dovetail.eks.desired.node_groups import uses_instance_profile
from dovetail.eks.desired.security_groups import security_group_addresses
from dovetail.eks.plan.resource import DesiredResource
from dovetail.model.karpenter.ami_family import DEFAULT_AMI_FAMILY, AmiFamily
from dovetail.model.labels import CAPACITY_TYPE

_DEFAULT_BUDGET: Final = "10%"
_INSTANCE_LABEL_PREFIX: Final = "karpenter.k8s.aws/instance-"
ROOT_DEVICE: Final = "/dev/xvda"
SPOT_ROLE: Final = "AWSServiceRoleForEC2Spot"
"""Role that EC2 needs for spot instances; one per account."""


def desired_nodepools(config: ClusterConfig, names: Names, network: Network) -> Iterator[DesiredResource]:
    """Yield node classes, then NodePools.

    They depend on the controller: on deletion it must run to process finalizers.
    """
    prerequisites = [crd_address(config), release_address(config)]
    if uses_spot(config):
        prerequisites.append(f"service-linked-role/{SPOT_ROLE}")
        yield DesiredResource(
            kind="service-linked-role",
            name=SPOT_ROLE,
            properties={"AWSServiceName": "spot.amazonaws.com"},
            purpose="lets EC2 launch spot instances; stays in the account",
        )
    for node_class in config.node_classes:
        manifest = nodeclass_manifest(node_class, config, names, network)
        depends_on = [*prerequisites, *_join_prerequisites(config, names, network)]
        yield kubernetes_object(manifest, tuple(depends_on), "template of nodes")
    for pool in config.node_pools:
        manifest = nodepool_manifest(pool, config)
        reference = manifest.get("spec", {}).get("template", {}).get("spec", {}).get("nodeClassRef")
        class_name = str((reference or {}).get("name", ""))
        depends_on = [*prerequisites]
        if class_name in {entry_name(entry) for entry in config.node_classes}:
            depends_on.append(f"kubernetes-object/EC2NodeClass/{class_name}")
        yield kubernetes_object(manifest, tuple(depends_on), "nodes that can be launched")


def uses_spot(config: ClusterConfig) -> bool:
    """Return True if a NodePool can launch spot instances."""
    for pool in config.node_pools:
        spec = nodepool_manifest(pool, config).get("spec", {}).get("template", {}).get("spec", {})
        for requirement in spec.get("requirements") or ():
            if isinstance(requirement, dict) and requirement.get("key") == CAPACITY_TYPE:
                values = requirement.get("values") or ()
                if ("spot" in values) == (requirement.get("operator") == "In"):
                    return True
    return False


def _join_prerequisites(config: ClusterConfig, names: Names, network: Network) -> list[str]:
    """Return the addresses of resources that nodes need to join the cluster."""
    addresses = security_group_addresses(config, names)
    access_entry = node_access_address(config, names)
    if access_entry is not None:
        addresses.append(access_entry)
    if config.vpc and config.vpc.existing and config.vpc.existing.discovery == "tags":
        addresses.append("ec2-tags/subnets")
    role = node_role_name(config, names)
    if uses_instance_profile(config, network):
        addresses.append(f"instance-profile/{names.instance_profile}")
    elif config.iam.node_role.arn is None:
        addresses.append(f"iam-role/{role}")
    return addresses


def kubernetes_object(
    manifest: dict[str, Any], depends_on: tuple[str, ...], purpose: str = ""
) -> DesiredResource:
    """Return a Kubernetes object as a resource."""
    metadata = manifest.get("metadata", {})
    parts = [manifest.get("kind"), metadata.get("namespace"), metadata.get("name")]
    return DesiredResource(
        kind="kubernetes-object",
        name="/".join(str(part) for part in parts if part),
        properties=manifest,
        depends_on=depends_on,
        purpose=purpose,
    )


def nodeclass_manifest(
    entry: NodeClassConfig | dict[str, Any], config: ClusterConfig, names: Names, network: Network
) -> dict[str, Any]:
    """Return the manifest of an EC2NodeClass."""
    if isinstance(entry, dict):
        return entry
    identity = {"role": node_role_name(config, names)}
    if uses_instance_profile(config, network):
        identity = {"instanceProfile": names.instance_profile}
    body: dict[str, Any] = {
        **identity,
        **_ami_terms(entry),
        "subnetSelectorTerms": _subnet_terms(config, names),
        "securityGroupSelectorTerms": _group_terms(config, names),
        "metadataOptions": {
            "httpEndpoint": "enabled",
            "httpProtocolIPv6": "enabled" if config.ip_family == "ipv6" else "disabled",
            "httpPutResponseHopLimit": entry.hop_limit,
            "httpTokens": "required",
        },
        "tags": {**config.tags, **entry.tags},
    }
    if entry.disk_gib is not None:
        body["blockDeviceMappings"] = _volumes(entry, entry.disk_gib)
    if entry.user_data is not None:
        body["userData"] = entry.user_data
    if entry.detailed_monitoring:
        body["detailedMonitoring"] = True
    return {
        "apiVersion": "karpenter.k8s.aws/v1",
        "kind": "EC2NodeClass",
        "metadata": {"name": entry.name},
        "spec": body,
    }


def _ami_terms(entry: NodeClassConfig) -> dict[str, Any]:
    if entry.image.startswith("ami-"):
        return {
            "amiSelectorTerms": [{"id": entry.image}],
            "amiFamily": entry.image_family or DEFAULT_AMI_FAMILY.value,
        }
    return {"amiSelectorTerms": [{"alias": entry.image}]}


def _volumes(entry: NodeClassConfig, disk_gib: int) -> list[dict[str, Any]]:
    """Return the volumes of a node: images and pods have ``disk_gib``.

    Bottlerocket has a volume of its own for the operating system.
    """
    facts = ami_family_facts(_ami_family(entry))
    sizes = {facts.data_device or ROOT_DEVICE: disk_gib}
    if facts.system_bytes:
        sizes = {ROOT_DEVICE: facts.system_bytes // GIB, **sizes}
    return [
        {"deviceName": device, "ebs": {"volumeSize": f"{size}Gi", "volumeType": "gp3", "encrypted": True}}
        for device, size in sizes.items()
    ]


def _ami_family(entry: NodeClassConfig) -> AmiFamily:
    if entry.image.startswith("ami-"):
        return AmiFamily.parse(entry.image_family or DEFAULT_AMI_FAMILY.value)
    alias = entry.image.partition("@")[0]
    return next((family for family in AmiFamily if family.value.lower() == alias), DEFAULT_AMI_FAMILY)


def _subnet_terms(config: ClusterConfig, names: Names) -> list[dict[str, Any]]:
    existing = config.vpc.existing if config.vpc else None
    if existing is not None and existing.discovery == "ids":
        if existing.subnets.ids:
            return [{"id": subnet_id} for subnet_id in existing.subnets.ids]
        return [{"tags": dict(existing.subnets.tags)}]
    return [{"tags": {DISCOVERY: names.cluster}}]


def _group_terms(config: ClusterConfig, names: Names) -> list[dict[str, Any]]:
    existing = config.vpc.existing if config.vpc else None
    groups = existing.security_groups if existing else None
    if groups is not None and groups.ids:
        return [{"id": group_id} for group_id in groups.ids]
    if groups is not None:
        return [{"tags": dict(groups.tags)}]
    return [{"tags": {DISCOVERY: names.cluster}}]


def nodepool_manifest(entry: NodePoolConfig | dict[str, Any], config: ClusterConfig) -> dict[str, Any]:
    """Return the manifest of a NodePool, with surprising defaults made explicit."""
    if isinstance(entry, dict):
        return entry
    template: dict[str, Any] = {
        "requirements": [*short_requirements(entry), *entry.requirements],
        "nodeClassRef": {
            "group": "karpenter.k8s.aws",
            "kind": "EC2NodeClass",
            "name": entry.node_class or entry_name(config.node_classes[0]),
        },
        "expireAfter": format_duration(entry.expire_after),
    }
    if entry.termination_grace_period is not None:
        template["terminationGracePeriod"] = format_duration(entry.termination_grace_period)
    if entry.taints:
        template["taints"] = [_taint(taint) for taint in entry.taints]
    if entry.startup_taints:
        template["startupTaints"] = [_taint(taint) for taint in entry.startup_taints]
    body: dict[str, Any] = {
        "template": {
            **({"metadata": {"labels": dict(entry.labels)}} if entry.labels else {}),
            "spec": template,
        },
        "disruption": {**_consolidation(entry), "budgets": _budgets(entry)},
    }
    limits = entry.limits.model_dump(exclude_none=True)
    if limits:
        body["limits"] = limits
    if entry.weight is not None:
        body["weight"] = entry.weight
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": entry.name},
        "spec": body,
    }


def _consolidation(entry: NodePoolConfig) -> dict[str, str]:
    if entry.ttl_after_empty is not None:
        after = format_duration(entry.ttl_after_empty)
        return {"consolidationPolicy": "WhenEmpty", "consolidateAfter": after}
    after = format_duration(entry.consolidate_after if entry.consolidate_after is not None else 0)
    return {"consolidationPolicy": "WhenEmptyOrUnderutilized", "consolidateAfter": after}


def _budgets(entry: NodePoolConfig) -> list[dict[str, Any]]:
    if entry.budget is not None:
        return [{"nodes": entry.budget}]
    if entry.ttl_after_empty is None:
        return [{"nodes": _DEFAULT_BUDGET}]
    # As with Provisioners: empty nodes have no pods to disrupt, and go all at once.
    others = {"nodes": _DEFAULT_BUDGET, "reasons": ["Underutilized", "Drifted"]}
    return [{"nodes": "100%", "reasons": ["Empty"]}, others]


def short_requirements(entry: NodePoolConfig) -> list[dict[str, Any]]:
    """Return the requirements that the short fields stand for."""
    fields: list[tuple[str, list[str]]] = [
        ("kubernetes.io/arch", list(entry.architectures)),
        ("kubernetes.io/os", ["linux"]),
        (CAPACITY_TYPE, list(entry.capacity_types)),
        (f"{_INSTANCE_LABEL_PREFIX}category", entry.categories),
        (f"{_INSTANCE_LABEL_PREFIX}family", entry.families),
        (f"{_INSTANCE_LABEL_PREFIX}size", entry.sizes),
        ("node.kubernetes.io/instance-type", entry.instance_types),
        ("topology.kubernetes.io/zone", entry.zones),
    ]
    requirements: list[dict[str, Any]] = [
        {"key": key, "operator": "In", "values": values} for key, values in fields if values
    ]
    if entry.newer_than is not None:
        key = f"{_INSTANCE_LABEL_PREFIX}generation"
        requirements.append({"key": key, "operator": "Gt", "values": [str(entry.newer_than)]})
    return requirements


def _taint(taint: TaintConfig) -> dict[str, str]:
    return {"key": taint.key, **({"value": taint.value} if taint.value else {}), "effect": taint.effect}


def format_duration(value: int | str) -> str:
    """Return a duration in Kubernetes' format; a number is in seconds."""
    return f"{value}s" if isinstance(value, int) else value
