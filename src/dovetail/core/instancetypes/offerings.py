"""Where and how a machine type can be bought, and at what price."""

from collections.abc import Iterable, Mapping
from math import inf

import msgspec

from dovetail.model import labels as label_keys
from dovetail.model.cloud.ec2_catalog import Machine
from dovetail.model.cloud.instance_type import Offering
from dovetail.model.cloud.prices import PriceBook
from dovetail.model.karpenter.ec2nodeclass import CapacityReservation

UNPRICED = inf
"""The price of an offering that nobody has priced; never available."""
RESERVED_DISCOUNT = 10_000_000
"""Reserved capacity is paid for already: cheaper than all else, its order kept."""

Pool = tuple[str, str, str]
"""(capacity type, machine type, zone): what runs out of capacity as one."""


class Market(msgspec.Struct, frozen=True, kw_only=True):
    """All that offerings of one region and node class have in common."""

    region: str
    zones: Mapping[str, str]
    """Every zone of the region → its id."""
    reachable: frozenset[str]
    """The zones in which the node class has a subnet."""
    prices: PriceBook
    unavailable: frozenset[Pool] = frozenset()


def capacity_types(machine: Machine) -> tuple[str, ...]:
    """Return how the type is sold, reservations apart."""
    sold = machine.usage_classes
    return tuple(one for one in (label_keys.ON_DEMAND, label_keys.SPOT) if one in sold)


def offerings_of(
    machine: Machine,
    *,
    sold_in: frozenset[str],
    bootable: bool,
    reservations: Iterable[CapacityReservation],
    market: Market,
) -> tuple[Offering, ...]:
    """Return one offering per zone and capacity type, and one per reservation.

    What cannot be bought is listed too, as not available: "why not" needs it.
    """
    found = []
    sold_as = capacity_types(machine)
    for zone, zone_id in market.zones.items():
        usable = bootable and zone in sold_in and zone in market.reachable
        for capacity_type in sold_as:
            price = _price(market, machine.name, capacity_type, zone, zone_id)
            scarce = (capacity_type, machine.name, zone) in market.unavailable
            found.append(
                Offering(
                    zone=zone,
                    zone_id=zone_id,
                    capacity_type=capacity_type,
                    price=UNPRICED if price is None else price,
                    available=usable and price is not None and not scarce,
                    lacks_price=usable and price is None and not scarce,
                )
            )
    found.extend(
        _reserved(one, usable=bootable and one.zone in sold_in & market.reachable, market=market)
        for one in reservations
    )
    return tuple(found)


def _price(
    market: Market, machine: str, capacity_type: str, zone: str, zone_id: str
) -> float | None:
    if capacity_type == label_keys.SPOT:
        return market.prices.spot(machine, region=market.region, zone=zone, zone_id=zone_id)
    return market.prices.on_demand(machine, market.region, zone_id)


def _reserved(one: CapacityReservation, *, usable: bool, market: Market) -> Offering:
    zone_id = market.zones.get(one.zone, "")
    listed = market.prices.on_demand(one.instance_type, market.region, zone_id)
    return Offering(
        zone=one.zone,
        zone_id=zone_id,
        capacity_type=label_keys.RESERVED,
        price=(listed or 0.0) / RESERVED_DISCOUNT,
        available=usable and one.available > 0 and not one.expiring,
        reservation_id=one.id,
        reservation_capacity=one.available,
    )
