"""Fields of objects that a trace keeps: those that decisions read.

Stricter than a dump: no images, no Services, no messages, no field managers. Labels stay,
because selectors match them; `--anonymise` replaces their values.
"""

import re
from collections.abc import Mapping
from datetime import datetime
from hashlib import blake2b
from typing import Any, Final

import msgspec

from dovetail.dump.strip import strip_object
from dovetail.ports import api_resources as kinds
from dovetail.ports.api_resources import Resource

WORKLOADS: Final = (kinds.DEPLOYMENTS, kinds.STATEFUL_SETS, kinds.REPLICA_SETS)
"""Kinds with a scale. A ReplicaSet of a Deployment is not a workload of its own."""
SETTINGS: Final = (
    *(kinds.NODE_POOLS, kinds.EC2_NODE_CLASSES, kinds.NODE_OVERLAYS, kinds.CAPACITY_BUFFERS),
    *(kinds.DAEMON_SETS, kinds.POD_DISRUPTION_BUDGETS, kinds.PRIORITY_CLASSES, kinds.RUNTIME_CLASSES),
    *(kinds.NAMESPACES, kinds.LIMIT_RANGES, kinds.POD_TEMPLATES, kinds.STORAGE_CLASSES),
    *(kinds.PERSISTENT_VOLUMES, kinds.PERSISTENT_VOLUME_CLAIMS),
)
"""Kinds that are recorded whenever they change."""
ROLLED_OUT: Final = (kinds.DEPLOYMENTS, kinds.STATEFUL_SETS, kinds.DAEMON_SETS)
"""Workloads whose pods are replaced when their template changes."""
TEMPLATE_HASH: Final = "dovetail.sh/template-hash"
"""Annotation of recorded pod templates: hash of the whole template, with all that the trace leaves out."""
PLACEMENT: Final = (kinds.NODES, kinds.NODE_CLAIMS, kinds.CSI_NODES, kinds.PODS)
"""Kinds of the initial state: later they follow from the replayed autoscaler, except pods."""
RECORDED: Final = (*SETTINGS, *WORKLOADS, *PLACEMENT)
"""All kinds that the recorder watches."""
OPTIONAL: Final = (
    *(kinds.NODE_OVERLAYS, kinds.CAPACITY_BUFFERS, kinds.POD_TEMPLATES, kinds.RUNTIME_CLASSES),
    *(kinds.LIMIT_RANGES, kinds.CSI_NODES, kinds.NODE_POOLS, kinds.NODE_CLAIMS, kinds.EC2_NODE_CLASSES),
)
"""Kinds that a cluster may not serve."""

_IDENTITY: Final = ("name", "namespace", "labels", "annotations")
_METADATA: Final = (
    *(*_IDENTITY, "uid", "creationTimestamp", "deletionTimestamp", "ownerReferences", "finalizers"),
)
_OWNER: Final = ("apiVersion", "kind", "name", "uid", "controller")
_WITH_STATUS: Final = (*PLACEMENT, kinds.EC2_NODE_CLASSES)
"""Kinds whose status decisions read. That of workloads is rebuilt by their controllers."""
_NODE_STATUS_DROPPED: Final = ("nodeInfo", "volumesInUse", "volumesAttached")
_POD_SPEC: Final = (
    *("nodeName", "nodeSelector", "affinity", "tolerations", "topologySpreadConstraints", "schedulingGates"),
    *("containers", "initContainers", "volumes", "resources", "overhead", "resourceClaims", "hostNetwork"),
    *("priorityClassName", "priority", "preemptionPolicy", "runtimeClassName", "schedulerName"),
    *("restartPolicy", "terminationGracePeriodSeconds", "os"),
)
_CONTAINER: Final = ("name", "resources", "restartPolicy")
_DEFAULTS: Final = {
    "schedulerName": "default-scheduler",
    "preemptionPolicy": "PreemptLowerPriority",
    "hostNetwork": False,
}
"""Values that the API server sets and that say nothing."""
_WORKLOAD_DROPPED: Final = ("revisionHistoryLimit", "progressDeadlineSeconds", "paused")
_CONTROLLER_ANNOTATIONS: Final = re.compile(r"deployment\.kubernetes\.io/.*|karpenter\..*hash.*")
"""Annotations that controllers write: a change of them is no change of what was asked for."""
_HASH_LABEL: Final = "pod-template-hash"
_HASHED_KINDS: Final = (*ROLLED_OUT, kinds.REPLICA_SETS)
"""ReplicaSets included: a Deployment finds its own by their template."""
_HASH_BYTES: Final = 4
"""No more than the names of ReplicaSets say about a template: they have a hash of it by Kubernetes."""
_DEFAULT_TOLERATIONS: Final = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
_DYNAMICALLY_PROVISIONED: Final = "pv.kubernetes.io/provisioned-by"
_VOLUME_SOURCES: Final = ("persistentVolumeClaim", "ephemeral")

