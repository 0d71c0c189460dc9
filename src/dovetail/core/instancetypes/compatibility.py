"""Compatibility of an instance type with a node class."""

from collections import Counter

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
    per_card = Counter(interface.card for interface in interfaces)
    return (
        ec2_type.ena
        and max(per_card) < ec2_type.network_cards
        and per_card[0] <= ec2_type.enis
        and len(interfaces) <= ec2_type.total_enis
        and efa_only(interfaces) <= ec2_type.efas
    )


def efa_only(interfaces: tuple[NetworkInterface, ...]) -> int:
    """Return the number of EFA-only interfaces."""
    return sum(interface.kind == EFA_ONLY for interface in interfaces)
