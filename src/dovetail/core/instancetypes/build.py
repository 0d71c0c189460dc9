"""Build instance types from EC2 type facts, for one region and node class."""

from collections.abc import Iterable, Mapping
from functools import lru_cache

from dovetail.core.instancetypes.ami_families import AmiFamilyFacts, ami_family_facts
from dovetail.core.instancetypes.capacity import compute_capacity
from dovetail.core.instancetypes.compatibility import can_launch
from dovetail.core.instancetypes.kubelet import evaluate_kubelet
from dovetail.core.instancetypes.labels import instance_type_labels, to_requirements
from dovetail.core.instancetypes.offerings import (
    CapacityPool,
    OfferingContext,
    build_offerings,
    capacity_types,
)
from dovetail.core.instancetypes.overhead import compute_overhead
from dovetail.core.instancetypes.settings import DEFAULT_SETTINGS, InstanceTypeSettings
from dovetail.core.nodeclass.node_cost import compute_node_cost
from dovetail.model import labels as label_keys
from dovetail.model.cloud.cpu_credits import find_cpu_credits
from dovetail.model.cloud.ec2_catalog import Ec2InstanceType, Region
from dovetail.model.cloud.instance_type import InstanceType
from dovetail.model.cloud.prices import PriceBook
from dovetail.model.frozen import FrozenDict
from dovetail.model.karpenter.ec2nodeclass import CapacityReservation, EC2NodeClass
from dovetail.model.karpenter.ec2nodeclass_launch import PlacementGroup
from dovetail.model.kube.requirements import Requirements
from dovetail.model.kube.resources import MEMORY, Resources

NO_OBSERVED_MEMORY: FrozenDict[str, int] = FrozenDict()


def build_instance_types(
    ec2_types: Iterable[Ec2InstanceType],
    *,
    region: Region,
    node_class: EC2NodeClass,
    prices: PriceBook,
    unavailable: frozenset[CapacityPool] = frozenset(),
    settings: InstanceTypeSettings = DEFAULT_SETTINGS,
    observed_memory: Mapping[str, int] = NO_OBSERVED_MEMORY,
) -> tuple[InstanceType, ...]:
    """Return one instance type per EC2 type, in the given order.

    None is left out: types that the AMI does not support, that are not offered in a
    zone with a subnet, or that have no price get unavailable offerings.
    ``observed_memory`` (bytes) replaces the memory estimate. Raises ``BadInput`` if
    the node class has invalid settings.
    """
    family = ami_family_facts(node_class.ami_family)
    subnet_zones = region.zones if node_class.zones is None else node_class.zones
    context = OfferingContext(
        region=region.name,
        # A region that was read without DescribeAvailabilityZones has no zone ids; subnets have them.
        zones={zone: zone_id or subnet_zones.get(zone, "") for zone, zone_id in region.zones.items()},
        subnet_zones=frozenset(subnet_zones),
        prices=prices,
        unavailable=unavailable,
    )
    reservations = node_class.capacity_reservations if settings.reserved_capacity else ()
    node_cost = compute_node_cost(node_class, family.default_volume_bytes)
    placement_group_labels = _placement_labels(node_class.resolved.placement_group)
    instance_types = []
    for ec2_type in ec2_types:
        type_reservations = tuple(
            reservation for reservation in reservations if reservation.instance_type == ec2_type.name
        )
        offered_zones = region.offered_zones.get(ec2_type.name, frozenset())
        type_class = evaluate_kubelet(ec2_type, node_class, settings)
        kubelet = type_class.kubelet if type_class is not node_class else None
        capacity = compute_capacity(ec2_type, type_class, settings)
        if ec2_type.name in observed_memory:
            capacity = Resources({**capacity, MEMORY: observed_memory[ec2_type.name]})
        requirements = _requirements(ec2_type, family, context, offered_zones, type_reservations)
        offerings = build_offerings(
            ec2_type,
            offered_zones=offered_zones,
            is_launchable=can_launch(ec2_type, node_class),
            reservations=type_reservations,
            context=context,
        )
        instance_type = InstanceType(
            name=ec2_type.name,
            requirements=Requirements({**requirements, **placement_group_labels}),
            capacity=capacity,
            overhead=compute_overhead(ec2_type, type_class, capacity),
            kube_reserved=kubelet.kube_reserved if kubelet else None,
            system_reserved=kubelet.system_reserved if kubelet else None,
            offerings=offerings,
            cpu_credits=find_cpu_credits(ec2_type, is_windows=family.is_windows, policy=settings.burstable),
            node_cost=node_cost,
        )
        instance_types.append(instance_type)
    return tuple(instance_types)


@lru_cache(maxsize=32)  # Two node classes, in parts of 100 types.
def cached_instance_types(
    ec2_types: tuple[Ec2InstanceType, ...],
    *,
    region: Region,
    node_class: EC2NodeClass,
    prices: PriceBook,
    settings: InstanceTypeSettings = DEFAULT_SETTINGS,
    observed_memory: FrozenDict[str, int] = NO_OBSERVED_MEMORY,
) -> tuple[InstanceType, ...]:
    """Return what ``build_instance_types`` does, at once for recent inputs.

    For forks, replays and plans with one catalogue. The controller does not use it: it
    frees the types of former prices and node classes.
    """
    return build_instance_types(
        ec2_types,
        region=region,
        node_class=node_class,
        prices=prices,
        settings=settings,
        observed_memory=observed_memory,
    )


def _placement_labels(group: PlacementGroup) -> Requirements:
    partitions = [str(number) for number in range(1, group.partition_count + 1)]
    return to_requirements(
        {
            label_keys.PLACEMENT_GROUP_ID: (group.id,) if group.id else (),
            label_keys.PLACEMENT_GROUP_PARTITION: partitions,
        }
    )


def _requirements(
    ec2_type: Ec2InstanceType,
    family: AmiFamilyFacts,
    context: OfferingContext,
    offered_zones: frozenset[str],
    type_reservations: tuple[CapacityReservation, ...],
) -> Requirements:
    zones = sorted(zone for zone in offered_zones if zone in context.subnet_zones)
    zone_ids = [zone_id for zone in zones if (zone_id := context.zones.get(zone, ""))]
    reserved = (label_keys.RESERVED,) if type_reservations else ()
    offering_labels = to_requirements(
        {
            label_keys.REGION: (context.region,),
            label_keys.ZONE: zones,
            label_keys.ZONE_ID: zone_ids,
            label_keys.CAPACITY_TYPE: (*capacity_types(ec2_type), *reserved),
            label_keys.CAPACITY_RESERVATION_ID: [reservation.id for reservation in type_reservations],
            label_keys.CAPACITY_RESERVATION_TYPE: [
                reservation.reservation_type for reservation in type_reservations
            ],
            label_keys.CAPACITY_RESERVATION_INTERRUPTIBLE: [
                "true" if reservation.interruptible else "false" for reservation in type_reservations
            ],
        }
    )
    return Requirements({**instance_type_labels(ec2_type, family), **offering_labels})
