"""Launch choices: instance types and offerings for the CreateFleet request of a claim."""

from collections.abc import Iterable, Sequence
from math import inf
from typing import Final

import msgspec

from dovetail.core.instancetypes.capacity import EFA
from dovetail.core.instancetypes.offerings import CAPACITY_TYPE_ORDER, OfferingFilter, collect_values
from dovetail.model import labels as label_keys
from dovetail.model.cloud.instance_type import InstanceType, Offering
from dovetail.model.frozen import FrozenDict
from dovetail.model.karpenter.nodeclaim import NodeClaim
from dovetail.model.kube.requirements import Requirements
from dovetail.model.kube.resources import Resources

MAX_TYPES: Final = 60
"""Instance types in one CreateFleet request."""

_RESERVATION_LABELS: Final = frozenset(
    {
        label_keys.CAPACITY_RESERVATION_ID,
        label_keys.CAPACITY_RESERVATION_TYPE,
        label_keys.CAPACITY_RESERVATION_INTERRUPTIBLE,
    }
)
_ACCELERATORS: Final = ("nvidia.com/gpu", "amd.com/gpu", "habana.ai/gaudi", "aws.amazon.com/neuron")

_TENANCY: Final = f"{label_keys.AWS_DOMAIN}/instance-tenancy"


class LaunchChoice(msgspec.Struct, frozen=True, kw_only=True):
    """An instance type with one offering."""

    instance_type: InstanceType
    offering: Offering


class NoLaunchChoices(msgspec.Struct, frozen=True):
    """No instance can be launched for a claim."""

    reason: str


def find_launch_choices(
    claim: NodeClaim, types: Sequence[InstanceType]
) -> tuple[LaunchChoice, ...] | NoLaunchChoices:
    """Return the launch choices, cheapest first, all of one capacity type.

    Reserved capacity comes before spot, spot before on-demand. Metal and accelerated
    types, and spot more expensive than on-demand, are left out while others remain,
    unless the claim has minValues.
    """
    requirements = Requirements.from_specs(claim.requirements)
    usable_types = _find_usable_types(types, requirements, claim.requests)
    relaxed = claim.annotations.get(label_keys.MIN_VALUES_RELAXED) == "true"
    min_values = {key: own.min_values for key, own in requirements.items() if own.min_values}
    if not usable_types:
        return NoLaunchChoices("no available instance type meets the requirements and requests")
    if not min_values:
        usable_types = _without_expensive_spot(_prefer_general_purpose(usable_types))
    available = {offering.capacity_type for _, offerings in usable_types.values() for offering in offerings}
    capacity_type = next(name for name in CAPACITY_TYPE_ORDER if name in available)
    of_type = {
        name: [offering for offering in offerings if offering.capacity_type == capacity_type]
        for name, (_, offerings) in usable_types.items()
    }
    prices = [
        (min(offering.price for offering in offerings), name)
        for name, offerings in of_type.items()
        if offerings
    ]
    chosen = [name for _, name in sorted(prices)[:MAX_TYPES]]
    chosen_types = [usable_types[name][0] for name in chosen]
    for key, minimum in min_values.items():
        if not relaxed and len(collect_values(chosen_types, key, requirements[key])) < minimum:
            return NoLaunchChoices(f"minValues {minimum} of {key} is not met by the remaining types")
    choices = [
        LaunchChoice(instance_type=usable_types[name][0], offering=offering)
        for name in chosen
        for offering in of_type[name]
    ]
    choices.sort(key=lambda choice: (choice.offering.price, choice.instance_type.name, choice.offering.zone))
    return tuple(choices)


def launch_labels(choice: LaunchChoice, claim: NodeClaim) -> FrozenDict[str, str]:
    """Return the labels that this launch choice determines."""
    offering = choice.offering
    labels = {
        key: next(iter(requirement.values))
        for key, requirement in choice.instance_type.requirements.items()
        if not requirement.complement
        and len(requirement.values) == 1
        and (offering.reservation_id or key not in _RESERVATION_LABELS)
    }
    tenancy = Requirements.from_specs(claim.requirements).get_or_exists(_TENANCY)
    labels |= {
        label_keys.ZONE: offering.zone,
        label_keys.CAPACITY_TYPE: offering.capacity_type,
        _TENANCY: "default" if tenancy.has("default") else "dedicated",
    }
    if offering.zone_id:
        labels[label_keys.ZONE_ID] = offering.zone_id
    if offering.reservation_id:
        labels[label_keys.CAPACITY_RESERVATION_ID] = offering.reservation_id
    return FrozenDict(labels)


def launch_resources(
    choice: LaunchChoice, claim: NodeClaim, *, lists_interfaces: bool
) -> tuple[Resources, Resources]:
    """Return capacity and allocatable, with the EFA interfaces that are attached.

    These are those that the node class lists (``lists_interfaces``). If it lists no
    interfaces, EFA is attached only if the claim requests it.
    """
    instance_type = choice.instance_type
    capacity, allocatable = instance_type.capacity, instance_type.allocatable
    if not lists_interfaces and not claim.requests.get(EFA):
        capacity = Resources({name: amount for name, amount in capacity.items() if name != EFA})
        allocatable = Resources({name: amount for name, amount in allocatable.items() if name != EFA})
    return capacity.without_zeros(), allocatable.without_zeros()


_UsableTypes = dict[str, tuple[InstanceType, tuple[Offering, ...]]]


def _find_usable_types(
    types: Iterable[InstanceType], requirements: Requirements, requests: Resources
) -> _UsableTypes:
    """Return the types that meet a claim, with their offerings that do."""
    names = requirements.get_or_exists(label_keys.INSTANCE_TYPE)
    offering_filter = OfferingFilter(requirements)
    return {
        instance_type.name: (instance_type, offerings)
        for instance_type in types
        # The name first: most claims list their types, and this check is the cheapest.
        if names.has(instance_type.name)
        and (offerings := offering_filter.get_offerings(instance_type))
        and instance_type.requirements.find_disjoint_key(requirements) is None
        and requests.fits_in(instance_type.allocatable)
    }


def _prefer_general_purpose(usable_types: _UsableTypes) -> _UsableTypes:
    general_purpose = {name: entry for name, entry in usable_types.items() if not _is_special(entry[0])}
    return general_purpose or usable_types


def _is_special(instance_type: InstanceType) -> bool:
    return "metal" in instance_type.name.partition(".")[2] or any(
        instance_type.capacity.get(name) for name in _ACCELERATORS
    )


def _without_expensive_spot(usable_types: _UsableTypes) -> _UsableTypes:
    """Return the types without spot offerings above the cheapest on-demand price."""
    all_offerings = [offering for _, offerings in usable_types.values() for offering in offerings]
    on_demand = [o.price for o in all_offerings if o.capacity_type == label_keys.ON_DEMAND]
    max_price = min(on_demand, default=inf)

    def is_cheap(offering: Offering) -> bool:
        return offering.capacity_type != label_keys.SPOT or offering.price <= max_price

    return {
        name: (instance_type, cheap)
        for name, (instance_type, offerings) in usable_types.items()
        if (cheap := tuple(filter(is_cheap, offerings)))
    }
