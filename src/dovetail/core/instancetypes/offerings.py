"""Offerings of an instance type: zone, capacity type and price."""

from collections.abc import Iterable, Mapping
from math import inf

import msgspec

from dovetail.model import labels as label_keys
from dovetail.model.cloud.ec2_catalog import Ec2InstanceType
from dovetail.model.cloud.instance_type import InstanceType, Offering
from dovetail.model.cloud.prices import PriceBook
from dovetail.model.karpenter.ec2nodeclass import CapacityReservation
from dovetail.model.kube.requirements import Requirement, Requirements

NO_PRICE = inf
"""Price of an offering without a known price; never available."""
RESERVED_DISCOUNT = 10_000_000
"""Divisor of the on-demand price of reserved capacity.

It is paid for, so it must be cheaper than everything else and keep its order.
"""

CAPACITY_TYPE_ORDER = (label_keys.RESERVED, label_keys.SPOT, label_keys.ON_DEMAND)
"""A launch uses the first available capacity type."""

CapacityPool = tuple[str, str, str]
"""(capacity type, instance type, zone): what runs out of capacity together."""


class OfferingContext(msgspec.Struct, frozen=True, kw_only=True):
    """Input that all offerings of one region and node class share."""

    region: str
    zones: Mapping[str, str]
    """Zone name → zone id, for all zones of the region."""
    subnet_zones: frozenset[str]
    """Zones in which the node class has a subnet."""
    prices: PriceBook
    unavailable: frozenset[CapacityPool] = frozenset()


def capacity_types(ec2_type: Ec2InstanceType) -> tuple[str, ...]:
    """Return the capacity types of an EC2 type, without reserved."""
    names = (label_keys.ON_DEMAND, label_keys.SPOT)
    return tuple(name for name in names if name in ec2_type.usage_classes)


def build_offerings(
    ec2_type: Ec2InstanceType,
    *,
    offered_zones: frozenset[str],
    is_launchable: bool,
    reservations: Iterable[CapacityReservation],
    context: OfferingContext,
) -> tuple[Offering, ...]:
    """Return one offering per zone and capacity type, and one per reservation.

    Unavailable ones are included: unschedulable reasons need them.
    """
    offerings, prices = [], context.prices
    sold_capacity_types = capacity_types(ec2_type)
    for zone, zone_id in context.zones.items():
        is_usable = is_launchable and zone in offered_zones and zone in context.subnet_zones
        for capacity_type in sold_capacity_types:
            if capacity_type == label_keys.SPOT:
                price = prices.spot(ec2_type.name, region=context.region, zone=zone, zone_id=zone_id)
            else:
                price = prices.on_demand(ec2_type.name, context.region, zone_id)
            is_unavailable = (capacity_type, ec2_type.name, zone) in context.unavailable
            offerings.append(
                Offering(
                    zone=zone,
                    zone_id=zone_id,
                    capacity_type=capacity_type,
                    price=NO_PRICE if price is None else price,
                    available=is_usable and price is not None and not is_unavailable,
                    price_missing=is_usable and price is None and not is_unavailable,
                )
            )
    usable_zones = offered_zones & context.subnet_zones if is_launchable else frozenset()
    for reservation in reservations:
        offerings.append(_reserved_offering(reservation, reservation.zone in usable_zones, context))
    return tuple(offerings)


class OfferingFilter:
    """Available offerings that requirements allow.

    Cached: thousands of offerings share a few combinations of zone, capacity type
    and reservation.
    """

    def __init__(self, requirements: Requirements) -> None:
        self._requirements = requirements
        self._allowed: dict[tuple[str, str, str, str], bool] = {}

    def get_offerings(self, instance_type: InstanceType) -> tuple[Offering, ...]:
        """Return the offerings of a type, in their order."""
        available = [offering for offering in instance_type.offerings if offering.available]
        return tuple(filter(self._is_allowed, available))

    def _is_allowed(self, offering: Offering) -> bool:
        key = (offering.zone, offering.capacity_type, offering.zone_id, offering.reservation_id)
        is_allowed = self._allowed.get(key)
        if is_allowed is None:
            disjoint = self._requirements.find_disjoint_key(offering.requirements())
            is_allowed = self._allowed[key] = disjoint is None
        return is_allowed


def collect_values(types: Iterable[InstanceType], key: str, requirement: Requirement) -> set[str]:
    """Return the allowed values that types have of a label; minValues counts them."""
    own = (instance_type.requirements.get(key) for instance_type in types)
    listed = (values for values in own if values is not None and not values.complement)
    return {value for values in listed for value in values.values if requirement.has(value)}


def _reserved_offering(
    reservation: CapacityReservation, is_usable: bool, context: OfferingContext
) -> Offering:
    zone_id = context.zones.get(reservation.zone, "")
    list_price = context.prices.on_demand(reservation.instance_type, context.region, zone_id)
    return Offering(
        zone=reservation.zone,
        zone_id=zone_id,
        capacity_type=label_keys.RESERVED,
        price=(list_price or 0.0) / RESERVED_DISCOUNT,
        available=is_usable and reservation.available_count > 0 and not reservation.expiring,
        reservation_id=reservation.id,
        reservation_capacity=reservation.available_count,
    )
