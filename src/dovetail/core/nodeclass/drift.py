"""Whether a machine is still what its node class would launch."""

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Final

import msgspec

from dovetail.errors import DovetailError
from dovetail.model import labels as label_keys
from dovetail.model.cloud.instance_type import InstanceType
from dovetail.model.karpenter.ec2nodeclass import NodeClass
from dovetail.model.karpenter.ec2nodeclass_launch import Image
from dovetail.model.karpenter.nodeclaim import NodeClaim
from dovetail.model.kube.requirements import Requirements, RequirementSpec

_STAMPS: Final = (label_keys.EC2_NODE_CLASS_HASH, label_keys.EC2_NODE_CLASS_HASH_VERSION)


class DriftUnknown(DovetailError):
    """It cannot be told now; the claim stays as it is."""


class Machine(msgspec.Struct, frozen=True, kw_only=True):
    """What the cloud says of a claim's machine."""

    subnet: str
    security_groups: frozenset[str]
    capacity_type: str = label_keys.ON_DEMAND
    reservation: str = ""


def class_drift(
    claim: NodeClaim,
    node_class: NodeClass,
    machine: Machine,
    types: Mapping[str, InstanceType],
) -> str | None:
    """Return the reason why a claim should be replaced, or None.

    The first that holds, in this order: what the class says, its image, its
    security groups, its subnet, its reservation, its placement group. Raises
    ``DriftUnknown`` where something that would be compared is not known.
    """
    if _static_drift(claim, node_class):
        return "NodeClassDrift"
    if not claim.image_id or not claim.provider_id:
        raise DriftUnknown(f"nodeclaim {claim.name} does not say what it runs on")
    if claim.image_id != _image_for(claim, node_class, types):
        return "AMIDrift"
    found = node_class.found
    if not found.security_groups or not found.subnets:
        raise DriftUnknown(f"EC2NodeClass {node_class.name} has no subnets or security groups")
    if machine.security_groups != frozenset(found.security_groups):
        return "SecurityGroupDrift"
    if machine.subnet not in {one.id for one in found.subnets}:
        return "SubnetDrift"
    if _left_its_reservation(claim, node_class, machine):
        return "CapacityReservationDrift"
    if node_class.launch.placement_group is not None and not found.placement_group.id:
        raise DriftUnknown(f"EC2NodeClass {node_class.name}: its placement group is not known yet")
    if claim.labels.get(label_keys.PLACEMENT_GROUP_ID, "") != found.placement_group.id:
        return "PlacementGroupDrift"
    return None


def image_of(images: Iterable[Image], one: InstanceType) -> str | None:
    """Return the image that a type boots: the first, so the newest, that is meant for it."""
    for image in images:
        if _meant_for(image.requirements).clash(one.requirements) is None:
            return image.id
    return None


@lru_cache
def _meant_for(specs: tuple[RequirementSpec, ...]) -> Requirements:
    """Compile once what every machine is held against."""
    return Requirements.of_specs(specs)


def _static_drift(claim: NodeClaim, node_class: NodeClass) -> bool:
    """Tell whether both are stamped, by the same rules, and differently."""
    theirs = [claim.annotations.get(key) for key in _STAMPS]
    ours = [node_class.annotations.get(key) for key in _STAMPS]
    known = all((*theirs, *ours)) and theirs[1] == ours[1]
    return known and theirs[0] != ours[0]


def _image_for(claim: NodeClaim, node_class: NodeClass, types: Mapping[str, InstanceType]) -> str:
    name = claim.labels.get(label_keys.INSTANCE_TYPE, "")
    one = types.get(name)
    if one is None:
        raise DriftUnknown(f"nodeclaim {claim.name}: instance type {name!r} is not known")
    if not node_class.found.images:
        raise DriftUnknown(f"EC2NodeClass {node_class.name} has no images")
    image = image_of(node_class.found.images, one)
    if image is None:
        # Nothing could take its place.
        raise DriftUnknown(f"EC2NodeClass {node_class.name} has no image for {name}")
    return image


def _left_its_reservation(claim: NodeClaim, node_class: NodeClass, machine: Machine) -> bool:
    """Tell whether a machine is in a reservation that the class does not select any more.

    The claim's label may be out of date: what became on-demand is not in one.
    """
    if claim.labels.get(label_keys.CAPACITY_TYPE) != label_keys.RESERVED:
        return False
    if machine.capacity_type != label_keys.RESERVED:
        return False
    return machine.reservation not in {one.id for one in node_class.reservations}
