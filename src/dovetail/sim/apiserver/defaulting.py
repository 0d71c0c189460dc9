"""What the server fills in when an object is created."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from dovetail.ports.resources import (
    DEPLOYMENTS,
    NAMESPACES,
    NODES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    PODS,
    REPLICA_SETS,
    STATEFUL_SETS,
    Resource,
)

_POD_SPEC: Final = {
    "restartPolicy": "Always",
    "terminationGracePeriodSeconds": 30,
    "dnsPolicy": "ClusterFirst",
    "schedulerName": "default-scheduler",
}


def fill_in(resource: Resource, obj: dict[str, Any]) -> None:
    """Complete a new object in place; replaces parts, never edits them.

    Status belongs to controllers, so a new object has none of its author's;
    except nodes, whose kubelet registers them with their capacity.
    """
    if resource.has_status and resource is not NODES:
        obj.pop("status", None)
    default = _DEFAULTS.get(resource)
    if default is not None:
        default(obj)


def _pod(obj: dict[str, Any]) -> None:
    spec = obj["spec"] = {**_POD_SPEC, **(obj.get("spec") or {})}
    obj["status"] = {"phase": "Pending", "qosClass": _quality(spec.get("containers") or ())}


def _quality(containers: Any) -> str:
    """Return the quality-of-service class, from cpu and memory of the containers."""
    bounded, asked = True, False
    for container in containers:
        resources: Mapping[str, Any] = container.get("resources") or {}
        limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
        for name in ("cpu", "memory"):
            asked = asked or name in limits or name in requests
            whole = name in limits and requests.get(name, limits[name]) == limits[name]
            bounded = bounded and whole
    if not asked:
        return "BestEffort"
    return "Guaranteed" if bounded else "Burstable"


def _namespace(obj: dict[str, Any]) -> None:
    obj["spec"] = {"finalizers": ["kubernetes"]}
    obj["status"] = {"phase": "Active"}
    meta = obj["metadata"]
    meta["labels"] = {**(meta.get("labels") or {}), "kubernetes.io/metadata.name": meta["name"]}


def _one_replica(obj: dict[str, Any]) -> None:
    obj["spec"] = {"replicas": 1, **(obj.get("spec") or {})}


def _pending(obj: dict[str, Any]) -> None:
    obj["status"] = {"phase": "Pending"}


_DEFAULTS: Final[dict[Resource, Callable[[dict[str, Any]], None]]] = {
    PODS: _pod,
    NAMESPACES: _namespace,
    DEPLOYMENTS: _one_replica,
    REPLICA_SETS: _one_replica,
    STATEFUL_SETS: _one_replica,
    PERSISTENT_VOLUMES: _pending,
    PERSISTENT_VOLUME_CLAIMS: _pending,
}
