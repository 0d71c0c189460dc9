"""Decoders of Nodes and CSINodes."""

import msgspec

from dovetail.codec.fields import Field
from dovetail.codec.kube.conditions import decode_conditions
from dovetail.codec.kube.metadata import decode_metadata
from dovetail.codec.kube.requirements import decode_taints
from dovetail.codec.quantities import decode_resources
from dovetail.model.frozen import FrozenDict
from dovetail.model.kube.taints import Taint, TaintEffect
from dovetail.model.node import NodeObject

UNSCHEDULABLE_TAINT = Taint("node.kubernetes.io/unschedulable", TaintEffect.NO_SCHEDULE)


class CsiNode(msgspec.Struct, frozen=True, kw_only=True):
    """Attachable volumes of a node by CSI driver."""

    name: str
    limits: FrozenDict[str, int] = FrozenDict()


def decode_node(root: Field) -> NodeObject:
    """Decode a core/v1 Node; a cordoned node always has the unschedulable taint."""
    meta, spec, status = decode_metadata(root), root["spec"], root["status"]
    taints = decode_taints(spec["taints"])
    if spec["unschedulable"].boolean() and all(taint.key != UNSCHEDULABLE_TAINT.key for taint in taints):
        taints = (*taints, UNSCHEDULABLE_TAINT)
    capacity = decode_resources(status["capacity"])
    return NodeObject(
        name=meta.name,
        labels=meta.labels,
        annotations=meta.annotations,
        taints=taints,
        capacity=capacity,
        allocatable=decode_resources(status["allocatable"]) if status["allocatable"] else capacity,
        provider_id=spec["providerID"].text(),
        deleting=meta.deleting,
        uid=meta.uid,
        created=meta.created,
        deleted_at=meta.deleted_at,
        resource_version=meta.resource_version,
        finalizers=meta.finalizers,
        owner_references=meta.owner_references,
        conditions=decode_conditions(status["conditions"]),
    )


def decode_csi_node(root: Field) -> CsiNode:
    """Decode a storage.k8s.io/v1 CSINode; drivers without a count have no limit."""
    limits: dict[str, int] = {}
    for driver in root.at("spec", "drivers").items():
        count = driver["allocatable"]["count"].integer(low=0)
        if count is not None:
            limits[driver["name"].text()] = count
    return CsiNode(name=decode_metadata(root).name, limits=FrozenDict(limits))
