"""Zones of a VPC, and the CIDR blocks of its subnets."""

from collections.abc import Collection, Mapping, Sequence
from ipaddress import IPv4Network
from typing import Final

from dovetail.codec.text.suggestions import pluralize
from dovetail.eks.config.cluster import ClusterConfig
from dovetail.eks.config.network import CreatedVpc, Vpc
from dovetail.errors import DovetailError
from dovetail.model.cloud.ec2_catalog import Catalog, Region
from dovetail.model.frozen import FrozenDict

UNSUPPORTED_ZONE_IDS: Final = frozenset({"use1-az3", "usw1-az2", "cac1-az3"})
"""Ids of zones in which EKS supports no control plane."""
MAX_PREFIX_LENGTH: Final = 28
"""Longest prefix, thus smallest size, of a subnet in AWS."""
PUBLIC_PREFIX_BITS: Final = 6
"""Size of a public subnet in a zone that is added: a 64th of the VPC."""


class ZoneError(DovetailError):
    """The account does not have the zones of the file."""


def get_region(config: ClusterConfig, catalog: Catalog) -> Region:
    """Return the region of the catalogue, else one with the zones that the file names."""
    region = catalog.regions.get(config.region)
    if region is not None:
        return region
    created = config.vpc.create if config.vpc else None
    zones = created.zones if created is not None and isinstance(created.zones, list) else []
    return Region(name=config.region, zones=FrozenDict(dict.fromkeys(zones, "")))


def select_zones(vpc: CreatedVpc, region: Region) -> list[str]:
    """Return the names of the zones to use, sorted unless configured."""
    if isinstance(vpc.zones, list):
        return list(vpc.zones)
    supported = [name for name, zone_id in region.zones.items() if zone_id not in UNSUPPORTED_ZONE_IDS]
    return sorted(supported)[: vpc.zones]


def with_account_zones(
    config: ClusterConfig, zones: Mapping[str, str], in_use: Collection[str]
) -> ClusterConfig:
    """Return the file with the names of its zones, chosen among those of the account.

    ``zones`` are the account's, name → id: the same name is another zone in another
    account. Zones ``in_use`` have subnets of the cluster; they come first. Raises
    ``ZoneError`` for names that the account does not have.
    """
    created = (config.vpc.create if config.vpc else None) or CreatedVpc()
    if isinstance(created.zones, list):
        _check_zones(created.zones, zones)
        return config
    supported = sorted(name for name, zone_id in zones.items() if zone_id not in UNSUPPORTED_ZONE_IDS)
    ordered = [*sorted(in_use), *(name for name in supported if name not in in_use)]
    if created.zones > len(ordered):
        raise ZoneError(
            f"vpc.create.zones: {created.zones}, but this account has {pluralize(len(ordered), 'zone')} in "
            f"{config.region} that support a control plane: {', '.join(ordered)}"
        )
    chosen = created.model_copy(update={"zones": ordered[: created.zones]})
    return config.model_copy(update={"vpc": Vpc(create=chosen)})


def _check_zones(names: Sequence[str], zones: Mapping[str, str]) -> None:
    errors: list[str] = []
    for number, name in enumerate(names):
        field = f"vpc.create.zones[{number}]"
        if name not in zones:
            errors.append(f"{field}: this account has no zone {name}; it has {', '.join(sorted(zones))}")
        elif zones[name] in UNSUPPORTED_ZONE_IDS:
            errors.append(
                f"{field}: {name} is {zones[name]} in this account, in which EKS supports no control plane"
            )
    if errors:
        raise ZoneError("\n".join([*errors, "nothing was changed"]))


def private_cidrs(vpc: CreatedVpc, count: int) -> list[str]:
    """Return the CIDR blocks of private subnets: configured, or most of the VPC."""
    if vpc.private_subnets:
        return list(vpc.private_subnets)
    return [str(network) for network in _zone_blocks(vpc, count)[:count]]


def public_cidrs(vpc: CreatedVpc, count: int) -> list[str]:
    """Return the CIDR blocks of public subnets: configured, or the end of the VPC.

    In a VPC that is large enough, half of its last block stays free for a zone that
    is added later.
    """
    if vpc.public_subnets:
        return list(vpc.public_subnets)
    last = _zone_blocks(vpc, count)[-1]
    if last.prefixlen + 4 <= MAX_PREFIX_LENGTH:
        return [str(network) for network in _split(_split(last, 2)[1], 8)[:count]]
    return [str(network) for network in _split(last, count)[:count]]


def _zone_blocks(vpc: CreatedVpc, count: int) -> Sequence[IPv4Network]:
    return _split(IPv4Network(vpc.cidr), count + 1)


def _split(network: IPv4Network, count: int) -> Sequence[IPv4Network]:
    bits = (count - 1).bit_length()
    return list(network.subnets(prefixlen_diff=bits))
