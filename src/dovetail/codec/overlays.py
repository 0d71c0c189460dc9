"""NodeOverlays on the wire, read by the rules of their CRD."""

import re
from typing import Any, Final

from dovetail.codec.amounts import resources
from dovetail.codec.conditions import conditions, show_conditions
from dovetail.codec.fields import Field
from dovetail.codec.metadata import metadata
from dovetail.codec.nodepools import MOST_ENTRIES
from dovetail.codec.requirements import POOL_OPERATORS, requirements
from dovetail.model.overlays import NodeOverlay
from dovetail.model.resources import CPU, EPHEMERAL_STORAGE, MEMORY, PODS

PRICE: Final = r"\d+(\.\d+)?"
ADJUSTMENT: Final = r"[+-]\d+(\.\d+)?|\+\d+(\.\d+)?%|-(100(\.0+)?|\d{1,2}(\.\d+)?)%"
HEAVIEST: Final = 10_000
NOT_EXTENDED: Final = (CPU, MEMORY, EPHEMERAL_STORAGE, PODS)
"""What the cloud knows of every machine; an overlay may not change it."""
_PRICE: Final = re.compile(PRICE)
_ADJUSTMENT: Final = re.compile(ADJUSTMENT)


def decode_overlay(root: Field) -> NodeOverlay:
    """Read a karpenter.sh/v1alpha1 NodeOverlay by the rules of its CRD."""
    meta, spec = metadata(root), root["spec"]
    spec.known_keys("requirements price priceAdjustment capacity weight".split())
    spec["requirements"].at_most(MOST_ENTRIES)
    price, adjustment = spec["price"].text(), spec["priceAdjustment"].text()
    if price and adjustment:
        spec["priceAdjustment"].mistake("goes with price never: say one of the two")
    if price and not _PRICE.fullmatch(price):
        spec["price"].mistake(f"{price!r} is no price such as 0.25")
    if adjustment and not _ADJUSTMENT.fullmatch(adjustment):
        spec["priceAdjustment"].mistake(f"{adjustment!r} is no change such as +0.05 or -10%")
    capacity = resources(spec["capacity"])
    for name in NOT_EXTENDED:
        if name in capacity:
            spec["capacity"][name].mistake(f"{name} is known from the cloud and cannot be changed")
    return NodeOverlay(
        name=meta.name,
        uid=meta.uid,
        weight=spec["weight"].whole(low=1, high=HEAVIEST) or 0,
        requirements=requirements(spec["requirements"], POOL_OPERATORS),
        price=price,
        price_adjustment=adjustment,
        capacity=capacity,
        generation=meta.generation,
        resource_version=meta.resource_version,
        conditions=conditions(root["status"]["conditions"]),
    )


def overlay_status_patch(before: NodeOverlay, after: NodeOverlay) -> dict[str, Any]:
    """Return what changed of the status, locked; empty when nothing did."""
    if before.conditions == after.conditions:
        return {}
    lock = {"resourceVersion": before.resource_version}
    return {"metadata": lock, "status": {"conditions": show_conditions(after.conditions)}}
