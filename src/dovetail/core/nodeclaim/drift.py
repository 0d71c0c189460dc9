"""Drift of a NodeClaim from its NodePool and from the offered instance types."""

from collections.abc import Mapping
from typing import Final

from dovetail.core.nodeclaim.hash_annotations import NODEPOOL_KEYS, has_hash_drift
from dovetail.model import labels as label_keys
from dovetail.model.cloud.instance_type import InstanceType
from dovetail.model.karpenter.nodeclaim import NodeClaim
from dovetail.model.karpenter.nodepool import NodePool
from dovetail.model.kube.requirements import Requirements

NODEPOOL_DRIFTED: Final = "NodePoolDrifted"
REQUIREMENTS_DRIFTED: Final = "RequirementsDrifted"
INSTANCE_TYPE_NOT_FOUND: Final = "InstanceTypeNotFound"

_OFFERING_LABELS: Final = (label_keys.ZONE, label_keys.ZONE_ID, label_keys.CAPACITY_TYPE)


def get_nodepool_drift_reason(claim: NodeClaim, pool: NodePool) -> str | None:
    """Return why a NodeClaim differs from its NodePool's template, or None."""
    if has_hash_drift(claim, pool.annotations, NODEPOOL_KEYS):
        return NODEPOOL_DRIFTED
    requirements = Requirements.from_specs(pool.template.requirements)
    for key, requirement in requirements.items():
        value = claim.labels.get(key)
        if requirement.allows_absence if value is None else requirement.has(value):
            continue
        return REQUIREMENTS_DRIFTED
    return None


def get_instance_type_drift_reason(claim: NodeClaim, types: Mapping[str, InstanceType]) -> str | None:
    """Return why a NodeClaim's instance type is no longer offered, or None.

    Availability does not matter. An instance in a capacity reservation continues as
    on-demand when the reservation ends, so that either offering is enough.
    """
    instance_type = types.get(claim.labels.get(label_keys.INSTANCE_TYPE, ""))
    if instance_type is None:
        return INSTANCE_TYPE_NOT_FOUND
    labels = {key: claim.labels[key] for key in _OFFERING_LABELS if key in claim.labels}
    capacity_type = labels.pop(label_keys.CAPACITY_TYPE, None)
    accepted = {capacity_type}
    if capacity_type == label_keys.RESERVED:
        accepted.add(label_keys.ON_DEMAND)
    zone = Requirements.from_labels(labels)
    for offering in instance_type.offerings:
        is_accepted = capacity_type is None or offering.capacity_type in accepted
        if is_accepted and offering.requirements().find_disjoint_key(zone) is None:
            return None
    return INSTANCE_TYPE_NOT_FOUND
