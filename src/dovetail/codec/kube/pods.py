"""Pods on the wire."""

from typing import Any

from dovetail.codec.fields import Field
from dovetail.codec.kube.metadata import Metadata, annotations, metadata
from dovetail.codec.kube.pod_specs import NO_ALLOCATIONS, Allocations, pod_spec
from dovetail.codec.quantities import instant, resources
from dovetail.model.kube.pod import Owner, Phase, Pod
from dovetail.model.kube.resources import NOTHING, Resources

SYSTEM_PRIORITIES = {
    "system-cluster-critical": 2_000_000_000,
    "system-node-critical": 2_000_001_000,
}

_PHASES: dict[str, Phase] = {phase.value: phase for phase in Phase}


def decode_pod(root: Field) -> Pod:
    """Read a core/v1 Pod."""
    meta, spec, status = metadata(root), root["spec"], root["status"]
    allocated, infeasible = _granted(status)
    phase = status.text_of("phase") or Phase.PENDING
    return Pod(
        name=meta.name,
        namespace=meta.namespace,
        uid=meta.uid,
        labels=meta.labels,
        annotations=meta.annotations,
        owner=meta.owner,
        spec=pod_spec(
            spec,
            labels=meta.labels,
            pod_name=meta.name,
            allocated=allocated,
            infeasible=infeasible,
        ),
        node_name=spec.text_of("nodeName"),
        phase=_PHASES.get(phase, Phase.UNKNOWN),
        created=meta.created,
        started=instant(status["startTime"]) if status.says("startTime") else None,
        deleting=meta.deleting,
        deleted_at=meta.deleted_at,
        grace_seconds=spec["terminationGracePeriodSeconds"].whole(low=0),
        ready=_ready(status),
        priority=_priority(spec),
        priority_class=spec.text_of("priorityClassName"),
        unschedulable=_unschedulable(status),
        nominated_node=status.text_of("nominatedNodeName"),
    )


def template_pod(field: Field, meta: Metadata, owner: Owner) -> Pod:
    """Read a pod template as the pod that its workload would make."""
    field.known_keys(("metadata", "spec", "apiVersion", "kind"))
    inner = field["metadata"]
    labels = inner["labels"].labels()
    if not field["spec"].required():
        return Pod(name=meta.name, namespace=meta.namespace, labels=labels, owner=owner)
    return Pod(
        name=meta.name,
        namespace=meta.namespace,
        labels=labels,
        annotations=annotations(inner["annotations"]),
        owner=owner,
        spec=pod_spec(field["spec"], labels=labels, pod_name=meta.name),
        priority=_priority(field["spec"]),
    )


def is_gated(root: dict[str, Any]) -> bool:
    """Tell whether the scheduler is told to leave the pod alone for now."""
    spec = root.get("spec")
    return isinstance(spec, dict) and bool(spec.get("schedulingGates"))


def _priority(spec: Field) -> int:
    number = spec["priority"].whole()
    if number is not None:
        return number
    return SYSTEM_PRIORITIES.get(spec.text_of("priorityClassName"), 0)


def _ready(status: Field) -> bool:
    """Read the Ready condition; a pod that says nothing is taken for ready."""
    for condition in _maps(status["conditions"]):
        if condition.get("type") == "Ready":
            return bool(condition.get("status") == "True")
    return True


def _unschedulable(status: Field) -> bool:
    return any(
        one.get("type") == "PodScheduled" and one.get("reason") == "Unschedulable"
        for one in _maps(status["conditions"])
    )


def _granted(status: Field) -> tuple[Allocations, bool]:
    """Return what the kubelet granted each container, and whether a resize is refused."""
    granted: dict[str, Resources] = {}
    for name in ("containerStatuses", "initContainerStatuses"):
        if not any(
            "resources" in one or "allocatedResources" in one for one in _maps(status[name])
        ):
            continue
        for one in status[name].items():
            amounts = _resources_of(one)
            if amounts:
                granted[one["name"].text()] = amounts
    if not granted:
        return NO_ALLOCATIONS, False
    return granted, _refused(status)


def _resources_of(field: Field) -> Resources:
    running, allocated = field["resources"].value, field["allocatedResources"].value
    if not running and not allocated:
        return NOTHING
    read = resources(field.at("resources", "requests"))
    return read.at_least(resources(field["allocatedResources"])) if allocated else read


def _refused(status: Field) -> bool:
    if status["resize"].value == "Infeasible":
        return True
    return any(
        one.get("type") == "PodResizePending" and one.get("reason") == "Infeasible"
        for one in _maps(status["conditions"])
    )


def _maps(field: Field) -> list[dict[str, Any]]:
    """Return the maps in a list, without Fields around them: statuses are long."""
    value = field.value
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []
