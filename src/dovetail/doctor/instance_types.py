"""Which instance types a NodePool may buy, by the catalogue."""

from functools import lru_cache

from dovetail.core.instancetypes.ami_families import Family, family_named
from dovetail.core.instancetypes.labels import machine_labels
from dovetail.core.instancetypes.offerings import capacity_types
from dovetail.doctor.facts import Facts
from dovetail.doctor.object_fields import at, class_called, many
from dovetail.model import labels as label_keys
from dovetail.model.cloud.ec2_catalog import Machine
from dovetail.model.karpenter.nodepool import NodePool
from dovetail.model.kube.requirements import Requirements

_USUAL = "AL2023"


def machines_of(facts: Facts, pool: NodePool) -> tuple[Machine, ...]:
    """Return the types that satisfy a pool in the zones that its class reaches."""
    region = facts.catalog.regions.get(facts.region)
    if region is None:
        return ()
    node_class = class_called(facts, pool.template.node_class.name)
    asked = pool.requirements()
    zone, sold_as = asked.allowed(label_keys.ZONE), asked.allowed(label_keys.CAPACITY_TYPE)
    reached = {one for one in zones_of(facts, pool) if zone.has(one)}
    family = family_named(str(at(node_class, "spec", "amiFamily") or _USUAL))
    own = asked.without(label_keys.ZONE, label_keys.CAPACITY_TYPE)
    return tuple(
        one
        for one in facts.catalog.machines_in(facts.region)
        if reached & region.offered.get(one.name, frozenset())
        and (sold_as.has(label_keys.RESERVED) or any(map(sold_as.has, capacity_types(one))))
        and _labels(one, family).clash(own) is None
    )


@lru_cache(maxsize=4096)
def _labels(machine: Machine, family: Family) -> Requirements:
    """Several checks look at all types for every pool; their labels stay the same."""
    return machine_labels(machine, family)


def zones_of(facts: Facts, pool: NodePool) -> set[str]:
    """Return the zones in which nodes can be: those of the class's subnets, else all."""
    region = facts.catalog.regions.get(facts.region)
    every = set(region.zones) if region is not None else set()
    name = pool.template.node_class.name
    seen = {str(one.get("AvailabilityZone")) for one in facts.aws.subnets.get(name, ())}
    told = {str(one.get("zone")) for one in many(class_called(facts, name), "status", "subnets")}
    return (seen or told or every) & every
