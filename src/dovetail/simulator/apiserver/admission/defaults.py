"""What the server fills in when an object is written."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from dovetail.ports.api_resources import (
    CAPACITY_BUFFERS,
    DAEMON_SETS,
    DEPLOYMENTS,
    EC2_NODE_CLASSES,
    JOBS,
    NAMESPACES,
    NODE_CLAIMS,
    NODE_POOLS,
    NODES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    PODS,
    REPLICA_SETS,
    STATEFUL_SETS,
    Resource,
)
from dovetail.simulator.apiserver.admission.karpenter import (
    fill_in_buffer,
    fill_in_claim,
    fill_in_class,
    fill_in_pool,
)
from dovetail.simulator.apiserver.admission.match_label_keys import merge_label_keys
from dovetail.simulator.apiserver.storage.frozen_object import freeze

_POD_SPEC: Final = {
    "restartPolicy": "Always",
    "terminationGracePeriodSeconds": 30,
    "dnsPolicy": "ClusterFirst",
    "schedulerName": "default-scheduler",
}
_FIVE_MINUTES: Final = tuple(
    freeze({"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300})
    for key in ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
)


def begin(resource: Resource, obj: dict[str, Any]) -> None:
    """Complete a new object in place; replaces parts, never edits them.

    Status belongs to controllers, so a new object has none of its author's;
    except nodes, whose kubelet registers them with their capacity.
    """
    if resource.has_status and resource is not NODES:
        obj.pop("status", None)
    fill_in(resource, obj)
    admit = _ADMISSIONS.get(resource)
    if admit is not None:
        admit(obj)
    status = _FIRST_STATUS.get(resource)
    if status is not None:
        obj["status"] = status(obj)


def fill_in(resource: Resource, obj: dict[str, Any]) -> None:
    """Fill in what the author of an object left out, at every write of it."""
    default = _DEFAULTS.get(resource)
    if default is not None:
        default(obj)


def _pod(obj: dict[str, Any]) -> None:
    spec = obj.get("spec") or {}
    missing = [name for name in _POD_SPEC if spec.get(name) is None]
    if missing:
        obj["spec"] = {**spec, **{name: _POD_SPEC[name] for name in missing}}


def _pod_status(obj: dict[str, Any]) -> dict[str, Any]:
    return {"phase": "Pending", "qosClass": _quality(obj["spec"].get("containers") or ())}


def _stay_a_while(obj: dict[str, Any]) -> None:
    """Have a pod outlast five minutes of a node's silence, unless it says for how long."""
    own = obj["spec"].get("tolerations") or ()
    added = [one for one in _FIVE_MINUTES if not any(_is_about(told, one["key"]) for told in own)]
    if added:
        obj["spec"] = {**obj["spec"], "tolerations": [*own, *added]}


def _is_about(toleration: Mapping[str, Any], key: str) -> bool:
    about = toleration.get("key") or key
    return about == key and toleration.get("effect") in (None, "", "NoExecute")


def _new_pod(obj: dict[str, Any]) -> None:
    merge_label_keys(obj)
    _stay_a_while(obj)


def _job(obj: dict[str, Any]) -> None:
    """Have a Job select its own pods, and no others, by its uid."""
    spec = {"backoffLimit": 6, "completionMode": "NonIndexed", **(obj.get("spec") or {})}
    if spec.get("parallelism") is None:
        spec["parallelism"] = 1
        spec.setdefault("completions", 1)
    if not spec.get("manualSelector"):
        meta, template = obj["metadata"], spec.get("template") or {}
        mine = {"batch.kubernetes.io/controller-uid": meta["uid"]}
        named = {"batch.kubernetes.io/job-name": meta["name"], "job-name": meta["name"]}
        inner = template.get("metadata") or {}
        labels = {**(inner.get("labels") or {}), **mine, **named, "controller-uid": meta["uid"]}
        spec["selector"] = {"matchLabels": mine}
        spec["template"] = {**template, "metadata": {**inner, "labels": labels}}
    obj["spec"] = spec


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
    obj["spec"] = {"finalizers": ["kubernetes"], **(obj.get("spec") or {})}
    meta = obj["metadata"]
    own = {"kubernetes.io/metadata.name": meta["name"]}
    meta["labels"] = {**(meta.get("labels") or {}), **own}


def _one_replica(obj: dict[str, Any]) -> None:
    spec = obj.get("spec") or {}
    if spec.get("replicas") is None:
        obj["spec"] = {**spec, "replicas": 1}


def _rolled_out(
    field: str, rolling: Mapping[str, Any], more: Mapping[str, Any]
) -> Callable[[dict[str, Any]], None]:
    """Fill in how a kind is rolled out; kubectl rollout does not work without being told."""
    by_default = freeze(more)

    def fill(obj: dict[str, Any]) -> None:
        spec = {**by_default, **(obj.get("spec") or {})}
        strategy = {"type": "RollingUpdate", **(spec.get(field) or {})}
        if strategy["type"] == "RollingUpdate":
            strategy["rollingUpdate"] = {**rolling, **(strategy.get("rollingUpdate") or {})}
        spec[field] = strategy
        obj["spec"] = spec

    return fill


_HISTORY: Final = {"revisionHistoryLimit": 10}
_FOR_DEPLOYMENTS: Final = {**_HISTORY, "replicas": 1, "progressDeadlineSeconds": 600}
_FOR_STATEFUL_SETS: Final = {
    **_HISTORY,
    "replicas": 1,
    "podManagementPolicy": "OrderedReady",
    "persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Retain", "whenScaled": "Retain"},
}


_DEFAULTS: Final[dict[Resource, Callable[[dict[str, Any]], None]]] = {
    PODS: _pod,
    NAMESPACES: _namespace,
    DEPLOYMENTS: _rolled_out(
        "strategy", {"maxSurge": "25%", "maxUnavailable": "25%"}, _FOR_DEPLOYMENTS
    ),
    REPLICA_SETS: _one_replica,
    STATEFUL_SETS: _rolled_out("updateStrategy", {"partition": 0}, _FOR_STATEFUL_SETS),
    DAEMON_SETS: _rolled_out("updateStrategy", {"maxUnavailable": 1, "maxSurge": 0}, _HISTORY),
    NODE_POOLS: fill_in_pool,
    NODE_CLAIMS: fill_in_claim,
    EC2_NODE_CLASSES: fill_in_class,
    CAPACITY_BUFFERS: fill_in_buffer,
}
_ADMISSIONS: Final[dict[Resource, Callable[[dict[str, Any]], None]]] = {
    PODS: _new_pod,
    JOBS: _job,
}
"""What admission plugins add to new objects, which later writes may not take for granted."""
_FIRST_STATUS: Final[dict[Resource, Callable[[dict[str, Any]], dict[str, Any]]]] = {
    PODS: _pod_status,
    NAMESPACES: lambda _: {"phase": "Active"},
    PERSISTENT_VOLUMES: lambda _: {"phase": "Pending"},
    PERSISTENT_VOLUME_CLAIMS: lambda _: {"phase": "Pending"},
}
