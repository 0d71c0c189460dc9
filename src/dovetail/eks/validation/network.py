"""Validation of the VPC, its subnets, CIDR blocks and ports."""

import re
from collections.abc import Iterable, Iterator, Sequence
from ipaddress import IPv4Network
from itertools import combinations

from dovetail.codec.text.field_path import FieldPath
from dovetail.codec.text.suggestions import pluralize, suggest
from dovetail.eks.config.cluster import ClusterConfig
from dovetail.eks.config.error_messages import FieldError
from dovetail.eks.config.network import CreatedVpc, ExistingVpc, Nat
from dovetail.eks.config.node_groups import ExistingCluster
from dovetail.eks.desired.network import PRIVATE_SERVICES
from dovetail.eks.desired.zones import MAX_PREFIX_LENGTH, private_cidrs, public_cidrs, select_zones
from dovetail.eks.validation.cluster import UNRECORDED_REGIONS
from dovetail.model.cloud.ec2_catalog import Catalog, Region

_CREATE = ("vpc", "create")
_PRIVATE_BLOCKS = tuple(
    IPv4Network(block)
    for block in ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "169.254.0.0/16")
)
ENDPOINT_SERVICES = (
    *PRIVATE_SERVICES,
    *"acm-pca aps-workspaces appmesh-envoy-management athena autoscaling cloudtrail codebuild".split(),
    *"codecommit dynamodb elasticache elasticfilesystem events execute-api fsx git-codecommit glue".split(),
    *"guardduty-data kinesis-firehose kinesis-streams kms lambda monitoring pricing.api rds".split(),
    *"rds-data redshift s3express secretsmanager servicediscovery sns ssmmessages ec2messages".split(),
    *"states synthetics xray".split(),
)
"""Services with VPC endpoints that clusters use, by the end of their service names."""


def validate_vpc(config: ClusterConfig, catalog: Catalog) -> Iterator[FieldError]:
    """Validate the VPC to create, or the existing one."""
    uses_existing_cluster = isinstance(config.home, ExistingCluster)
    if config.vpc is not None:
        if (config.vpc.create is None) == (config.vpc.existing is None):
            yield ("vpc",), "must have either create or existing"
            return
        if config.vpc.create is not None and uses_existing_cluster:
            yield _CREATE, "is not possible for an existing cluster; set vpc.existing to its VPC"
            return
        if config.vpc.existing is not None:
            yield from _validate_existing(config.vpc.existing)
            return
    if not uses_existing_cluster:
        vpc = (config.vpc.create if config.vpc else None) or CreatedVpc()
        if config.region in UNRECORDED_REGIONS:
            yield from _validate_unrecorded_zones(vpc, config.region)
        yield from _validate_created(vpc, catalog.regions.get(config.region))


def _validate_existing(vpc: ExistingVpc) -> Iterator[FieldError]:
    path: FieldPath = ("vpc", "existing")
    selections = (("subnets", vpc.subnets), ("securityGroups", vpc.security_groups))
    for name, selection in selections:
        if selection is not None and bool(selection.ids) == bool(selection.tags):
            yield (*path, name), "must have either ids or tags"
    for number, subnet_id in enumerate(vpc.subnets.ids):
        if not subnet_id.startswith("subnet-"):
            yield ((*path, "subnets", "ids", number), f"{subnet_id!r} is not a subnet id (subnet-…)")
    if len(vpc.subnets.ids) == 1:
        yield (*path, "subnets", "ids"), "has one subnet; EKS requires two in different zones"
    for number, group_id in enumerate(vpc.security_groups.ids if vpc.security_groups else ()):
        if not group_id.startswith("sg-"):
            message = f"{group_id!r} is not a security group id (sg-…)"
            yield (*path, "securityGroups", "ids", number), message


