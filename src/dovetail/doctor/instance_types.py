"""Instance types that a NodePool allows, by the catalogue."""

from functools import lru_cache

from dovetail.core.instancetypes.ami_families import AmiFamilyFacts, ami_family_facts
from dovetail.core.instancetypes.labels import instance_type_labels
from dovetail.core.instancetypes.offerings import capacity_types
from dovetail.doctor.facts import Facts
from dovetail.doctor.object_fields import find_nodeclass, get_field, get_list
from dovetail.model import labels as label_keys
from dovetail.model.cloud.ec2_catalog import Ec2InstanceType
from dovetail.model.karpenter.ami_family import DEFAULT_AMI_FAMILY, AmiFamily
from dovetail.model.karpenter.nodepool import NodePool
from dovetail.model.kube.requirements import Requirements


def instance_types_of(facts: Facts, pool: NodePool) -> tuple[Ec2InstanceType, ...]:
    """Return the types that satisfy a NodePool in the zones of its node class."""
    region = facts.catalog.regions.get(facts.region)
    if region is None:
        return ()
    node_class = find_nodeclass(facts, pool.template.node_class.name)
    requirements = pool.requirements()
    zone, capacity_type = (
        requirements.get_or_exists(label_keys.ZONE),
        requirements.get_or_exists(label_keys.CAPACITY_TYPE),
    )
    reachable = {zone_name for zone_name in zones_of(facts, pool) if zone.has(zone_name)}
    ami_family = get_field(node_class, "spec", "amiFamily") or DEFAULT_AMI_FAMILY
    family = ami_family_facts(AmiFamily.parse(str(ami_family)))
    type_requirements = requirements.without(label_keys.ZONE, label_keys.CAPACITY_TYPE)
    return tuple(
        instance_type
        for instance_type in facts.catalog.instance_types_in(facts.region)
        if reachable & region.offered_zones.get(instance_type.name, frozenset())
        and (
            capacity_type.has(label_keys.RESERVED)
            or any(map(capacity_type.has, capacity_types(instance_type)))
        )
        and _labels(instance_type, family).find_disjoint_key(type_requirements) is None
    )


@lru_cache(maxsize=4096)
def _labels(instance_type: Ec2InstanceType, family: AmiFamilyFacts) -> Requirements:
    """Return a type's labels; cached, because several checks need them."""
    return instance_type_labels(instance_type, family)


def zones_of(facts: Facts, pool: NodePool) -> set[str]:
    """Return the zones of the node class's subnets, else all zones of the region."""
    region = facts.catalog.regions.get(facts.region)
    region_zones = set(region.zones) if region is not None else set()
    name = pool.template.node_class.name
    subnet_zones = {str(subnet.get("AvailabilityZone")) for subnet in facts.aws.subnets.get(name, ())}
    zones_in_status = {
        str(subnet.get("zone")) for subnet in get_list(find_nodeclass(facts, name), "status", "subnets")
    }
    return (subnet_zones or zones_in_status or region_zones) & region_zones
