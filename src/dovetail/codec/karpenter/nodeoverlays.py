"""Decoder and status patch of NodeOverlays."""

import re
from typing import Any, Final

from dovetail.codec.fields import Field
from dovetail.codec.karpenter.nodepools import decode_node_requirements
from dovetail.codec.kube.conditions import decode_conditions, encode_conditions
from dovetail.codec.kube.metadata import decode_metadata
from dovetail.codec.quantities import decode_crd_resources
from dovetail.model import labels as label_keys
from dovetail.model.karpenter.nodeoverlay import NodeOverlay
from dovetail.model.kube.requirements import RequirementSpec
from dovetail.model.kube.resources import CPU, EPHEMERAL_STORAGE, MEMORY, PODS

PRICE: Final = re.compile(r"[0-9]+(\.[0-9]+)?")
PRICE_ADJUSTMENT: Final = re.compile(
    r"[+-][0-9]*\.?[0-9]+|\+[0-9]*\.?[0-9]+%|-(100(\.0+)?|[0-9]{1,2}(\.[0-9]+)?)%"
)
MAX_WEIGHT: Final = 10_000
MAX_CAPACITY_ENTRIES: Final = 100
STANDARD_RESOURCES: Final = (CPU, MEMORY, EPHEMERAL_STORAGE, PODS)
"""Resources of every instance type, which an overlay may not change."""
PER_INSTANCE_LABELS: Final = (
    f"{label_keys.AWS_DOMAIN}/instance-tenancy",
    label_keys.CAPACITY_RESERVATION_ID,
    label_keys.CAPACITY_RESERVATION_TYPE,
    label_keys.CAPACITY_RESERVATION_INTERRUPTIBLE,
    label_keys.PLACEMENT_GROUP_ID,
    f"{label_keys.AWS_DOMAIN}/placement-group-partition",
)
"""Labels that differ between instances of one type; an overlay cannot select them."""


def decode_nodeoverlay(root: Field) -> NodeOverlay:
    """Decode a karpenter.sh/v1alpha1 NodeOverlay, with the validation of its CRD."""
    meta, spec = decode_metadata(root), root["spec"]
    spec.check_known_keys("requirements price priceAdjustment capacity weight".split())
    price, adjustment = spec["price"].text(), spec["priceAdjustment"].text()
    if price and adjustment:
        spec["priceAdjustment"].add_error("cannot be combined with price")
    if spec["price"] and not PRICE.fullmatch(price):
        spec["price"].add_error(f"{price!r} is not a price such as 0.25")
    if spec["priceAdjustment"] and not PRICE_ADJUSTMENT.fullmatch(adjustment):
        spec["priceAdjustment"].add_error(f"{adjustment!r} is not an adjustment such as +0.05 or -10%")
    spec["capacity"].check_length(MAX_CAPACITY_ENTRIES)
    capacity = decode_crd_resources(spec["capacity"])
    for name in STANDARD_RESOURCES:
        if name in capacity:
            spec["capacity"][name].add_error(f"{name} comes from the cloud provider and cannot be changed")
    return NodeOverlay(
        name=meta.name,
        uid=meta.uid,
        weight=spec["weight"].integer(low=1, high=MAX_WEIGHT) or 0,
        requirements=_decode_requirements(spec["requirements"]),
        price=price,
        price_adjustment=adjustment,
        capacity=capacity,
        generation=meta.generation,
        resource_version=meta.resource_version,
        conditions=decode_conditions(root["status"]["conditions"]),
    )


def _decode_requirements(field: Field) -> tuple[RequirementSpec, ...]:
    for requirement in field.items():
        if requirement["key"].value in PER_INSTANCE_LABELS and field.context.strict:
            requirement["key"].add_error(f"{requirement['key'].value!r} is not a label of instance types")
    return decode_node_requirements(field, claim=True)


def nodeoverlay_status_patch(before: NodeOverlay, after: NodeOverlay) -> dict[str, Any]:
    """Return a locked patch of changed status fields; empty if none changed."""
    if before.conditions == after.conditions:
        return {}
    lock = {"resourceVersion": before.resource_version}
    return {"metadata": lock, "status": {"conditions": encode_conditions(after.conditions)}}
