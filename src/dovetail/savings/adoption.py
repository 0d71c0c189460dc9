"""Adoption: a recorded cluster as if NodePools managed all its EC2 nodes.

Nodes of node groups get the labels and the NodeClaim that they would have. So blockers,
consolidation and plans are those of the controllers, whatever launched the nodes.
"""

from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from typing import Any, Final

import msgspec

from dovetail.codec.text.suggestions import pluralize
from dovetail.core.cost.node_groups import GroupKind, NodeGroup, find_node_group, is_adoptable
from dovetail.core.cost.node_prices import get_capacity_type
from dovetail.model import labels as label_keys
from dovetail.model.cloud.ec2_catalog import Region
from dovetail.model.cloud.instance_type import InstanceType
from dovetail.model.node import NodeObject
from dovetail.savings.inferred_pools import (
    InferredPool,
    PoolInference,
    encode_inferred_class,
    encode_inferred_pool,
    find_cluster_name,
)
from dovetail.state.cluster.cache import ClusterCache

UNKNOWN_CLUSTER: Final = "CLUSTER_NAME"
"""In node classes if no label names the cluster."""
_CONDITIONS: Final = ("Launched", "Registered", "Initialized", "Ready", "Consolidatable")

Object = dict[str, Any]


class AdoptedCluster(msgspec.Struct, frozen=True, kw_only=True):
    """The objects of a cluster with inferred NodePools and NodeClaims."""

    objects: tuple[Object, ...]
    inferred: tuple[InferredPool, ...]
    cluster_name: str
    """``UNKNOWN_CLUSTER`` if no label names it."""
    notes: tuple[str, ...]

    @property
    def new_pools(self) -> tuple[InferredPool, ...]:
        """The NodePools that do not exist yet: those of node groups."""
        return tuple(result for result in self.inferred if not _is_missing(result))

    def manifests(self) -> dict[str, list[Object]]:
        """Return file name → objects of the new NodePools and their EC2NodeClasses."""
        aliases = sorted({inferred.alias for inferred in self.new_pools})
        files = {
            f"ec2nodeclass-{alias}.yaml": [encode_inferred_class(alias, self.cluster_name)]
            for alias in aliases
        }
        for inferred in self.new_pools:
            files[f"nodepool-{inferred.pool.name}.yaml"] = [encode_inferred_pool(inferred)]
        return files


def adopt_cluster(
    objects: Sequence[Object],
    cache: ClusterCache,
    types: Mapping[str, InstanceType],
    region: Region,
    *,
    keep_types: bool = False,
) -> AdoptedCluster:
    """Return the cluster with a NodePool and NodeClaim for every replaceable node.

    ``cache`` has the same objects, decoded; ``types`` are those of the region by name.
    """
    groups, without_claim = _find_adoptable(cache)
    own = [pool for pool in cache.pools() if pool.template.node_class.is_supported]
    pools = {pool.name: pool.template.node_class.name for pool in own}
    specs = {pod.spec for node in cache.nodes() for pod in cache.pods_on(node.name)}
    inference = PoolInference(
        types, specs, taken=[pool.name for pool in cache.pools()], keep_types=keep_types
    )
    images = _os_images(objects)
    results = (inference.infer(group, nodes, images) for group, nodes in sorted(groups.items()))
    inferred = tuple(result for result in results if result is not None)
    pool_of = {node: result.pool.name for result in inferred for node in result.nodes}
    pool_of |= {node.name: node.labels[label_keys.NODEPOOL] for node in without_claim}
    classes = {**pools, **{result.pool.name: result.alias for result in inferred}}
    existing = {node_class.name for node_class in cache.node_classes()}
    lacking = sorted(set(pools.values()) - existing)
    name = find_cluster_name(cache.nodes()) or UNKNOWN_CLUSTER
    added = [*_encode_classes(inferred, lacking, existing, name, region)]
    added += [_mark_ready(encode_inferred_pool(result)) for result in inferred]
    changed = []
    for obj in objects:
        pool = pool_of.get(obj["metadata"]["name"]) if obj.get("kind") == "Node" else None
        if pool is not None:
            obj = _label_node(obj, pool)
            added.append(_encode_claim(obj, pool, classes[pool]))
        changed.append(_mark_ready(obj) if obj.get("kind") == "NodePool" else obj)
    return AdoptedCluster(
        objects=(*changed, *added),
        inferred=inferred,
        cluster_name=name,
        notes=tuple(_describe_assumptions(inferred, without_claim, lacking)),
    )