def _validate_created(vpc: CreatedVpc, region: Region | None) -> Iterator[FieldError]:
    """Validate a VPC to create; without a region, all but the names of zones."""
    vpc_network = _parse_cidr(vpc.cidr)
    if isinstance(vpc_network, str):
        yield (*_CREATE, "cidr"), vpc_network
        return
    if not 16 <= vpc_network.prefixlen <= MAX_PREFIX_LENGTH:
        message = f"/{vpc_network.prefixlen} is not a valid VPC size: /16 to /{MAX_PREFIX_LENGTH}"
        yield (*_CREATE, "cidr"), message
        return
    if vpc_network.is_link_local or vpc_network.is_loopback or vpc_network.is_multicast:
        yield (*_CREATE, "cidr"), f"{vpc.cidr} is reserved; use a private block such as 10.0.0.0/16"
    yield from _validate_endpoints(vpc)
    if region is not None:
        yield from _validate_zones(vpc, region)
    count = len(vpc.zones) if isinstance(vpc.zones, list) else vpc.zones
    if region is not None:
        count = len(select_zones(vpc, region))
    subnet_fields = [
        ("privateSubnets", vpc.private_subnets),
        *([] if vpc.nat is Nat.NONE else [("publicSubnets", vpc.public_subnets)]),
    ]
    for field, cidrs in subnet_fields:
        if cidrs and len(cidrs) != count:
            yield (
                (*_CREATE, field),
                f"has {pluralize(len(cidrs), 'subnet')} for {count} zones; expected one per zone",
            )
    yield from _validate_subnets(vpc, vpc_network, count)


def _validate_endpoints(vpc: CreatedVpc) -> Iterator[FieldError]:
    for number, service in enumerate(vpc.endpoints):
        if service not in ENDPOINT_SERVICES:
            message = f"{service!r} is not a service with a VPC endpoint{suggest(service, ENDPOINT_SERVICES)}"
            yield (*_CREATE, "endpoints", number), message


def _validate_unrecorded_zones(vpc: CreatedVpc, region: str) -> Iterator[FieldError]:
    """Validate zones of a region that the catalogue lacks."""
    if not isinstance(vpc.zones, list):
        message = f"the catalogue does not have the zones of {region}; name them: [{region}a, {region}b]"
        yield (*_CREATE, "zones"), message
        return
    if len(set(vpc.zones)) < 2:
        yield (*_CREATE, "zones"), "EKS requires at least two zones"
    for number, zone in enumerate(vpc.zones):
        if re.fullmatch(rf"{region}[a-z]", zone) is None:
            message = f"{zone!r} is not a zone of {region}; write it as in {region}a"
            yield (*_CREATE, "zones", number), message


def _validate_zones(vpc: CreatedVpc, region: Region) -> Iterator[FieldError]:
    if not isinstance(vpc.zones, list):
        if vpc.zones > len(select_zones(vpc, region)):
            available = len(select_zones(vpc, region))
            yield (*_CREATE, "zones"), f"{region.name} has {pluralize(available, 'zone')}"
        return
    if len(vpc.zones) < 2:
        yield (*_CREATE, "zones"), "EKS requires at least two zones"
    for number, zone in enumerate(vpc.zones):
        # Which names an account has is known only to AWS; ``apply`` asks it.
        if zone not in region.zones and re.fullmatch(rf"{region.name}[a-z]", zone) is None:
            hint = suggest(zone, sorted(region.zones))
            yield (*_CREATE, "zones", number), f"{zone!r} is not a zone of {region.name}{hint}"
    if len(set(vpc.zones)) < len(vpc.zones):
        yield (*_CREATE, "zones"), "contains a zone twice"


def _validate_subnets(vpc: CreatedVpc, vpc_network: IPv4Network, count: int) -> Iterator[FieldError]:
    subnets: list[tuple[FieldPath, str, IPv4Network]] = []
    try:
        subnet_fields = [
            ("privateSubnets", private_cidrs(vpc, count), vpc.private_subnets),
            ("publicSubnets", public_cidrs(vpc, count), vpc.public_subnets),
        ]
    except ValueError:
        yield (*_CREATE, "cidr"), f"{vpc.cidr} is too small for {count} zones"
        return
    for field, cidrs, configured in subnet_fields:
        for number, cidr in enumerate(cidrs):
            path: FieldPath = (*_CREATE, field, number) if configured else (*_CREATE, "cidr")
            network = _parse_cidr(cidr)
            if isinstance(network, str):
                yield path, network
                continue
            subnets.append((path, cidr, network))
            if network.prefixlen > MAX_PREFIX_LENGTH:
                yield path, f"{cidr} is too small for a subnet: at least /{MAX_PREFIX_LENGTH}"
            if not network.subnet_of(vpc_network):
                yield path, f"{cidr} is not inside the VPC's {vpc.cidr}"
    yield from _find_overlaps(subnets)


def _find_overlaps(subnets: Sequence[tuple[FieldPath, str, IPv4Network]]) -> Iterator[FieldError]:
    for (_, first, first_network), (path, second, second_network) in combinations(subnets, 2):
        if first_network.overlaps(second_network):
            yield path, f"{second} overlaps with {first}"


