"""Checks: the VPC, its subnets, and addresses wherever they are written."""

from collections.abc import Iterable, Iterator, Sequence
from ipaddress import IPv4Network
from itertools import combinations

from dovetail.codec.text.field_path import Path
from dovetail.codec.text.suggestions import did_you_mean
from dovetail.eks.config.cluster import ClusterSpec
from dovetail.eks.config.network import CreatedVpc, ExistingVpc, Nat
from dovetail.eks.config.node_groups import HomeExisting
from dovetail.eks.desired.zones import SMALLEST, private_blocks, public_blocks, zones_of
from dovetail.eks.validation.finding import Finding
from dovetail.model.cloud.ec2_catalog import Catalog, Region

_VPC = ("vpc", "create")


def vpc_findings(spec: ClusterSpec, catalog: Catalog) -> Iterator[Finding]:
    """Check the network that is made, or the one that is named."""
    existing_home = isinstance(spec.home, HomeExisting)
    if spec.vpc is not None:
        if (spec.vpc.create is None) == (spec.vpc.existing is None):
            yield ("vpc",), "must have either create or existing"
            return
        if spec.vpc.create is not None and existing_home:
            yield _VPC, "makes no sense for an existing cluster: it has its VPC; name it"
            return
        if spec.vpc.existing is not None:
            yield from _existing(spec.vpc.existing)
            return
    if not existing_home:
        vpc = (spec.vpc.create if spec.vpc else None) or CreatedVpc()
        yield from _created(vpc, catalog.regions.get(spec.region))


def _existing(vpc: ExistingVpc) -> Iterator[Finding]:
    path: Path = ("vpc", "existing")
    for name, chosen in (("subnets", vpc.subnets), ("securityGroups", vpc.security_groups)):
        if chosen is not None and bool(chosen.ids) == bool(chosen.tags):
            yield (*path, name), "must have either ids or tags"
    for number, one in enumerate(vpc.subnets.ids):
        if not one.startswith("subnet-"):
            yield (*path, "subnets", "ids", number), f"{one!r} is no subnet id (subnet-…)"
    if len(vpc.subnets.ids) == 1:
        yield (*path, "subnets", "ids"), "has one subnet; EKS wants two in different zones"
    for number, one in enumerate(vpc.security_groups.ids if vpc.security_groups else ()):
        if not one.startswith("sg-"):
            yield (*path, "securityGroups", "ids", number), f"{one!r} is no group id (sg-…)"


def _created(vpc: CreatedVpc, region: Region | None) -> Iterator[Finding]:
    """Check a VPC of its own; without a region, all but the names of zones."""
    whole = _network(vpc.cidr)
    if isinstance(whole, str):
        yield (*_VPC, "cidr"), whole
        return
    if not 16 <= whole.prefixlen <= SMALLEST:
        yield (*_VPC, "cidr"), f"/{whole.prefixlen} is no size for a VPC: /16 to /{SMALLEST}"
        return
    if region is not None:
        yield from _zones(vpc, region)
    count = len(vpc.zones) if isinstance(vpc.zones, list) else vpc.zones
    if region is not None:
        count = len(zones_of(vpc, region))
    written = [
        ("privateSubnets", vpc.private_subnets),
        *([] if vpc.nat is Nat.NONE else [("publicSubnets", vpc.public_subnets)]),
    ]
    for name, blocks in written:
        if blocks and len(blocks) != count:
            yield (*_VPC, name), f"has {len(blocks)} subnets for {count} zones; one a zone"
    yield from _subnets(vpc, whole, count)


def _zones(vpc: CreatedVpc, region: Region) -> Iterator[Finding]:
    if not isinstance(vpc.zones, list):
        if vpc.zones > len(zones_of(vpc, region)):
            yield (*_VPC, "zones"), f"{region.name} has {len(zones_of(vpc, region))} zones"
        return
    if len(vpc.zones) < 2:
        yield (*_VPC, "zones"), "EKS wants two zones at least"
    for number, zone in enumerate(vpc.zones):
        if zone not in region.zones:
            guess = did_you_mean(zone, sorted(region.zones))
            yield (*_VPC, "zones", number), f"{zone!r} is no zone of {region.name}{guess}"
    if len(set(vpc.zones)) < len(vpc.zones):
        yield (*_VPC, "zones"), "names a zone twice"


def _subnets(vpc: CreatedVpc, whole: IPv4Network, count: int) -> Iterator[Finding]:
    places: list[tuple[Path, str, IPv4Network]] = []
    try:
        named = [
            ("privateSubnets", private_blocks(vpc, count), vpc.private_subnets),
            ("publicSubnets", public_blocks(vpc, count), vpc.public_subnets),
        ]
    except ValueError:
        yield (*_VPC, "cidr"), f"{vpc.cidr} is too small for {count} zones"
        return
    for name, blocks, written in named:
        for number, block in enumerate(blocks):
            path: Path = (*_VPC, name, number) if written else (*_VPC, "cidr")
            network = _network(block)
            if isinstance(network, str):
                yield path, network
                continue
            places.append((path, block, network))
            if network.prefixlen > SMALLEST:
                yield path, f"{block} is too small for a subnet: /{SMALLEST} is the smallest"
            if not network.subnet_of(whole):
                yield path, f"{block} is not inside the VPC's {vpc.cidr}"
    yield from _overlaps(places)


def _overlaps(places: Sequence[tuple[Path, str, IPv4Network]]) -> Iterator[Finding]:
    for (_, first, one), (path, second, other) in combinations(places, 2):
        if one.overlaps(other):
            yield path, f"{second} overlaps with {first}"


def address_findings(spec: ClusterSpec, catalog: Catalog) -> Iterator[Finding]:
    """Check every address block outside the VPC, and ports."""
    for name, blocks in (
        ("publicCidrs", spec.endpoint.public_cidrs),
        ("vpnCidrs", spec.endpoint.vpn_cidrs),
    ):
        yield from _blocks(("endpoint", name), blocks)
    if not (spec.endpoint.public or spec.endpoint.private):
        yield ("endpoint",), "is neither public nor private: nobody could reach the cluster"
    seen: set[tuple[str, str]] = set()
    for number, one in enumerate(spec.ingress):
        if (one.protocol, str(one.ports)) in seen:
            yield ("ingress", number), f"{one.protocol} {one.ports} is there twice; join the cidrs"
        seen.add((one.protocol, str(one.ports)))
        yield from _blocks(("ingress", number, "cidrs"), one.cidrs)
        low, _, high = str(one.ports).partition("-")
        ends = [low, high or low]
        if not all(end.isdigit() and 0 < int(end) < 65536 for end in ends):
            wrong = f"{one.ports!r} is no port and no range of ports such as 30000-32767"
            yield ("ingress", number, "ports"), wrong
        elif int(ends[0]) > int(ends[1]):
            yield ("ingress", number, "ports"), f"{one.ports!r} goes backwards"


def _blocks(path: Path, blocks: Iterable[str]) -> Iterator[Finding]:
    for number, block in enumerate(blocks):
        network = _network(block)
        if isinstance(network, str):
            yield (*path, number), network


def _network(text: str) -> IPv4Network | str:
    """Return a block of addresses, or what is wrong with it."""
    try:
        return IPv4Network(text)
    except ValueError:
        pass
    try:
        right = IPv4Network(text, strict=False)
    except ValueError:
        return f"{text!r} is no block of addresses, such as 10.0.0.0/16"
    return f"{text!r} does not begin where its block begins; did you mean '{right}'?"
