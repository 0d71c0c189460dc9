"""NodeOverlays on the wire, read by the rules of their CRD."""

import re
from typing import Any, Final

from dovetail.codec.fields import Field
from dovetail.codec.karpenter.nodepools import pool_requirements
from dovetail.codec.kube.conditions import conditions, show_conditions
from dovetail.codec.kube.metadata import metadata
from dovetail.codec.quantities import resources
from dovetail.model import labels as label_keys
from dovetail.model.karpenter.nodeoverlay import NodeOverlay
from dovetail.model.kube.requirements import RequirementSpec
from dovetail.model.kube.resources import CPU, EPHEMERAL_STORAGE, MEMORY, PODS

PRICE: Final = re.compile(r"[0-9]+(\.[0-9]+)?")
ADJUSTMENT: Final = re.compile(
    r"[+-][0-9]*\.?[0-9]+|\+[0-9]*\.?[0-9]+%|-(100(\.0+)?|[0-9]{1,2}(\.[0-9]+)?)%"
)
HEAVIEST: Final = 10_000
NOT_EXTENDED: Final = (CPU, MEMORY, EPHEMERAL_STORAGE, PODS)
"""What the cloud knows of every machine; an overlay may not change it."""
NOT_PER_TYPE: Final = (
    f"{label_keys.AWS_DOMAIN}/instance-tenancy",
    label_keys.CAPACITY_RESERVATION_ID,
    label_keys.CAPACITY_RESERVATION_TYPE,
    label_keys.CAPACITY_RESERVATION_INTERRUPTIBLE,
    label_keys.PLACEMENT_GROUP_ID,
    f"{label_keys.AWS_DOMAIN}/placement-group-partition",
)
"""Labels that are chosen for each machine; what all machines of a type have cannot hang on them."""


def decode_overlay(root: Field) -> NodeOverlay:
    """Read a karpenter.sh/v1alpha1 NodeOverlay by the rules of its CRD."""
    meta, spec = metadata(root), root["spec"]
    spec.known_keys("requirements price priceAdjustment capacity weight".split())
    price, adjustment = spec["price"].text(), spec["priceAdjustment"].text()
    if price and adjustment:
        spec["priceAdjustment"].mistake("goes with price never: say one of the two")
    if spec["price"] and not PRICE.fullmatch(price):
        spec["price"].mistake(f"{price!r} is no price such as 0.25")
    if spec["priceAdjustment"] and not ADJUSTMENT.fullmatch(adjustment):
        spec["priceAdjustment"].mistake(f"{adjustment!r} is no change such as +0.05 or -10%")
    capacity = resources(spec["capacity"])
    for name in NOT_EXTENDED:
        if name in capacity:
            spec["capacity"][name].mistake(f"{name} is known from the cloud and cannot be changed")
    return NodeOverlay(
        name=meta.name,
        uid=meta.uid,
        weight=spec["weight"].whole(low=1, high=HEAVIEST) or 0,
        requirements=_requirements(spec["requirements"]),
        price=price,
        price_adjustment=adjustment,
        capacity=capacity,
        generation=meta.generation,
        resource_version=meta.resource_version,
        conditions=conditions(root["status"]["conditions"]),
    )


def _requirements(field: Field) -> tuple[RequirementSpec, ...]:
    for one in field.items():
        if one["key"].value in NOT_PER_TYPE and field.findings.written_by_hand:
            one["key"].mistake(f"{one['key'].value!r} is nothing that an instance type has")
    return pool_requirements(field, claim=True)


def overlay_status_patch(before: NodeOverlay, after: NodeOverlay) -> dict[str, Any]:
    """Return what changed of the status, locked; empty when nothing did."""
    if before.conditions == after.conditions:
        return {}
    lock = {"resourceVersion": before.resource_version}
    return {"metadata": lock, "status": {"conditions": show_conditions(after.conditions)}}
