"""Drift of an instance from its EC2NodeClass."""

from collections.abc import Iterable, Mapping
from functools import lru_cache

import msgspec

from dovetail.core.nodeclaim.hash_annotations import NODECLASS_KEYS, has_hash_drift
from dovetail.errors import DovetailError
from dovetail.model import labels as label_keys
from dovetail.model.cloud.instance_type import InstanceType
from dovetail.model.karpenter.ec2nodeclass import EC2NodeClass
from dovetail.model.karpenter.ec2nodeclass_launch import Ami
from dovetail.model.karpenter.nodeclaim import NodeClaim
from dovetail.model.kube.requirements import Requirements, RequirementSpec


class DriftUnknownError(DovetailError):
    """Drift cannot be determined now; the condition of the NodeClaim is kept."""


class InstanceFacts(msgspec.Struct, frozen=True, kw_only=True):
    """Properties of an instance, as EC2 reports them."""

    subnet: str
    security_groups: frozenset[str]
    capacity_type: str = label_keys.ON_DEMAND
    reservation: str = ""


def get_nodeclass_drift_reason(
    claim: NodeClaim, node_class: EC2NodeClass, instance: InstanceFacts, types: Mapping[str, InstanceType]
) -> str | None:
    """Return the reason why a NodeClaim has drifted, or None.

    The first of: hash of the node class, AMI, security groups, subnet, capacity
    reservation, placement group. Raises ``DriftUnknownError`` if a value to compare
    is missing.
    """
    if has_hash_drift(claim, node_class.annotations, NODECLASS_KEYS):
        return "NodeClassDrift"
    if not claim.image_id or not claim.provider_id:
        raise DriftUnknownError(f"nodeclaim {claim.name} has no AMI or provider ID")
    if claim.image_id != _get_expected_image(claim, node_class, types):
        return "AMIDrift"
    resolved = node_class.resolved
    if not resolved.security_group_ids or not resolved.subnets:
        raise DriftUnknownError(f"EC2NodeClass {node_class.name} has no subnets or security groups")
    if instance.security_groups != frozenset(resolved.security_group_ids):
        return "SecurityGroupDrift"
    if instance.subnet not in {subnet.id for subnet in resolved.subnets}:
        return "SubnetDrift"
    if _has_reservation_drift(claim, node_class, instance):
        return "CapacityReservationDrift"
    if node_class.launch.placement_group is not None and not resolved.placement_group.id:
        raise DriftUnknownError(f"EC2NodeClass {node_class.name}: its placement group is not resolved yet")
    if claim.labels.get(label_keys.PLACEMENT_GROUP_ID, "") != resolved.placement_group.id:
        return "PlacementGroupDrift"
    return None


def select_image(images: Iterable[Ami], instance_type: InstanceType) -> str | None:
    """Return the AMI of an instance type: the first, hence newest, that matches."""
    for image in images:
        if _compile_requirements(image.requirements).find_disjoint_key(instance_type.requirements) is None:
            return image.id
    return None


@lru_cache
def _compile_requirements(specs: tuple[RequirementSpec, ...]) -> Requirements:
    """Compile the requirements of an AMI; cached, because every instance needs them."""
    return Requirements.from_specs(specs)


def _get_expected_image(claim: NodeClaim, node_class: EC2NodeClass, types: Mapping[str, InstanceType]) -> str:
    name = claim.labels.get(label_keys.INSTANCE_TYPE, "")
    instance_type = types.get(name)
    if instance_type is None:
        raise DriftUnknownError(f"nodeclaim {claim.name}: instance type {name!r} is unknown")
    if not node_class.resolved.amis:
        raise DriftUnknownError(f"EC2NodeClass {node_class.name} has no images")
    image = select_image(node_class.resolved.amis, instance_type)
    if image is None:
        # A replacement could not be launched.
        raise DriftUnknownError(f"EC2NodeClass {node_class.name} has no image for {name}")
    return image


def _has_reservation_drift(claim: NodeClaim, node_class: EC2NodeClass, instance: InstanceFacts) -> bool:
    """Return True if the node class no longer selects the instance's reservation.

    The NodeClaim's label may be stale: an instance that became on-demand is in none.
    """
    if claim.labels.get(label_keys.CAPACITY_TYPE) != label_keys.RESERVED:
        return False
    if instance.capacity_type != label_keys.RESERVED:
        return False
    return instance.reservation not in {reservation.id for reservation in node_class.capacity_reservations}
