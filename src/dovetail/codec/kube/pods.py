"""Decoders of pods and pod templates."""

from collections.abc import Mapping
from typing import Any

import msgspec

from dovetail.codec.fields import Field
from dovetail.codec.kube.metadata import Metadata, decode_annotations, decode_metadata
from dovetail.codec.kube.pod_specs import NO_ALLOCATIONS, Allocations, decode_pod_spec
from dovetail.codec.quantities import decode_resources, decode_time
from dovetail.model.kube.conditions import READY
from dovetail.model.kube.pod import OwnerReference, Pod, PodPhase
from dovetail.model.kube.resources import NO_RESOURCES, Resources

SYSTEM_PRIORITIES = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}

_SHARED_METADATA = (
    "name",
    "namespace",
    "uid",
    "labels",
    "annotations",
    "ownerReferences",
    "creationTimestamp",
)
_CONTAINER_STATUSES = ("containerStatuses", "initContainerStatuses")
_PHASES: dict[str, PodPhase] = {phase.value: phase for phase in PodPhase}


def decode_pod(root: Field) -> Pod:
    """Decode a core/v1 Pod."""
    meta, spec, status = decode_metadata(root), root["spec"], root["status"]
    allocated, infeasible = _decode_allocations(status)
    phase = status.text_of("phase") or PodPhase.PENDING
    return Pod(
        name=meta.name,
        namespace=meta.namespace,
        uid=meta.uid,
        labels=meta.labels,
        annotations=meta.annotations,
        owner=meta.owner,
        spec=decode_pod_spec(
            spec, labels=meta.labels, pod_name=meta.name, allocated=allocated, infeasible=infeasible
        ),
        node_name=spec.text_of("nodeName"),
        phase=_PHASES.get(phase, PodPhase.UNKNOWN),
        created=meta.created,
        start_time=decode_time(status["startTime"]) if status.has_value("startTime") else None,
        deleting=meta.deleting,
        deleted_at=meta.deleted_at,
        termination_grace_period_seconds=spec["terminationGracePeriodSeconds"].integer(low=0),
        priority=_decode_priority(spec),
        priority_class=spec.text_of("priorityClassName"),
        nominated_node_name=status.text_of("nominatedNodeName"),
        **_decode_conditions(status),
    )


def update_pod(root: Field, old: Mapping[str, Any], pod: Pod) -> Pod | None:
    """Decode a newer version of a pod that shares parts with the old one.

    None if more than the status, the node and the deletion may have changed. Parts are
    compared by identity, so that only objects of an API server in this process share them.
    """
    meta, old_meta, status = root.value["metadata"], old["metadata"], root["status"]
    for name in _SHARED_METADATA:
        if meta.get(name) is not old_meta.get(name):
            return None
    if not _is_same_spec(root.value.get("spec"), old.get("spec")):
        return None
    if _has_allocations(status.value) or _has_allocations(old.get("status")):
        return None
    going = bool(meta.get("deletionTimestamp"))
    return msgspec.structs.replace(
        pod,
        node_name=root["spec"].text_of("nodeName"),
        phase=_PHASES.get(status.text_of("phase") or PodPhase.PENDING, PodPhase.UNKNOWN),
        start_time=decode_time(status["startTime"]) if status.has_value("startTime") else None,
        deleting=going,
        deleted_at=decode_time(root.at("metadata", "deletionTimestamp")) if going else None,
        nominated_node_name=status.text_of("nominatedNodeName"),
        **_decode_conditions(status),
    )


def _is_same_spec(spec: Any, old: Any) -> bool:
    """Return True for a spec that is the old one, or differs from it in the node only."""
    if spec is old:
        return True
    if not isinstance(spec, dict) or not isinstance(old, dict) or len(spec) != len(old) + 1:
        return False
    if "nodeName" in old:
        return False
    for name, value in spec.items():
        if name != "nodeName" and value is not old.get(name):
            return False
    return True


def decode_pod_template(field: Field, meta: Metadata, owner: OwnerReference) -> Pod:
    """Decode a pod template as the pod that its workload creates."""
    field.check_known_keys(("metadata", "spec", "apiVersion", "kind"))
    inner = field["metadata"]
    labels = inner["labels"].labels()
    if not field["spec"].check_required():
        return Pod(name=meta.name, namespace=meta.namespace, labels=labels, owner=owner)
    return Pod(
        name=meta.name,
        namespace=meta.namespace,
        labels=labels,
        annotations=decode_annotations(inner["annotations"]),
        owner=owner,
        spec=decode_pod_spec(field["spec"], labels=labels, pod_name=meta.name),
        priority=_decode_priority(field["spec"]),
    )


def is_gated(root: dict[str, Any]) -> bool:
    """Return True if a pod (wire format) has scheduling gates."""
    spec = root.get("spec")
    return isinstance(spec, dict) and bool(spec.get("schedulingGates"))


def _decode_priority(spec: Field) -> int:
    number = spec["priority"].integer()
    if number is not None:
        return number
    return SYSTEM_PRIORITIES.get(spec.text_of("priorityClassName"), 0)


def _decode_conditions(status: Field) -> dict[str, bool]:
    """Decode what conditions say, as fields of a pod; one without Ready counts as ready."""
    ready: bool | None = None
    unschedulable = evicted = False
    for condition in _list_maps(_get(status.value, "conditions")):
        kind = condition.get("type")
        if kind == READY:
            ready = condition.get("status") == "True" if ready is None else ready
        elif kind == "PodScheduled":
            unschedulable = unschedulable or condition.get("reason") == "Unschedulable"
        elif kind == "DisruptionTarget":
            evicted = evicted or condition.get("reason") == "EvictionByEvictionAPI"
    return {"ready": ready is not False, "unschedulable": unschedulable, "evicted": evicted}


def _decode_allocations(status: Field) -> tuple[Allocations, bool]:
    """Return allocated resources by container, and whether a resize is infeasible."""
    allocations: dict[str, Resources] = {}
    if not _has_allocations(status.value):
        return NO_ALLOCATIONS, False
    for name in _CONTAINER_STATUSES:
        for item in status[name].items():
            amounts = _decode_container_status(item)
            if amounts:
                allocations[item["name"].text()] = amounts
    if not allocations:
        return NO_ALLOCATIONS, False
    return allocations, _is_resize_infeasible(status)


def _has_allocations(status: Any) -> bool:
    for name in _CONTAINER_STATUSES:
        for item in _list_maps(_get(status, name)):
            if "resources" in item or "allocatedResources" in item:
                return True
    return False


def _decode_container_status(field: Field) -> Resources:
    running, allocated = field["resources"].value, field["allocatedResources"].value
    if not running and not allocated:
        return NO_RESOURCES
    read = decode_resources(field.at("resources", "requests"))
    return read.maximum(decode_resources(field["allocatedResources"])) if allocated else read


def _is_resize_infeasible(status: Field) -> bool:
    if status["resize"].value == "Infeasible":
        return True
    return any(
        condition.get("type") == "PodResizePending" and condition.get("reason") == "Infeasible"
        for condition in _list_maps(_get(status.value, "conditions"))
    )


def _get(parent: Any, name: str) -> Any:
    return parent.get(name) if isinstance(parent, dict) else None


def _list_maps(value: Any) -> list[dict[str, Any]]:
    """Return the maps in a list without Field objects: statuses are long."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []
