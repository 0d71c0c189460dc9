"""NodePools and node classes as objects, from their short forms."""

from collections.abc import Iterator
from typing import Any, Final

from dovetail.eks.config.cluster import ClusterSpec
from dovetail.eks.config.node_groups import TaintSpec
from dovetail.eks.config.nodepools import Class, Pool, name_of
from dovetail.eks.desired.control_plane import access_address
from dovetail.eks.desired.controller import crd_address, release_address
from dovetail.eks.desired.iam_roles import node_role
from dovetail.eks.desired.names import DISCOVERY, Names
from dovetail.eks.desired.network import Network
from dovetail.eks.desired.node_groups import uses_instance_profile
from dovetail.eks.desired.security_groups import security_addresses
from dovetail.eks.plan.resource import Resource

_FAMILY: Final = "karpenter.k8s.aws/instance-"
ROOT_DEVICE: Final = "/dev/xvda"


def pools(spec: ClusterSpec, names: Names, network: Network) -> Iterator[Resource]:
    """Hand out node classes, then NodePools; the controller must be there to take them back."""
    first = (crd_address(spec), release_address(spec))
    for node_class in spec.node_classes:
        manifest = class_object(node_class, spec, names, network)
        needs = [*first, *_joins(spec, names, network)]
        yield kube_object(manifest, tuple(needs), "what nodes are like")
    for pool in spec.node_pools:
        manifest = pool_object(pool, spec)
        reference = manifest.get("spec", {}).get("template", {}).get("spec", {}).get("nodeClassRef")
        user = str((reference or {}).get("name", ""))
        needs = [*first]
        if user in {name_of(one) for one in spec.node_classes}:
            needs.append(f"kubernetes-object/EC2NodeClass/{user}")
        yield kube_object(manifest, tuple(needs), "which nodes may be bought")


def _joins(spec: ClusterSpec, names: Names, network: Network) -> list[str]:
    """Return what nodes of a class need to get into the cluster."""
    found = security_addresses(spec, names)
    let_in = access_address(spec, names)
    if let_in is not None:
        found.append(let_in)
    if spec.vpc and spec.vpc.existing and spec.vpc.existing.discovery == "tags":
        found.append("ec2-tags/subnets")
    role = node_role(spec, names)
    if uses_instance_profile(spec, network):
        found.append(f"instance-profile/{names.instance_profile}")
    elif spec.iam.node_role.arn is None:
        found.append(f"iam-role/{role}")
    return found


def kube_object(manifest: dict[str, Any], needs: tuple[str, ...], why: str = "") -> Resource:
    """Return a Kubernetes object as a resource."""
    meta = manifest.get("metadata", {})
    parts = [manifest.get("kind"), meta.get("namespace"), meta.get("name")]
    return Resource(
        kind="kubernetes-object",
        name="/".join(str(one) for one in parts if one),
        properties=manifest,
        depends_on=needs,
        why=why,
    )


def class_object(
    one: Class | dict[str, Any], spec: ClusterSpec, names: Names, network: Network
) -> dict[str, Any]:
    """Return an EC2NodeClass."""
    if isinstance(one, dict):
        return one
    identity = {"role": node_role(spec, names)}
    if uses_instance_profile(spec, network):
        identity = {"instanceProfile": names.instance_profile}
    body: dict[str, Any] = {
        **identity,
        **_image(one),
        "subnetSelectorTerms": _subnet_terms(spec, names),
        "securityGroupSelectorTerms": _group_terms(spec, names),
        "metadataOptions": {
            "httpEndpoint": "enabled",
            "httpProtocolIPv6": "disabled",
            "httpPutResponseHopLimit": one.hop_limit,
            "httpTokens": "required",
        },
        "tags": {**spec.tags, **one.tags},
    }
    if one.disk_gib is not None:
        volume = {"volumeSize": f"{one.disk_gib}Gi", "volumeType": "gp3", "encrypted": True}
        body["blockDeviceMappings"] = [{"deviceName": ROOT_DEVICE, "ebs": volume}]
    if one.user_data is not None:
        body["userData"] = one.user_data
    if one.detailed_monitoring:
        body["detailedMonitoring"] = True
    return {
        "apiVersion": "karpenter.k8s.aws/v1",
        "kind": "EC2NodeClass",
        "metadata": {"name": one.name},
        "spec": body,
    }


