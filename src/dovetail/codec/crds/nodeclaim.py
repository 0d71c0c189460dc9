"""The definition of NodeClaims."""

from typing import Final

from dovetail.codec.crds.definition import AGE, READY, Column, Definition
from dovetail.codec.crds.labels import requirements
from dovetail.codec.crds.schema import Schema, amounts, instant, record, rule, text
from dovetail.codec.crds.shared import node_parts, status
from dovetail.model import labels as keys


def _spec() -> Schema:
    return record(
        "The machine that is wanted.",
        {
            "requirements": requirements(
                "Which instance types, zones and capacity types would do.", nodepool=True
            ),
            "resources": record(
                "What the machine must have room for.",
                {"requests": amounts("The least that pods on it must be able to have.")},
            ),
            **node_parts(),
        },
        rule("self == oldSelf", "the spec of a claim cannot be changed; make a new one instead"),
        required=("requirements", "nodeClassRef"),
    )


def _status() -> Schema:
    return status(
        "The machine that was bought.",
        {
            "providerID": text("The machine, as the cloud names it."),
            "nodeName": text("The Node that it became."),
            "imageID": text("The image that it was started from."),
            "capacity": amounts("All that it has."),
            "allocatable": amounts("What of it is for pods."),
            "lastPodEventTime": instant("When a pod last came to its node or went."),
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
    about="One machine, wanted or had.",
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
        Column("Drifted", '.status.conditions[?(@.type=="Drifted")].status', wide=True),
    ),
)
