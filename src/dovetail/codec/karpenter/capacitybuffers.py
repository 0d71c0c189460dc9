"""CapacityBuffers on the wire, and the pods that stand for their room."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from dovetail.codec.fields import Field, Findings
from dovetail.codec.kube.conditions import conditions, show_conditions
from dovetail.codec.kube.metadata import metadata
from dovetail.codec.kube.pods import decode_pod
from dovetail.codec.quantities import resources
from dovetail.model import labels as label_keys
from dovetail.model.karpenter.capacitybuffer import ACTIVE_CAPACITY, CapacityBuffer, ScalableRef
from dovetail.model.kube.pod import Pod

_LOWEST_PRIORITY: Final = -(2**31)
_UNSCHEDULABLE: Final = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}


def decode_buffer(root: Field) -> CapacityBuffer:
    """Read an autoscaling.x-k8s.io/v1beta1 CapacityBuffer."""
    meta, spec = metadata(root), root["spec"]
    scalable = spec["scalableRef"]
    if spec.findings.written_by_hand:
        _check(spec)
    return CapacityBuffer(
        name=meta.name,
        namespace=meta.namespace,
        uid=meta.uid,
        strategy=spec["provisioningStrategy"].text() or ACTIVE_CAPACITY,
        pod_template=spec["podTemplateRef"]["name"].text(),
        scalable=ScalableRef(
            scalable["apiGroup"].text(), scalable["kind"].text(), scalable["name"].text()
        )
        if scalable
        else None,
        replicas=spec["replicas"].whole(low=0),
        percentage=spec["percentage"].whole(low=0),
        limits=resources(spec["limits"]),
        deleting=meta.deleting,
        generation=meta.generation,
        resource_version=meta.resource_version,
        conditions=conditions(root["status"]["conditions"]),
        room_for=root["status"]["replicas"].whole(),
    )


def _check(spec: Field) -> None:
    """Note what the CRD refuses."""
    template, scalable = spec["podTemplateRef"], spec["scalableRef"]
    if bool(template) == bool(scalable):
        spec.mistake("needs podTemplateRef or scalableRef, exactly one")
    if template and not (spec["replicas"] or spec["limits"]):
        spec.mistake("podTemplateRef needs replicas or limits")
    for reference, parts in ((template, ("name",)), (scalable, ("kind", "name"))):
        for part in parts if reference else ():
            reference[part].required()


def buffer_status_patch(before: CapacityBuffer, after: CapacityBuffer) -> dict[str, Any]:
    """Return what changed of the status, locked; empty when nothing did."""
    if (before.conditions, before.room_for) == (after.conditions, after.room_for):
        return {}
    status = {
        "conditions": show_conditions(after.conditions, root=""),
        "replicas": after.room_for,
        "provisioningStrategy": after.strategy,
    }
    lock = {"resourceVersion": before.resource_version}
    return {"metadata": lock, "status": status}


def virtual_pods(buffer: CapacityBuffer, template: Mapping[str, Any], count: int) -> Iterator[Pod]:
    """Make the pods for which a buffer keeps room, from a pod template on the wire.

    They have no volumes of their own: those would have to be made first.
    """
    inner = template.get("metadata") or {}
    spec = {**(template.get("spec") or {}), "priority": _LOWEST_PRIORITY}
    spec.pop("nodeName", None)
    spec["volumes"] = [
        one
        for one in spec.get("volumes") or ()
        if "persistentVolumeClaim" not in one and "ephemeral" not in one
    ]
    notes = {
        label_keys.BUFFER_POD: "true",
        label_keys.BUFFER_NAME: buffer.name,
        label_keys.BUFFER_NAMESPACE: buffer.namespace,
    }
    shared: dict[Any, Any] = {}
    for number in range(1, count + 1):
        meta = {
            "name": f"capacity-buffer-{buffer.name}-{number}",
            "namespace": buffer.namespace,
            "uid": f"{buffer.uid}-{number}",
            "labels": dict(inner.get("labels") or {}),
            "annotations": {**(inner.get("annotations") or {}), **notes},
        }
        obj = {"metadata": meta, "spec": spec, "status": {"conditions": [_UNSCHEDULABLE]}}
        yield decode_pod(Field(obj, Findings(written_by_hand=False, pool=shared)))
