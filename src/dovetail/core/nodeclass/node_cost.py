"""Node cost: what a node costs per hour beyond its instance.

Counted are the EBS volumes that the node class requests, the public IPv4 address if it
asks for one, and an estimate for pulling images. Licences of agents that are paid per
host are unknown: a setting or an annotation of the NodePool replaces the whole amount.
"""

from collections.abc import Sequence
from math import ceil
from typing import Final

import msgspec

from dovetail.model.karpenter.ec2nodeclass import BlockDevice, EC2NodeClass

_HOURS_PER_MONTH: Final = 730
_GIB: Final = 1 << 30


class VolumePrice(msgspec.Struct, frozen=True, kw_only=True):
    """Price of an EBS volume type in USD per month."""

    gib: float
    iops: float = 0.0
    """Per provisioned IOPS above ``free_iops``."""
    free_iops: int = 0
    throughput: float = 0.0
    """Per provisioned MiB/s above ``free_throughput``."""
    free_throughput: int = 0


VOLUME_PRICES: Final = {
    "gp3": VolumePrice(gib=0.08, iops=0.005, free_iops=3000, throughput=0.04, free_throughput=125),
    "gp2": VolumePrice(gib=0.10),
    "io1": VolumePrice(gib=0.125, iops=0.065),
    "io2": VolumePrice(gib=0.125, iops=0.065),
    "st1": VolumePrice(gib=0.045),
    "sc1": VolumePrice(gib=0.015),
    "standard": VolumePrice(gib=0.05),
}
"""List prices in us-east-1, from https://aws.amazon.com/ebs/pricing/.

The lower prices of io2 above 32,000 IOPS and the I/O requests of ``standard`` are left out.
"""
_DEFAULT_VOLUME_TYPE: Final = "gp2"
"""Type that EC2 uses if a block device names none."""
PUBLIC_IPV4_PER_HOUR: Final = 0.005
"""USD, in every region, from https://aws.amazon.com/vpc/pricing/."""
IMAGE_PULL_PER_HOUR: Final = 0.045 / 24
"""USD: 1 GB of images per node and day through a NAT gateway, at $0.045 per GB."""


def compute_node_cost(node_class: EC2NodeClass, default_sizes: Sequence[int]) -> float:
    """Return USD per hour of a node of this node class, without its instance.

    ``default_sizes`` are the bytes of the gp3 volumes that nodes get if the node class
    has no block devices, the largest last.
    """
    volumes = node_class.block_devices or tuple(
        BlockDevice(volume_bytes=size, volume_type="gp3") for size in default_sizes
    )
    per_month = sum(_price_volume(volume, default_sizes[-1]) for volume in volumes)
    address = PUBLIC_IPV4_PER_HOUR if node_class.launch.associate_public_ip_address else 0.0
    return per_month / _HOURS_PER_MONTH + address + IMAGE_PULL_PER_HOUR


def _price_volume(volume: BlockDevice, default_size: int) -> float:
    """Return USD per month; a volume without a size, from a snapshot, has the default size."""
    price = VOLUME_PRICES.get(volume.volume_type or _DEFAULT_VOLUME_TYPE, VOLUME_PRICES["gp3"])
    size = ceil((volume.volume_bytes or default_size) / _GIB)
    more_iops = max(0, (volume.iops or 0) - price.free_iops)
    more_throughput = max(0, (volume.throughput or 0) - price.free_throughput)
    return size * price.gib + more_iops * price.iops + more_throughput * price.throughput