Object = dict[str, Any]

_encode = msgspec.json.Encoder(order="deterministic").encode


def strip_recorded(resource: Resource, obj: Mapping[str, Any]) -> Object:
    """Return an object as the initial state of a trace has it."""
    stripped = strip_object({**obj, "apiVersion": resource.api_version, "kind": resource.kind})
    meta = {key: stripped["metadata"][key] for key in _METADATA if stripped["metadata"].get(key)}
    if "ownerReferences" in meta:
        meta["ownerReferences"] = [
            {key: reference[key] for key in _OWNER if key in reference}
            for reference in meta["ownerReferences"]
        ]
    result = {**stripped, "metadata": meta}
    if resource not in _WITH_STATUS:
        result.pop("status", None)
    if resource is kinds.NODES:
        status = result.get("status") or {}
        result["status"] = {key: value for key, value in status.items() if key not in _NODE_STATUS_DROPPED}
    if resource is kinds.EC2_NODE_CLASSES:
        # Tags of instances often name people and cost centres; those of selector terms stay.
        result["spec"] = {key: value for key, value in (result.get("spec") or {}).items() if key != "tags"}
    for key in ("spec", "template"):
        if key in result:
            result[key] = _keep_scheduling(result[key])
    return _with_template_hash(result, obj) if resource in _HASHED_KINDS else result


def _with_template_hash(stripped: Object, obj: Mapping[str, Any]) -> Object:
    """Annotate a recorded template with the hash of the original: another image is a roll-out, too."""
    template = (stripped.get("spec") or {}).get("template")
    if not isinstance(template, dict):
        return stripped
    original = obj["spec"]["template"]
    meta = original.get("metadata") or {}
    labels = {key: value for key, value in (meta.get("labels") or {}).items() if key != _HASH_LABEL}
    whole = [labels, meta.get("annotations") or {}, original.get("spec")]
    digest = blake2b(_encode(whole), digest_size=_HASH_BYTES, person=b"template")
    kept = dict(template.get("metadata") or {})
    # The letter makes it a word: anonymised names replace it by a keyed hash.
    annotations = {**(kept.get("annotations") or {}), TEMPLATE_HASH: f"h{digest.hexdigest()}"}
    annotated = {**template, "metadata": {**kept, "annotations": annotations}}
    return {**stripped, "spec": {**stripped["spec"], "template": annotated}}


def drop_template_hash(obj: Object) -> Object:
    """Return a recorded object without the hash of its template."""
    template = (obj.get("spec") or {}).get("template")
    if isinstance(template, dict) and isinstance(meta := template.get("metadata"), dict):
        (meta.get("annotations") or {}).pop(TEMPLATE_HASH, None)
    return obj


