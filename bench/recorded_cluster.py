"""Dump of a large cluster: a small one, launched by the controllers, repeated under new names."""

from collections.abc import Iterator
from typing import Any

from bench.steady_cluster import NAMESPACE, SteadyCluster
from dovetail.ports.api_resources import NAMESPACES, RESOURCES
from dovetail.simulator.apiserver.storage.frozen_object import Object, thaw

_MAX_NODES = 100
"""Of the small cluster; larger ones take longer to launch."""
_SHARED = ("NodePool", "EC2NodeClass", "DaemonSet", "ControllerRevision", "PriorityClass", "StorageClass")
"""Kinds that all copies share."""
_LEFT_OUT = ("Event", "Lease", "Namespace", "VolumeAttachment")


def record_cluster(*, nodes: int, pods: int, seed: int, policy: str) -> tuple[list[dict[str, Any]], Any]:
    """Return the objects of about ``nodes`` nodes with ``pods`` pods, and the time of the dump."""
    copies = -(-nodes // _MAX_NODES)
    small = SteadyCluster(nodes=nodes // copies, pods=pods // copies, seed=seed, policy=policy)
    small.build()
    cluster = small.cluster
    objects = [
        obj
        for resource in RESOURCES
        if resource is not NAMESPACES and resource.kind not in _LEFT_OUT
        for obj in cluster.api.list(resource).items
    ]
    recorded = [thaw(obj) for obj in objects if obj["kind"] in _SHARED]
    shared = {obj["metadata"]["uid"] for obj in recorded}
    for number in range(copies):
        for obj in objects:
            if obj["kind"] not in _SHARED:
                recorded.append(_copy(obj, number, shared))
        recorded += _budgets(objects, number)
    return recorded, cluster.clock.now()


def _copy(obj: Object, number: int, shared: set[str]) -> dict[str, Any]:
    """Return an object under the names of a copy; copy 0 has the original ones."""
    copy: dict[str, Any] = thaw(obj)
    meta = copy["metadata"]
    meta["uid"] = _uid(meta["uid"], number, shared)
    for owner in meta.get("ownerReferences") or ():
        if owner["uid"] not in shared:
            owner["uid"] = _uid(owner["uid"], number, shared)
            if owner["kind"] in ("Node", "NodeClaim"):
                owner["name"] = _rename(owner["name"], number)
    if meta.get("namespace") == NAMESPACE:
        meta["namespace"] = f"{NAMESPACE}-{number}"
    elif copy["kind"] != "ReplicaSet":
        meta["name"] = _rename(meta["name"], number)
    for part in (copy.get("spec") or {}, copy.get("status") or {}):
        _rename_fields(part, number)
    labels = meta.get("labels") or {}
    if "kubernetes.io/hostname" in labels:
        labels["kubernetes.io/hostname"] = meta["name"]
    return copy


def _rename_fields(part: dict[str, Any], number: int) -> None:
    if "nodeName" in part:
        part["nodeName"] = _rename(part["nodeName"], number)
    if "providerID" in part:
        head, _, instance = part["providerID"].rpartition("/")
        part["providerID"] = f"{head}/i-{number:02x}{instance[4:]}"


def _budgets(objects: list[Object], number: int) -> Iterator[dict[str, Any]]:
    for obj in objects:
        if obj["kind"] == "Deployment":
            yield {
                "apiVersion": "policy/v1",
                "kind": "PodDisruptionBudget",
                "metadata": {"name": obj["metadata"]["name"], "namespace": f"{NAMESPACE}-{number}"},
                "spec": {"maxUnavailable": "10%", "selector": obj["spec"]["selector"]},
            }


def _uid(uid: str, number: int, shared: set[str]) -> str:
    return uid if uid in shared else f"{uid[:19]}{number:04x}{uid[23:]}"


def _rename(name: str, number: int) -> str:
    """Return the name in a copy: another network for nodes, a suffix for others."""
    if name.startswith("ip-10-"):
        return f"ip-{10 + number}-{name.removeprefix('ip-10-')}"
    return f"{name}-{number}"
