"""Whether a machine can be started the way a node class says."""

from collections import Counter

from dovetail.core.instancetypes.ami_families import family_named
from dovetail.model.cloud.ec2_catalog import Machine
from dovetail.model.karpenter.ec2nodeclass import NodeClass
from dovetail.model.karpenter.ec2nodeclass_launch import Interface

EFA_ONLY = "efa-only"


def can_start(machine: Machine, node_class: NodeClass) -> bool:
    """Tell whether image, network interfaces and options of the class work on a machine."""
    launch = node_class.launch
    if machine.name.startswith(family_named(node_class.ami_family).excluded_prefixes):
        return False
    if launch.nested_virtualization == "enabled" and (
        "nested-virtualization" not in machine.cpu_features
    ):
        return False
    if launch.connection_tracking is not None and machine.hypervisor != "nitro":
        return False
    strategy = node_class.found.placement_group.strategy
    if strategy and machine.placement_strategies and strategy not in machine.placement_strategies:
        return False
    return not launch.interfaces or _has_place_for(launch.interfaces, machine)


def _has_place_for(interfaces: tuple[Interface, ...], machine: Machine) -> bool:
    per_card = Counter(one.card for one in interfaces)
    return (
        machine.ena
        and max(per_card) < machine.network_cards
        and per_card[0] <= machine.enis
        and len(interfaces) <= machine.total_enis
        and efa_only(interfaces) <= machine.efas
    )


def efa_only(interfaces: tuple[Interface, ...]) -> int:
    """Return how many interfaces carry nothing but EFA traffic."""
    return sum(one.kind == EFA_ONLY for one in interfaces)
