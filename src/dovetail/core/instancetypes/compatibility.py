"""Compatibility of an instance type with a node class."""

from dovetail.core.instancetypes.ami_families import ami_family_facts
from dovetail.model.cloud.ec2_catalog import Ec2InstanceType
from dovetail.model.karpenter.ec2nodeclass import EC2NodeClass
from dovetail.model.karpenter.ec2nodeclass_launch import NetworkInterface

EFA_ONLY = "efa-only"


def can_launch(ec2_type: Ec2InstanceType, node_class: EC2NodeClass) -> bool:
    """Return True if AMI, interfaces and options of the class work on a type."""
    launch = node_class.launch
    if ec2_type.name.startswith(ami_family_facts(node_class.ami_family).excluded_prefixes):
        return False
    if launch.nested_virtualization == "enabled" and ("nested-virtualization" not in ec2_type.cpu_features):
        return False
    if launch.connection_tracking is not None and ec2_type.hypervisor != "nitro":
        return False
    strategy = node_class.resolved.placement_group.strategy
    if strategy and ec2_type.placement_strategies and strategy not in ec2_type.placement_strategies:
        return False
    return not launch.network_interfaces or _supports_interfaces(launch.network_interfaces, ec2_type)


def _supports_interfaces(interfaces: tuple[NetworkInterface, ...], ec2_type: Ec2InstanceType) -> bool:
    return (
        ec2_type.ena
        and all(interface.device < _max_enis(ec2_type, interface.card) for interface in interfaces)
        and len(interfaces) <= ec2_type.total_enis
        and efa_only(interfaces) <= ec2_type.efas
    )


def _max_enis(ec2_type: Ec2InstanceType, card: int) -> int:
    """Return the maximum number of interfaces of a network card; 0 if there is no such card."""
    if card >= ec2_type.network_cards:
        return 0
    if ec2_type.card_enis:
        return ec2_type.card_enis[card] if card < len(ec2_type.card_enis) else 0
    if card == 0:
        return ec2_type.enis
    # The facts have no limit per card: the other cards share the rest evenly.
    return (ec2_type.total_enis - ec2_type.enis) // (ec2_type.network_cards - 1)


def efa_only(interfaces: tuple[NetworkInterface, ...]) -> int:
    """Return the number of EFA-only interfaces."""
    return sum(interface.kind == EFA_ONLY for interface in interfaces)