def _image(one: Class) -> dict[str, Any]:
    if one.image.startswith("ami-"):
        return {"amiSelectorTerms": [{"id": one.image}], "amiFamily": one.image_family or "AL2023"}
    return {"amiSelectorTerms": [{"alias": one.image}]}


def _subnet_terms(spec: ClusterSpec, names: Names) -> list[dict[str, Any]]:
    existing = spec.vpc.existing if spec.vpc else None
    if existing is not None and existing.discovery == "ids":
        if existing.subnets.ids:
            return [{"id": one} for one in existing.subnets.ids]
        return [{"tags": dict(existing.subnets.tags)}]
    return [{"tags": {DISCOVERY: names.cluster}}]


def _group_terms(spec: ClusterSpec, names: Names) -> list[dict[str, Any]]:
    existing = spec.vpc.existing if spec.vpc else None
    groups = existing.security_groups if existing else None
    if groups is not None and groups.ids:
        return [{"id": one} for one in groups.ids]
    if groups is not None:
        return [{"tags": dict(groups.tags)}]
    return [{"tags": {DISCOVERY: names.cluster}}]


def pool_object(one: Pool | dict[str, Any], spec: ClusterSpec) -> dict[str, Any]:
    """Return a NodePool, every setting that people stumble over said out loud."""
    if isinstance(one, dict):
        return one
    template: dict[str, Any] = {
        "requirements": [*requirements_of(one), *one.requirements],
        "nodeClassRef": {
            "group": "karpenter.k8s.aws",
            "kind": "EC2NodeClass",
            "name": one.node_class or name_of(spec.node_classes[0]),
        },
        "expireAfter": duration(one.expire_after),
    }
    if one.termination_grace_period is not None:
        template["terminationGracePeriod"] = duration(one.termination_grace_period)
    if one.taints:
        template["taints"] = [_taint(each) for each in one.taints]
    if one.startup_taints:
        template["startupTaints"] = [_taint(each) for each in one.startup_taints]
    body: dict[str, Any] = {
        "template": {
            **({"metadata": {"labels": dict(one.labels)}} if one.labels else {}),
            "spec": template,
        },
        "disruption": {**_giving_back(one), "budgets": [{"nodes": one.budget}]},
    }
    limits = one.limits.model_dump(exclude_none=True)
    if limits:
        body["limits"] = limits
    if one.weight is not None:
        body["weight"] = one.weight
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": one.name},
        "spec": body,
    }


def _giving_back(one: Pool) -> dict[str, str]:
    if one.ttl_after_empty is not None:
        after = duration(one.ttl_after_empty)
        return {"consolidationPolicy": "WhenEmpty", "consolidateAfter": after}
    after = duration(one.consolidate_after if one.consolidate_after is not None else 0)
    return {"consolidationPolicy": "WhenEmptyOrUnderutilized", "consolidateAfter": after}


def requirements_of(one: Pool) -> list[dict[str, Any]]:
    """Return the requirements that the short fields stand for, in the NodePool's order."""
    asked: list[tuple[str, list[str]]] = [
        ("kubernetes.io/arch", list(one.architectures)),
        ("kubernetes.io/os", ["linux"]),
        ("karpenter.sh/capacity-type", list(one.capacity_types)),
        (f"{_FAMILY}category", one.categories),
        (f"{_FAMILY}family", one.families),
        (f"{_FAMILY}size", one.sizes),
        ("node.kubernetes.io/instance-type", one.instance_types),
        ("topology.kubernetes.io/zone", one.zones),
    ]
    found: list[dict[str, Any]] = [
        {"key": key, "operator": "In", "values": values} for key, values in asked if values
    ]
    if one.newer_than is not None:
        key = f"{_FAMILY}generation"
        found.append({"key": key, "operator": "Gt", "values": [str(one.newer_than)]})
    return found


def _taint(one: TaintSpec) -> dict[str, str]:
    return {"key": one.key, **({"value": one.value} if one.value else {}), "effect": one.effect}


def duration(value: int | str) -> str:
    """Return a length of time as Kubernetes writes it; a bare number counts seconds."""
    return f"{value}s" if isinstance(value, int) else value
