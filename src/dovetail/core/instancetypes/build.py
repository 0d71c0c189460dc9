"""Instance types of a region as one node class would get them."""

from collections.abc import Iterable, Mapping

from dovetail.core.instancetypes.ami_families import Family, family_named
from dovetail.core.instancetypes.capacity import capacity_of
from dovetail.core.instancetypes.compatibility import can_start
from dovetail.core.instancetypes.labels import collect, machine_labels
from dovetail.core.instancetypes.offerings import Market, Pool, capacity_types, offerings_of
from dovetail.core.instancetypes.overhead import overhead_of
from dovetail.core.instancetypes.settings import DEFAULT_SETTINGS, MachineSettings
from dovetail.model import labels as label_keys
from dovetail.model.cloud.ec2_catalog import Machine, Region
from dovetail.model.cloud.instance_type import InstanceType
from dovetail.model.cloud.prices import PriceBook
from dovetail.model.frozen import FrozenDict
from dovetail.model.karpenter.ec2nodeclass import CapacityReservation, NodeClass
from dovetail.model.karpenter.ec2nodeclass_launch import PlacementGroup
from dovetail.model.kube.requirements import Requirements
from dovetail.model.kube.resources import MEMORY, Resources

NOTHING_SEEN: FrozenDict[str, int] = FrozenDict()


def instance_types(
    machines: Iterable[Machine],
    *,
    region: Region,
    node_class: NodeClass,
    prices: PriceBook,
    unavailable: frozenset[Pool] = frozenset(),
    settings: MachineSettings = DEFAULT_SETTINGS,
    memory: Mapping[str, int] = NOTHING_SEEN,
) -> tuple[InstanceType, ...]:
    """Return every machine, in the given order, as an instance type of the class.

    None is left out: what does not boot, is not sold in a reachable zone or has
    no price comes with offerings that are not available. Raises ``BadInput``
    when the class has settings that cannot be read. ``memory`` is what nodes of
    a type were seen to have, in bytes; it stands instead of the estimate.
    """
    family = family_named(node_class.ami_family)
    reachable = region.zones if node_class.zones is None else node_class.zones
    market = Market(
        region=region.name,
        zones=region.zones,
        reachable=frozenset(reachable),
        prices=prices,
        unavailable=unavailable,
    )
    reservations = node_class.reservations if settings.reserved_capacity else ()
    grouped = _placement_labels(node_class.found.placement_group)
    built = []
    for machine in machines:
        held = tuple(one for one in reservations if one.instance_type == machine.name)
        sold_in = region.offered.get(machine.name, frozenset())
        capacity = capacity_of(machine, node_class, settings)
        if machine.name in memory:
            capacity = Resources({**capacity, MEMORY: memory[machine.name]})
        built.append(
            InstanceType(
                name=machine.name,
                requirements=Requirements(
                    {**_requirements(machine, family, market, sold_in, held), **grouped}
                ),
                capacity=capacity,
                overhead=overhead_of(machine, node_class, capacity),
                offerings=offerings_of(
                    machine,
                    sold_in=sold_in,
                    bootable=can_start(machine, node_class),
                    reservations=held,
                    market=market,
                ),
            )
        )
    return tuple(built)


def _placement_labels(group: PlacementGroup) -> Requirements:
    partitions = [str(number) for number in range(1, group.partitions + 1)]
    return collect(
        {
            label_keys.PLACEMENT_GROUP_ID: (group.id,) if group.id else (),
            label_keys.PLACEMENT_GROUP_PARTITION: partitions,
        }
    )


def _requirements(
    machine: Machine,
    family: Family,
    market: Market,
    sold_in: frozenset[str],
    held: tuple[CapacityReservation, ...],
) -> Requirements:
    zones = sorted(zone for zone in sold_in if zone in market.reachable)
    zone_ids = [zone_id for zone in zones if (zone_id := market.zones.get(zone, ""))]
    reserved = (label_keys.RESERVED,) if held else ()
    placed = collect(
        {
            label_keys.REGION: (market.region,),
            label_keys.ZONE: zones,
            label_keys.ZONE_ID: zone_ids,
            label_keys.CAPACITY_TYPE: (*capacity_types(machine), *reserved),
            label_keys.CAPACITY_RESERVATION_ID: [one.id for one in held],
            label_keys.CAPACITY_RESERVATION_TYPE: [one.kind for one in held],
            label_keys.CAPACITY_RESERVATION_INTERRUPTIBLE: [
                "true" if one.interruptible else "false" for one in held
            ],
        }
    )
    return Requirements({**machine_labels(machine, family), **placed})
