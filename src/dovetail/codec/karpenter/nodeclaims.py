"""NodeClaims on the wire, read and written."""

from typing import Any

from dovetail.codec.fields import Field
from dovetail.codec.karpenter.nodepool_encoding import API_VERSION, encode_node_parts
from dovetail.codec.karpenter.nodepools import expiry, grace, node_class_ref, pool_requirements
from dovetail.codec.kube.conditions import conditions, show_conditions
from dovetail.codec.kube.metadata import metadata
from dovetail.codec.kube.requirements import show_requirement, taints
from dovetail.codec.quantities import instant, resources, show_instant
from dovetail.model.karpenter.nodeclaim import NodeClaim
from dovetail.model.kube.pod import Owner

_SPEC = (
    "requirements resources taints startupTaints nodeClassRef expireAfter terminationGracePeriod"
).split()


def decode_node_claim(root: Field) -> NodeClaim:
    """Read a karpenter.sh/v1 NodeClaim."""
    meta, spec, status = metadata(root), root["spec"], root["status"]
    spec.required()
    spec.known_keys(_SPEC)
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
        owners=meta.owners,
        requirements=pool_requirements(spec["requirements"], claim=True),
        requests=resources(spec.at("resources", "requests")),
        taints=taints(spec["taints"]),
        startup_taints=taints(spec["startupTaints"]),
        node_class=node_class_ref(spec["nodeClassRef"]),
        expire_after=expiry(spec["expireAfter"]),
        termination_grace_period=grace(spec["terminationGracePeriod"]),
        provider_id=status["providerID"].text(),
        node_name=status["nodeName"].text(),
        image_id=status["imageID"].text(),
        capacity=resources(status["capacity"]),
        allocatable=resources(status["allocatable"]),
        conditions=conditions(status["conditions"]),
        last_pod_event=instant(status["lastPodEventTime"]),
    )


def encode_node_claim(claim: NodeClaim) -> dict[str, Any]:
    """Write a NodeClaim, its status included as far as it is known."""
    meta: dict[str, Any] = {"name": claim.name}
    if claim.uid:
        meta["uid"] = claim.uid
    if claim.labels:
        meta["labels"] = dict(claim.labels)
    if claim.annotations:
        meta["annotations"] = dict(claim.annotations)
    if claim.created is not None:
        meta["creationTimestamp"] = show_instant(claim.created)
    if claim.owners:
        meta["ownerReferences"] = [_show_owner(one) for one in claim.owners]
    spec: dict[str, Any] = {
        "requirements": [show_requirement(one) for one in claim.requirements],
    }
    if claim.requests:
        spec["resources"] = {"requests": claim.requests.spelled()}
    spec.update(
        encode_node_parts(
            claim.taints,
            claim.startup_taints,
            claim.node_class,
            claim.expire_after,
            claim.termination_grace_period,
        )
    )
    shown = {"apiVersion": API_VERSION, "kind": "NodeClaim", "metadata": meta, "spec": spec}
    status = _encode_status(claim)
    return {**shown, "status": status} if status else shown


def _show_owner(owner: Owner) -> dict[str, Any]:
    return {
        "apiVersion": owner.api_version,
        "kind": owner.kind,
        "name": owner.name,
        "uid": owner.uid,
        "controller": owner.controller,
        "blockOwnerDeletion": True,
    }


def _encode_status(claim: NodeClaim) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "providerID": claim.provider_id,
        "nodeName": claim.node_name,
        "imageID": claim.image_id,
        "capacity": claim.capacity.spelled(),
        "allocatable": claim.allocatable.spelled(),
        "conditions": show_conditions(claim.conditions),
        "lastPodEventTime": show_instant(claim.last_pod_event),
    }
    return {name: value for name, value in shown.items() if value}
