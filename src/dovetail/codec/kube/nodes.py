"""Nodes, and what their CSI drivers can attach, on the wire."""

import msgspec

from dovetail.codec.fields import Field
from dovetail.codec.kube.conditions import conditions
from dovetail.codec.kube.metadata import metadata
from dovetail.codec.kube.requirements import taints
from dovetail.codec.quantities import resources
from dovetail.model.frozen import FrozenDict
from dovetail.model.kube.taints import Effect, Taint
from dovetail.model.node import NodeObject

CORDONED = Taint("node.kubernetes.io/unschedulable", Effect.NO_SCHEDULE)


class CsiNode(msgspec.Struct, frozen=True, kw_only=True):
    """How many volumes each driver can attach to a node."""

    name: str
    limits: FrozenDict[str, int] = FrozenDict()


def decode_node(root: Field) -> NodeObject:
    """Read a core/v1 Node; a cordoned one has the taint that says so."""
    meta, spec, status = metadata(root), root["spec"], root["status"]
    marks = taints(spec["taints"])
    if spec["unschedulable"].boolean() and all(one.key != CORDONED.key for one in marks):
        marks = (*marks, CORDONED)
    capacity = resources(status["capacity"])
    return NodeObject(
        name=meta.name,
        labels=meta.labels,
        annotations=meta.annotations,
        taints=marks,
        capacity=capacity,
        allocatable=resources(status["allocatable"]) if status["allocatable"] else capacity,
        provider_id=spec["providerID"].text(),
        deleting=meta.deleting,
        uid=meta.uid,
        created=meta.created,
        deleted_at=meta.deleted_at,
        resource_version=meta.resource_version,
        finalizers=meta.finalizers,
        owners=meta.owners,
        conditions=conditions(status["conditions"]),
    )


def decode_csi_node(root: Field) -> CsiNode:
    """Read a storage/v1 CSINode; drivers without a count have no limit."""
    limits: dict[str, int] = {}
    for driver in root.at("spec", "drivers").items():
        count = driver["allocatable"]["count"].whole(low=0)
        if count is not None:
            limits[driver["name"].text()] = count
    return CsiNode(name=metadata(root).name, limits=FrozenDict(limits))
