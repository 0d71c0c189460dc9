"""Whether a claim is still what its NodePool would make."""

from collections.abc import Mapping
from typing import Final

from dovetail.model import labels as label_keys
from dovetail.model.cloud.instance_type import InstanceType
from dovetail.model.karpenter.nodeclaim import NodeClaim
from dovetail.model.karpenter.nodepool import NodePool
from dovetail.model.kube.requirements import Requirements

DRIFTED: Final = "Drifted"
"""The condition of a claim."""
NODE_POOL: Final = "NodePoolDrifted"
REQUIREMENTS: Final = "RequirementsDrifted"
INSTANCE_TYPE: Final = "InstanceTypeNotFound"

_STAMPS: Final = (label_keys.NODEPOOL_HASH, label_keys.NODEPOOL_HASH_VERSION)
_SETTLED_BY_OFFERING: Final = (label_keys.ZONE, label_keys.ZONE_ID, label_keys.CAPACITY_TYPE)


def pool_drift(claim: NodeClaim, pool: NodePool) -> str | None:
    """Return why a claim's pool would not make it as it is, or None."""
    if _stamped_otherwise(claim, pool):
        return NODE_POOL
    wanted = Requirements.of_specs(pool.template.requirements)
    for key, one in wanted.items():
        value = claim.labels.get(key)
        if one.tolerates_absence if value is None else one.has(value):
            continue
        return REQUIREMENTS
    return None


def type_drift(claim: NodeClaim, types: Mapping[str, InstanceType]) -> str | None:
    """Return why a claim's machine is not sold any more, or None.

    Whether it can be had right now does not matter. What was bought in a capacity
    reservation goes on as on-demand when that ends, so either will do.
    """
    one = types.get(claim.labels.get(label_keys.INSTANCE_TYPE, ""))
    if one is None:
        return INSTANCE_TYPE
    settled = {key: claim.labels[key] for key in _SETTLED_BY_OFFERING if key in claim.labels}
    kind = settled.pop(label_keys.CAPACITY_TYPE, None)
    kinds = (kind, label_keys.ON_DEMAND) if kind == label_keys.RESERVED else (kind,)
    place = Requirements.of_labels(settled)
    for offering in one.offerings:
        sold_as_such = kind is None or offering.capacity_type in kinds
        if sold_as_such and offering.requirements().clash(place) is None:
            return None
    return INSTANCE_TYPE


def _stamped_otherwise(claim: NodeClaim, pool: NodePool) -> bool:
    """Tell whether both are stamped, by the same rules, and differently."""
    theirs = [claim.annotations.get(key) for key in _STAMPS]
    ours = [pool.annotations.get(key) for key in _STAMPS]
    known = all((*theirs, *ours)) and theirs[1] == ours[1]
    return known and theirs[0] != ours[0]
