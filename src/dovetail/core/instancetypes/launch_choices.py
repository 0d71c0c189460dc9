"""Which machines to ask the cloud for, for one claim."""

from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from dovetail.core.instancetypes.capacity import EFA
from dovetail.model import labels as label_keys
from dovetail.model.cloud.instance_type import InstanceType, Offering, allocatable
from dovetail.model.frozen import FrozenDict
from dovetail.model.karpenter.nodeclaim import NodeClaim
from dovetail.model.kube.requirements import Requirement, Requirements
from dovetail.model.kube.resources import Resources

MOST_TYPES: Final = 60
"""As many types as one fleet request names."""
_ORDER: Final = (label_keys.RESERVED, label_keys.SPOT, label_keys.ON_DEMAND)
_RESERVATION_LABELS: Final = frozenset(
    {
        label_keys.CAPACITY_RESERVATION_ID,
        label_keys.CAPACITY_RESERVATION_TYPE,
        label_keys.CAPACITY_RESERVATION_INTERRUPTIBLE,
    }
)
_ACCELERATORS: Final = (
    "nvidia.com/gpu",
    "amd.com/gpu",
    "habana.ai/gaudi",
    "aws.amazon.com/neuron",
)
_RELAXED: Final = "karpenter.sh/nodeclaim-min-values-relaxed"
_TENANCY: Final = f"{label_keys.AWS_DOMAIN}/instance-tenancy"


class Choice(msgspec.Struct, frozen=True, kw_only=True):
    """A type in one zone, under one capacity type."""

    instance_type: InstanceType
    offering: Offering


class Refused(msgspec.Struct, frozen=True):
    """Why there is nothing to ask for."""

    because: str


def choices_for(claim: NodeClaim, types: Sequence[InstanceType]) -> tuple[Choice, ...] | Refused:
    """Return what to ask for, cheapest first, all of one capacity type.

    Reserved capacity comes before spot, spot before on-demand. Metal and
    accelerated types, and spot dearer than on-demand, are left out while others
    remain, unless the claim must keep a variety of types (minValues).
    """
    wanted = Requirements.of_specs(claim.requirements)
    demands = _Wanted(wanted, claim.requests)
    relaxed = claim.annotations.get(_RELAXED) == "true"
    variety = {key: one.min_values for key, one in wanted.items() if one.min_values}
    found = {one.name: (one, offerings) for one in types if (offerings := demands.usable(one))}
    if not found:
        return Refused("no instance type meets the requirements and requests and can be had")
    if not variety:
        found = _without_dear_spot(_plain_if_possible(found))
    kind = next(kind for kind in _ORDER if _sold_as(found.values(), kind))
    ranked = sorted(
        (
            (min(one.price for one in offerings if one.capacity_type == kind), name)
            for name, (_, offerings) in found.items()
            if any(one.capacity_type == kind for one in offerings)
        )
    )[:MOST_TYPES]
    kept = [found[name] for _, name in ranked]
    for key, least in variety.items():
        if not relaxed and _distinct(key, wanted[key], [one for one, _ in kept]) < least:
            return Refused(f"minValues {least} of {key} is not met by the types that remain")
    choices = [
        Choice(instance_type=one, offering=offering)
        for one, offerings in kept
        for offering in offerings
        if offering.capacity_type == kind
    ]
    choices.sort(key=lambda one: (one.offering.price, one.instance_type.name, one.offering.zone))
    return tuple(choices)


def labels_of(choice: Choice, claim: NodeClaim) -> FrozenDict[str, str]:
    """Return the labels that a machine bought this way settles."""
    offering = choice.offering
    labels = {
        key: next(iter(one.values))
        for key, one in choice.instance_type.requirements.items()
        if not one.complement
        and len(one.values) == 1
        and (offering.reservation_id or key not in _RESERVATION_LABELS)
    }
    tenancy = Requirements.of_specs(claim.requirements).allowed(_TENANCY)
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


def shape_of(choice: Choice, claim: NodeClaim) -> tuple[Resources, Resources]:
    """Return capacity and allocatable; network adapters only where they were asked for."""
    one = choice.instance_type
    capacity, left = one.capacity, allocatable(one.capacity, one.overhead)
    if not claim.requests.get(EFA):
        capacity = Resources({name: many for name, many in capacity.items() if name != EFA})
        left = Resources({name: many for name, many in left.items() if name != EFA})
    return capacity.without_zeros(), left.without_zeros()


class _Wanted:
    """A claim's demands, asked many times."""

    def __init__(self, requirements: Requirements, requests: Resources) -> None:
        self.requirements = requirements
        self._requests = requests
        self._names = requirements.allowed(label_keys.INSTANCE_TYPE)
        self._places: dict[tuple[str, str, str, str], bool] = {}

    def usable(self, one: InstanceType) -> tuple[Offering, ...]:
        """Return the offerings through which a type would do."""
        # First the name: most claims list their types, and this is far cheaper than the rest.
        if not self._names.has(one.name):
            return ()
        offerings = tuple(
            offering for offering in one.offerings if offering.available and self._meets(offering)
        )
        if not offerings or one.requirements.clash(self.requirements) is not None:
            return ()
        return offerings if self._requests.fits_in(one.allocatable) else ()

    def _meets(self, offering: Offering) -> bool:
        place = (
            offering.capacity_type,
            offering.zone,
            offering.zone_id,
            offering.reservation_id,
        )
        if place not in self._places:
            self._places[place] = self.requirements.clash(offering.requirements()) is None
        return self._places[place]


_Found = dict[str, tuple[InstanceType, tuple[Offering, ...]]]


def _plain_if_possible(found: _Found) -> _Found:
    plain = {name: one for name, one in found.items() if not _is_exotic(one[0])}
    return plain or found


def _is_exotic(one: InstanceType) -> bool:
    return "metal" in one.name.partition(".")[2] or any(
        one.capacity.get(name) for name in _ACCELERATORS
    )


def _without_dear_spot(found: _Found) -> _Found:
    """Leave out spot that costs more than the cheapest on-demand."""
    on_demand = [
        one.price
        for _, offerings in found.values()
        for one in offerings
        if one.capacity_type == label_keys.ON_DEMAND
    ]
    if not on_demand:
        return found
    ceiling = min(on_demand)
    return {
        name: (one, kept)
        for name, (one, offerings) in found.items()
        if (
            kept := tuple(
                offering
                for offering in offerings
                if offering.capacity_type != label_keys.SPOT or offering.price <= ceiling
            )
        )
    }


def _sold_as(found: Iterable[tuple[InstanceType, tuple[Offering, ...]]], kind: str) -> bool:
    return any(one.capacity_type == kind for _, offerings in found for one in offerings)


def _distinct(key: str, wanted: Requirement, types: Iterable[InstanceType]) -> int:
    known = (one.requirements.get(key) for one in types)
    return len({value for one in known if one for value in one.values if wanted.has(value)})
