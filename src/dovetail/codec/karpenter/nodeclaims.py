"""Decoder and encoder of NodeClaims."""

from collections.abc import Mapping
from typing import Any

import msgspec

from dovetail.codec.fields import Field, drop_empty
from dovetail.codec.karpenter.nodepool_encoding import API_VERSION, encode_node_spec
from dovetail.codec.karpenter.nodepools import (
    decode_expire_after,
    decode_node_class_ref,
    decode_node_requirements,
    decode_termination_grace_period,
)
from dovetail.codec.kube.conditions import decode_conditions, encode_conditions
from dovetail.codec.kube.metadata import decode_metadata
from dovetail.codec.kube.requirements import decode_taints
from dovetail.codec.quantities import decode_crd_resources, decode_resources, decode_time, encode_time
from dovetail.model.karpenter.nodeclaim import NodeClaim
from dovetail.model.kube.pod import OwnerReference

_SPEC = (
    "requirements resources taints startupTaints nodeClassRef expireAfter terminationGracePeriod"
).split()


def decode_nodeclaim(root: Field) -> NodeClaim:
    """Decode a karpenter.sh/v1 NodeClaim."""
    meta, spec, status = decode_metadata(root), root["spec"], root["status"]
    spec.check_required()
    spec.check_known_keys(_SPEC)
    spec["resources"].mapping()
    return NodeClaim(
        name=meta.name,
        uid=meta.uid,
        labels=meta.labels,
        annotations=meta.annotations,
        created=meta.created,
        deleting=meta.deleting,
        deleted_at=meta.deleted_at,
        generation=meta.generation,
        resource_version=meta.resource_version,
        finalizers=meta.finalizers,
        owner_references=meta.owner_references,
        requirements=decode_node_requirements(spec["requirements"], claim=True),
        requests=decode_crd_resources(spec.at("resources", "requests")),
        taints=decode_taints(spec["taints"]),
        startup_taints=decode_taints(spec["startupTaints"]),
        node_class=decode_node_class_ref(spec["nodeClassRef"]),
        expire_after=decode_expire_after(spec["expireAfter"]),
        termination_grace_period=decode_termination_grace_period(spec["terminationGracePeriod"]),
        **_decode_status(status),
    )


_SHARED_METADATA = (
    "name uid labels annotations creationTimestamp deletionTimestamp generation finalizers ownerReferences"
).split()


def update_nodeclaim(root: Field, old: Mapping[str, Any], claim: NodeClaim) -> NodeClaim | None:
    """Decode a newer version of a NodeClaim that shares parts with the old one.

    None if more than the status may have changed. Parts are compared by identity, so that only
    objects of an API server in this process share them.
    """
    meta, old_meta, status = root["metadata"], old["metadata"], root["status"]
    if root.value.get("spec") is not old.get("spec"):
        return None
    if any(meta.value.get(name) is not old_meta.get(name) for name in _SHARED_METADATA):
        return None
    return msgspec.structs.replace(
        claim, resource_version=meta.text_of("resourceVersion"), **_decode_status(status)
    )


def _decode_status(status: Field) -> dict[str, Any]:
    return {
        "provider_id": status["providerID"].text(),
        "node_name": status["nodeName"].text(),
        "image_id": status["imageID"].text(),
        "capacity": decode_resources(status["capacity"]),
        "allocatable": decode_resources(status["allocatable"]),
        "conditions": decode_conditions(status["conditions"]),
        "last_pod_event": decode_time(status["lastPodEventTime"]),
    }


def encode_nodeclaim(claim: NodeClaim) -> dict[str, Any]:
    """Encode a NodeClaim, with the status fields that are set."""
    meta = {
        "name": claim.name,
        "uid": claim.uid,
        "labels": dict(claim.labels),
        "annotations": dict(claim.annotations),
        "creationTimestamp": encode_time(claim.created),
        "ownerReferences": [_encode_owner(owner) for owner in claim.owner_references],
    }
    spec = encode_node_spec(claim)
    if claim.requests:
        spec["resources"] = {"requests": claim.requests.to_quantities()}
    status = {
        "providerID": claim.provider_id,
        "nodeName": claim.node_name,
        "imageID": claim.image_id,
        "capacity": claim.capacity.to_quantities(),
        "allocatable": claim.allocatable.to_quantities(),
        "conditions": encode_conditions(claim.conditions),
        "lastPodEventTime": encode_time(claim.last_pod_event),
    }
    return drop_empty(
        {
            "apiVersion": API_VERSION,
            "kind": "NodeClaim",
            "metadata": drop_empty(meta),
            "spec": spec,
            "status": drop_empty(status),
        }
    )


def _encode_owner(owner: OwnerReference) -> dict[str, Any]:
    return {
        "apiVersion": owner.api_version,
        "kind": owner.kind,
        "name": owner.name,
        "uid": owner.uid,
        "controller": owner.controller,
        "blockOwnerDeletion": True,
    }
