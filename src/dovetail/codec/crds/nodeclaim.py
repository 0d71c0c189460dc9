"""CustomResourceDefinition of NodeClaims."""

from typing import Final

from dovetail.codec.crds import schema
from dovetail.codec.crds.definition import AGE, READY, Column, Definition, condition_column
from dovetail.codec.crds.labels import requirements_schema
from dovetail.codec.crds.schema import Schema
from dovetail.codec.crds.shared import node_fields, status_schema
from dovetail.model import labels as keys
from dovetail.model.karpenter.condition_types import DRIFTED


def _spec() -> Schema:
    return schema.struct(
        "Requirements of the instance and its node.",
        {
            "requirements": requirements_schema(
                "Allowed instance types, zones and capacity types.", nodepool=True
            ),
            "resources": schema.struct(
                "Resources that the instance must provide.",
                {"requests": schema.quantities("Minimum allocatable resources.")},
            ),
            **node_fields(),
        },
        schema.rule("self == oldSelf", "the spec of a NodeClaim cannot be changed; create a new one instead"),
        required=("requirements", "nodeClassRef"),
    )


def _status() -> Schema:
    return status_schema(
        "The launched instance and its node.",
        {
            "providerID": schema.string("Provider ID of the instance."),
            "nodeName": schema.string("Name of its Node."),
            "imageID": schema.string("AMI of the instance."),
            "capacity": schema.quantities("Capacity of the node."),
            "allocatable": schema.quantities("Allocatable resources of the node."),
            "lastPodEventTime": schema.timestamp("When a pod was last bound to or removed from the node."),
        },
    )


def _label(key: str) -> str:
    escaped = key.replace(".", "\\.")
    return f".metadata.labels.{escaped}"


NODE_CLAIM: Final = Definition(
    group="karpenter.sh",
    version="v1",
    kind="NodeClaim",
    plural="nodeclaims",
    about="A request for one instance, and the state of that instance.",
    spec=_spec(),
    status=_status(),
    columns=(
        Column("Type", _label(keys.INSTANCE_TYPE)),
        Column("Capacity", _label(keys.CAPACITY_TYPE)),
        Column("Zone", _label(keys.ZONE)),
        Column("Node", ".status.nodeName"),
        READY,
        AGE,
        Column("ImageID", ".status.imageID", wide=True),
        Column("ID", ".status.providerID", wide=True),
        Column("NodePool", _label(keys.NODEPOOL), wide=True),
        Column("NodeClass", ".spec.nodeClassRef.name", wide=True),
        condition_column(DRIFTED, wide=True),
    ),
)
