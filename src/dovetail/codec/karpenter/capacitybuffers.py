"""Decoder and status patch of CapacityBuffers, and the pods that represent them."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from dovetail.codec.fields import MAX_INT32, DecodeContext, Field
from dovetail.codec.kube.conditions import decode_conditions, encode_conditions
from dovetail.codec.kube.metadata import decode_metadata
from dovetail.codec.kube.pods import decode_pod
from dovetail.codec.quantities import decode_crd_resources
from dovetail.model import labels as label_keys
from dovetail.model.karpenter.capacitybuffer import ACTIVE_CAPACITY, CapacityBuffer, ScalableRef
from dovetail.model.kube.pod import Pod

_LOWEST_PRIORITY: Final = -(2**31)
_UNSCHEDULABLE: Final = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}


def decode_capacitybuffer(root: Field) -> CapacityBuffer:
    """Decode an autoscaling.x-k8s.io/v1beta1 CapacityBuffer."""
    meta, spec, status = decode_metadata(root), root["spec"], root["status"]
    scalable = spec["scalableRef"]
    if spec.context.strict:
        _check_spec(spec)
    return CapacityBuffer(
        name=meta.name,
        namespace=meta.namespace,
        uid=meta.uid,
        strategy=spec["provisioningStrategy"].text() or ACTIVE_CAPACITY,
        pod_template=spec["podTemplateRef"]["name"].text(),
        scalable_ref=ScalableRef(
            scalable["apiGroup"].text(), scalable["kind"].text(), scalable["name"].text()
        )
        if scalable
        else None,
        replicas=spec["replicas"].integer(low=0, high=MAX_INT32),
        percentage=spec["percentage"].integer(low=0, high=MAX_INT32),
        limits=decode_crd_resources(spec["limits"]),
        deleting=meta.deleting,
        generation=meta.generation,
        resource_version=meta.resource_version,
        conditions=decode_conditions(status["conditions"]),
        status_replicas=status["replicas"].integer(),
        status_pod_template=status["podTemplateRef"]["name"].text(),
        status_pod_template_generation=status["podTemplateGeneration"].integer(),
        status_strategy=status["provisioningStrategy"].text(),
    )


def _check_spec(spec: Field) -> None:
    """Add errors for what the CRD rejects."""
    template, scalable = spec["podTemplateRef"], spec["scalableRef"]
    if bool(template) == bool(scalable):
        spec.add_error("needs podTemplateRef or scalableRef, exactly one")
    if template and not (spec["replicas"] or spec["limits"]):
        spec.add_error("podTemplateRef needs replicas or limits")
    for reference, parts in ((template, ("name",)), (scalable, ("kind", "name"))):
        for part in parts if reference else ():
            reference[part].check_required()


def capacitybuffer_status_patch(before: CapacityBuffer, after: CapacityBuffer) -> dict[str, Any]:
    """Return a locked patch of changed status fields; empty if none changed."""
    old, new = _encode_status(before), _encode_status(after)
    changed = {name: value for name, value in new.items() if old[name] != value}
    if not changed:
        return {}
    lock = {"resourceVersion": before.resource_version}
    return {"metadata": lock, "status": changed}


def _encode_status(buffer: CapacityBuffer) -> dict[str, Any]:
    template = buffer.status_pod_template
    return {
        "conditions": encode_conditions(buffer.conditions, root=""),
        "replicas": buffer.status_replicas,
        "podTemplateRef": {"name": template} if template else None,
        "podTemplateGeneration": buffer.status_pod_template_generation,
        "provisioningStrategy": buffer.status_strategy or None,
    }


def buffer_pods(buffer: CapacityBuffer, template: Mapping[str, Any], count: int) -> Iterator[Pod]:
    """Yield the pods that represent a buffer, from a pod template in wire format.

    Volumes backed by claims are left out: the claims do not exist.
    """
    inner = template.get("metadata") or {}
    spec = {**(template.get("spec") or {}), "priority": _LOWEST_PRIORITY}
    spec.pop("nodeName", None)
    spec["volumes"] = [
        volume
        for volume in spec.get("volumes") or ()
        if "persistentVolumeClaim" not in volume and "ephemeral" not in volume
    ]
    buffer_annotations = {
        label_keys.CAPACITY_BUFFER_POD: "true",
        label_keys.CAPACITY_BUFFER_NAME: buffer.name,
        label_keys.CAPACITY_BUFFER_NAMESPACE: buffer.namespace,
    }
    shared: dict[Any, Any] = {}
    for number in range(1, count + 1):
        meta = {
            "name": f"capacity-buffer-{buffer.name}-{number}",
            "namespace": buffer.namespace,
            "uid": f"{buffer.uid}-{number}",
            "labels": dict(inner.get("labels") or {}),
            "annotations": {**(inner.get("annotations") or {}), **buffer_annotations},
        }
        obj = {"metadata": meta, "spec": spec, "status": {"conditions": [_UNSCHEDULABLE]}}
        yield decode_pod(Field(obj, DecodeContext(strict=False, cache=shared)))