def requested_form(resource: Resource, stripped: Object) -> Object:
    """Return what a user would apply: without identity, times and what controllers added."""
    meta = {key: value for key, value in stripped["metadata"].items() if key in _IDENTITY}
    annotations = {
        key: value
        for key, value in meta.pop("annotations", {}).items()
        if not _CONTROLLER_ANNOTATIONS.fullmatch(key)
    }
    meta |= {"annotations": annotations} if annotations else {}
    result = {**stripped, "metadata": meta}
    if resource in WORKLOADS:
        spec = result.get("spec") or {}
        result["spec"] = {key: value for key, value in spec.items() if key not in _WORKLOAD_DROPPED}
    if resource is kinds.PERSISTENT_VOLUME_CLAIMS:
        # The simulation binds claims itself.
        result["spec"] = {k: v for k, v in (result.get("spec") or {}).items() if k != "volumeName"}
        meta.pop("annotations", None)
    if resource is kinds.EC2_NODE_CLASSES and isinstance(result.get("status"), Mapping):
        # Heartbeats of conditions are no change of what the class resolves to.
        result["status"] = {key: value for key, value in result["status"].items() if key != "conditions"}
    return result


def is_generated(resource: Resource, stripped: Object) -> bool:
    """Return True if controllers made the object: those of the replay will make theirs."""
    meta = stripped["metadata"]
    if resource in PLACEMENT:
        return True
    if resource is kinds.PERSISTENT_VOLUMES:
        return _DYNAMICALLY_PROVISIONED in (meta.get("annotations") or {})
    owners = meta.get("ownerReferences") or ()
    if resource is kinds.REPLICA_SETS:
        return any(owner.get("controller") and owner.get("kind") == "Deployment" for owner in owners)
    return resource is kinds.PERSISTENT_VOLUME_CLAIMS and bool(owners)


def encode_form(resource: Resource, stripped: Object) -> tuple[bytes, int]:
    """Return what was asked for in a comparable form, and its scale (1 if it has none)."""
    form = requested_form(resource, stripped)
    if resource not in WORKLOADS:
        return _encode(form), 1
    spec = form.get("spec") or {}
    replicas = spec.get("replicas")
    return (
        _encode({**form, "spec": {key: value for key, value in spec.items() if key != "replicas"}}),
        replicas if isinstance(replicas, int) else 1,
    )


def _keep_scheduling(value: Any) -> Any:
    """Reduce every pod spec inside a value to the fields of scheduling."""
    if isinstance(value, Mapping):
        if isinstance(value.get("containers"), list):
            return _reduce_pod_spec(value)
        result = {key: _keep_scheduling(entry) for key, entry in value.items()}
        if isinstance(result.get("metadata"), Mapping):
            meta = result["metadata"]
            result["metadata"] = {
                key: meta[key] for key in ("labels", "annotations", "name") if meta.get(key)
            }
        return result
    if isinstance(value, list):
        return [_keep_scheduling(entry) for entry in value]
    return value


def _reduce_pod_spec(spec: Mapping[str, Any]) -> Object:
    kept = {
        key: spec[key]
        for key in _POD_SPEC
        if spec.get(key) not in (None, "", [], {}) and spec[key] != _DEFAULTS.get(key)
    }
    for key in ("containers", "initContainers"):
        if isinstance(kept.get(key), list):
            kept[key] = [_reduce_container(container) for container in kept[key]]
    volumes = [volume for volume in kept.pop("volumes", ()) if any(key in volume for key in _VOLUME_SOURCES)]
    tolerations = [each for each in kept.pop("tolerations", ()) if not _is_default_toleration(each)]
    kept |= {"volumes": volumes} if volumes else {}
    return kept | ({"tolerations": tolerations} if tolerations else {})


def _reduce_container(container: Any) -> Object:
    """Return name, resources and host ports of a container."""
    kept = {key: container[key] for key in _CONTAINER if container.get(key)}
    host_ports = [port for port in container.get("ports") or () if port.get("hostPort")]
    return {**kept, "ports": host_ports} if host_ports else kept


def _is_default_toleration(toleration: Mapping[str, Any]) -> bool:
    """Return True if an admission plugin added it to every pod."""
    return toleration.get("key") in _DEFAULT_TOLERATIONS and toleration.get("tolerationSeconds") == 300


def parse_time(text: Any) -> datetime | None:
    """Return a time of the API; None if it is missing or not a time."""
    try:
        return msgspec.convert(text, datetime)
    except msgspec.ValidationError:
        return None