def validate_ip_family(config: ClusterConfig, catalog: Catalog) -> Iterator[FieldError]:
    """Validate the address family of the cluster, and the block of Services."""
    is_existing = isinstance(config.home, ExistingCluster)
    for field in ("ipFamily", "serviceCidr"):
        is_set = config.ip_family != "ipv4" if field == "ipFamily" else config.service_cidr is not None
        if is_existing and is_set:
            yield (field,), "is not possible for an existing cluster, which is never changed"
    if config.ip_family == "ipv6" and config.service_cidr is not None:
        yield ("serviceCidr",), "is not possible with ipFamily: ipv6: EKS assigns the block of Services"
    elif config.service_cidr is not None:
        yield from _validate_service_cidr(config)
    if config.ip_family == "ipv6" and not config.addons.vpc_cni.enabled:
        yield ("addons", "vpc-cni"), "must be enabled: only the VPC CNI assigns IPv6 addresses"


def _validate_service_cidr(config: ClusterConfig) -> Iterator[FieldError]:
    network = _parse_cidr(config.service_cidr or "")
    if isinstance(network, str):
        yield ("serviceCidr",), network
        return
    if not any(network.subnet_of(block) for block in _PRIVATE_BLOCKS[:3]):
        yield ("serviceCidr",), f"{network} is not inside 10.0.0.0/8, 172.16.0.0/12 or 192.168.0.0/16"
    if not 12 <= network.prefixlen <= 24:
        yield ("serviceCidr",), f"/{network.prefixlen} is not a size that EKS accepts: /12 to /24"
    if not (config.vpc and config.vpc.existing):
        vpc = _parse_cidr(((config.vpc.create if config.vpc else None) or CreatedVpc()).cidr)
        if not isinstance(vpc, str) and vpc.overlaps(network):
            yield ("serviceCidr",), f"{network} overlaps with the VPC's {vpc}"


def validate_cidrs(config: ClusterConfig, catalog: Catalog) -> Iterator[FieldError]:
    """Validate CIDR blocks outside the VPC, and ports."""
    for name, cidrs in (
        ("publicCidrs", config.endpoint.public_cidrs),
        ("vpnCidrs", config.endpoint.vpn_cidrs),
    ):
        yield from _validate_cidr_list(("endpoint", name), cidrs)
    for number, cidr in enumerate(config.endpoint.public_cidrs):
        network = _parse_cidr(cidr)
        if not isinstance(network, str) and any(network.subnet_of(block) for block in _PRIVATE_BLOCKS):
            message = f"{cidr} is private; EKS accepts public blocks only: use vpnCidrs, with private: true"
            yield ("endpoint", "publicCidrs", number), message
    if not (config.endpoint.public or config.endpoint.private):
        yield ("endpoint",), "is neither public nor private: the cluster would be unreachable"
    rules: set[tuple[str, str]] = set()
    for number, rule in enumerate(config.ingress):
        if (rule.protocol, str(rule.ports)) in rules:
            yield (("ingress", number), f"{rule.protocol} {rule.ports} is defined twice; merge the cidrs")
        rules.add((rule.protocol, str(rule.ports)))
        yield from _validate_cidr_list(("ingress", number, "cidrs"), rule.cidrs)
        low, _, high = str(rule.ports).partition("-")
        ends = [low, high or low]
        if not all(end.isdigit() and 0 < int(end) < 65536 for end in ends):
            message = f"{rule.ports!r} is neither a port nor a range of ports such as 30000-32767"
            yield ("ingress", number, "ports"), message
        elif int(ends[0]) > int(ends[1]):
            yield ("ingress", number, "ports"), f"{rule.ports!r} ends before it begins"


def _validate_cidr_list(path: FieldPath, cidrs: Iterable[str]) -> Iterator[FieldError]:
    for number, cidr in enumerate(cidrs):
        network = _parse_cidr(cidr)
        if isinstance(network, str):
            yield (*path, number), network


def _parse_cidr(text: str) -> IPv4Network | str:
    """Return a CIDR block, or an error message."""
    try:
        return IPv4Network(text)
    except ValueError:
        pass
    try:
        corrected = IPv4Network(text, strict=False)
    except ValueError:
        return f"{text!r} is not a CIDR block, such as 10.0.0.0/16"
    return f"{text!r} has host bits set; did you mean '{corrected}'?"
