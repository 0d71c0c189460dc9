"""Zones and the addresses of subnets in them."""

from collections.abc import Sequence
from ipaddress import IPv4Network
from typing import Final

from dovetail.eks.config.network import CreatedVpc
from dovetail.model.cloud.ec2_catalog import Region

WITHOUT_EKS: Final = frozenset({"use1-az3", "usw1-az2", "cac1-az3"})
"""Zones, by id, in which EKS puts no control plane."""
SMALLEST: Final = 28
"""AWS takes no subnet with a longer prefix."""


def zones_of(vpc: CreatedVpc, region: Region) -> list[str]:
    """Return the names of the zones to use, in order."""
    if isinstance(vpc.zones, list):
        return list(vpc.zones)
    fit = [name for name, zone_id in region.zones.items() if zone_id not in WITHOUT_EKS]
    return sorted(fit)[: vpc.zones]


def private_blocks(vpc: CreatedVpc, count: int) -> list[str]:
    """Return the addresses of the private subnets: what is given, or most of the VPC."""
    if vpc.private_subnets:
        return list(vpc.private_subnets)
    return [str(one) for one in _blocks(vpc, count)[:count]]


def public_blocks(vpc: CreatedVpc, count: int) -> list[str]:
    """Return the addresses of the public subnets: what is given, or the VPC's last part."""
    if vpc.public_subnets:
        return list(vpc.public_subnets)
    last = _blocks(vpc, count)[-1]
    return [str(one) for one in _cut(last, count)[:count]]


def _blocks(vpc: CreatedVpc, count: int) -> Sequence[IPv4Network]:
    return _cut(IPv4Network(vpc.cidr), count + 1)


def _cut(network: IPv4Network, count: int) -> Sequence[IPv4Network]:
    bits = (count - 1).bit_length()
    return list(network.subnets(prefixlen_diff=bits))