def _find_adoptable(cache: ClusterCache) -> tuple[dict[NodeGroup, list[NodeObject]], list[NodeObject]]:
    """Return the nodes that need a NodePool, by group, and those that need a NodeClaim only."""
    pools = {pool.name for pool in cache.pools()}
    groups: dict[NodeGroup, list[NodeObject]] = {}
    without_claim: list[NodeObject] = []
    for node in sorted(cache.nodes(), key=lambda node: node.name):
        group = find_node_group(node.labels, node.provider_id)
        if not is_adoptable(node.labels, group):
            continue
        if group.kind is GroupKind.NODEPOOL and group.name in pools:
            if not cache.claims_of(node.provider_id):
                without_claim.append(node)
        else:
            groups.setdefault(group, []).append(node)
    return groups, without_claim


def _describe_assumptions(
    inferred: Iterable[InferredPool], without_claim: Sequence[NodeObject], lacking: Sequence[str]
) -> Iterable[str]:
    if without_claim:
        nodes = pluralize(len(without_claim), "node")
        yield f"{nodes} of NodePools without a NodeClaim in the input: assumed"
    if lacking:
        yield f"EC2NodeClass {', '.join(lacking)} is not in the input: AL2023 and all zones assumed"
    for result in inferred:
        if _is_missing(result):
            yield (
                f"{result.group} is not in the input: one is inferred from its nodes for this analysis, and "
                "not written; make a dump that has it with: dovetail dump"
            )
        for note in result.notes:
            yield f"{result.group}: {note}"


def _is_missing(result: InferredPool) -> bool:
    """Return True if nodes name the NodePool: the cluster has it, the input has not."""
    return result.group.kind is GroupKind.NODEPOOL


def _os_images(objects: Iterable[Object]) -> dict[str, str]:
    return {
        obj["metadata"]["name"]: str(((obj.get("status") or {}).get("nodeInfo") or {}).get("osImage") or "")
        for obj in objects
        if obj.get("kind") == "Node"
    }


def _encode_classes(
    inferred: Iterable[InferredPool], lacking: Iterable[str], existing: set[str], cluster: str, region: Region
) -> Iterable[Object]:
    """Yield node classes with the status of zones, as in a cluster where they are in use."""
    status = {
        "subnets": [
            {"id": f"subnet-{zone_id or zone}", "zone": zone, "zoneID": zone_id}
            for zone, zone_id in region.zones.items()
            if zone not in region.sparse_zones
        ],
        "conditions": [_condition("Ready")],
    }
    aliases = {result.alias: result.alias for result in inferred}
    for name, alias in {**dict.fromkeys(lacking, "al2023"), **aliases}.items():
        if name not in existing:
            encoded = encode_inferred_class(alias, cluster)
            encoded["metadata"]["name"] = name
            yield {**encoded, "status": status}


def _mark_ready(pool: Object) -> Object:
    """Return a NodePool that is ready, unless it says otherwise: old versions say nothing."""
    status = pool.get("status") or {}
    conditions = list(status.get("conditions") or ())
    if any(condition.get("type") == "Ready" for condition in conditions):
        return pool
    return {**pool, "status": {**status, "conditions": [*conditions, _condition("Ready")]}}


def _condition(kind: str) -> dict[str, str]:
    return {"type": kind, "status": "True", "reason": kind, "lastTransitionTime": "2026-01-01T00:00:00Z"}


def _label_node(obj: Object, pool: str) -> Object:
    """Return a node with the labels that a NodePool's nodes have."""
    meta = copy(obj["metadata"])
    labels = dict(meta.get("labels") or {})
    labels[label_keys.NODEPOOL] = pool
    labels[label_keys.CAPACITY_TYPE] = get_capacity_type(labels)[0]
    labels[label_keys.REGISTERED] = labels[label_keys.INITIALIZED] = "true"
    spec = dict(obj.get("spec") or {})
    spec["providerID"] = spec.get("providerID") or meta["name"]
    return {**obj, "metadata": {**meta, "labels": labels}, "spec": spec}


def _encode_claim(node: Object, pool: str, node_class: str) -> Object:
    """Return the NodeClaim of a node, as it would be after its initialization."""
    meta, status = node["metadata"], node.get("status") or {}
    created = meta.get("creationTimestamp")
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodeClaim",
        "metadata": {
            "name": f"{pool}-{meta['name']}"[:253],
            "uid": f"adopted-{meta.get('uid') or meta['name']}",
            **({"creationTimestamp": created} if created else {}),
            "labels": {**meta["labels"], label_keys.EC2_NODE_CLASS: node_class},
            "finalizers": [label_keys.TERMINATION_FINALIZER],
        },
        "spec": {
            "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": node_class},
            # Nodes of node groups do not expire; and without it, the default would change the spec.
            "expireAfter": "Never",
            "requirements": [{"key": label_keys.NODEPOOL, "operator": "In", "values": [pool]}],
        },
        "status": {
            "providerID": (node.get("spec") or {}).get("providerID") or meta["name"],
            "nodeName": meta["name"],
            "capacity": status.get("capacity") or {},
            "allocatable": status.get("allocatable") or {},
            "conditions": [_condition(kind) for kind in _CONDITIONS],
        },
    }
