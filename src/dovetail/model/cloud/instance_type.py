"""Instance types and their offerings, as one NodePool can launch them."""

from collections.abc import Iterable, Mapping

import msgspec

from dovetail.model import labels as label_keys
from dovetail.model.cloud.cpu_credits import CpuCredits
from dovetail.model.kube.requirements import Requirement, Requirements
from dovetail.model.kube.resources import CPU, HUGEPAGES_PREFIX, MEMORY, NO_RESOURCES, Resources


class Offering(msgspec.Struct, frozen=True, kw_only=True):
    """An instance type in one zone with one capacity type, at one price."""

    zone: str
    capacity_type: str
    price: float
    """USD per hour."""
    available: bool = True
    price_missing: bool = False
    """Unavailable only because its price is unknown."""
    zone_id: str = ""
    reservation_id: str = ""
    reservation_capacity: int = 0
    """Number of free instances in the capacity reservation."""
    capacity_override: Resources | None = None
    overhead_override: Resources | None = None

    def requirements(self) -> Requirements:
        """Return the labels that a node launched from this offering has."""
        requirements = [
            Requirement.one_of(label_keys.ZONE, self.zone),
            Requirement.one_of(label_keys.CAPACITY_TYPE, self.capacity_type),
        ]
        if self.zone_id:
            requirements.append(Requirement.one_of(label_keys.ZONE_ID, self.zone_id))
        key = label_keys.CAPACITY_RESERVATION_ID
        if self.reservation_id:
            requirements.append(Requirement.one_of(key, self.reservation_id))
        else:
            requirements.append(Requirement.does_not_exist(key))
        return Requirements.from_requirements(requirements)


class InstanceType(msgspec.Struct, frozen=True, kw_only=True):
    """An instance type with capacity, overhead and offerings for one NodePool."""

    name: str
    requirements: Requirements
    capacity: Resources
    overhead: Resources = NO_RESOURCES
    """Sum of kube-reserved, system-reserved and the eviction threshold."""
    kube_reserved: Resources | None = None
    system_reserved: Resources | None = None
    """Of the kubelet, if they are computed for each type; None: those of the node class."""
    offerings: tuple[Offering, ...] = ()
    price_overlay_applied: bool = False
    """True if a NodeOverlay changes the price of an offering."""
    capacity_overlay_applied: bool = False
    """True if a NodeOverlay adds extended resources."""
    cpu_credits: CpuCredits | None = None
    """None: not burstable."""
    node_cost: float = 0.0
    """USD per hour of a node beyond its instance: volumes, public address, image pulls."""

    @property
    def allocatable(self) -> Resources:
        """Resources for pods, DaemonSet pods included."""
        return compute_allocatable(self.capacity, self.overhead)

    def expected_cpu(self, requested: Mapping[str, int]) -> int:
        """Return the CPU use to expect of a node in millicores.

        It is what all of its pods request, and what is reserved for the system.
        """
        return requested.get(CPU, 0) + self.overhead.get(CPU, 0)

    def price_surplus(self, requested: Mapping[str, int]) -> float:
        """Return USD per hour of surplus credits for the requests of all pods on a node."""
        if self.cpu_credits is None:
            return 0.0
        return self.cpu_credits.price_surplus(self.expected_cpu(requested))

    def with_offerings(self, offerings: Iterable[Offering]) -> "InstanceType":
        """Return the type with other offerings; itself if they are the same objects."""
        changed = tuple(offerings)
        if all(new is old for new, old in zip(changed, self.offerings, strict=True)):
            return self
        return msgspec.structs.replace(self, offerings=changed)


def compute_allocatable(capacity: Resources, overhead: Resources) -> Resources:
    """Return capacity minus overhead; huge pages are taken from memory, down to zero."""
    remaining = capacity - overhead
    huge = sum([amount for name, amount in capacity.items() if name.startswith(HUGEPAGES_PREFIX)])
    if huge:
        remaining = Resources({**remaining, MEMORY: max(0, remaining.get(MEMORY, 0) - huge)})
    return remaining
