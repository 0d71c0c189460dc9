"""Instance types and the offerings through which they can be had."""

import msgspec

from dovetail.model import labels as label_keys
from dovetail.model.kube.requirements import Requirement, Requirements
from dovetail.model.kube.resources import HUGEPAGES_PREFIX, MEMORY, NOTHING, Resources


class Offering(msgspec.Struct, frozen=True, kw_only=True):
    """An instance type in one zone under one capacity type, at one price."""

    zone: str
    capacity_type: str
    price: float
    """USD per hour."""
    available: bool = True
    lacks_price: bool = False
    """It would be available, if anybody knew what it costs."""
    zone_id: str = ""
    reservation_id: str = ""
    reservation_capacity: int = 0
    """How many more instances the reservation holds."""
    capacity_override: Resources | None = None
    overhead_override: Resources | None = None

    def requirements(self) -> Requirements:
        """Return the labels that a node bought this way would have."""
        known = [
            Requirement.one_of(label_keys.ZONE, self.zone),
            Requirement.one_of(label_keys.CAPACITY_TYPE, self.capacity_type),
        ]
        if self.zone_id:
            known.append(Requirement.one_of(label_keys.ZONE_ID, self.zone_id))
        reservation = label_keys.CAPACITY_RESERVATION_ID
        if self.reservation_id:
            known.append(Requirement.one_of(reservation, self.reservation_id))
        else:
            known.append(Requirement.absent(reservation))
        return Requirements.of(known)


class InstanceType(msgspec.Struct, frozen=True, kw_only=True):
    """A kind of machine, as one NodePool would get it."""

    name: str
    requirements: Requirements
    capacity: Resources
    overhead: Resources = NOTHING
    """Kube-reserved, system-reserved and eviction threshold together."""
    offerings: tuple[Offering, ...] = ()
    price_overlaid: bool = False
    """NodeOverlays say what some of its offerings cost."""
    capacity_overlaid: bool = False
    """NodeOverlays say that it has more."""

    @property
    def allocatable(self) -> Resources:
        """What pods (DaemonSets' included) can have of it."""
        return allocatable(self.capacity, self.overhead)


def allocatable(capacity: Resources, overhead: Resources) -> Resources:
    """Take overhead off capacity; huge pages come out of memory, never below zero."""
    left = capacity - overhead
    huge = sum([amount for name, amount in capacity.items() if name.startswith(HUGEPAGES_PREFIX)])
    if huge:
        left = Resources({**left, MEMORY: max(0, left.get(MEMORY, 0) - huge)})
    return left
