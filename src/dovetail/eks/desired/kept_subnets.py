"""Subnets of an existing cluster keep their blocks; new zones take free space.

A running control plane and its nodes use their subnets, which cannot be moved.
So what the file leaves open follows from the account, not from the number of
zones: the blocks of subnets, and the subnets of node groups and Fargate profiles.
"""

from collections.abc import Iterable, Mapping, Sequence
from ipaddress import IPv4Network
from typing import Any, Final

import msgspec

from dovetail.eks.config.cluster import ClusterConfig
from dovetail.eks.desired.zones import MAX_PREFIX_LENGTH, PUBLIC_PREFIX_BITS
from dovetail.eks.plan.references import find_references
from dovetail.eks.plan.resource import DesiredResource, ObservedState
from dovetail.errors import DovetailError

_IN_SUBNETS: Final = ("eks-node-group", "eks-fargate-profile")
"""Kinds whose subnets cannot change."""


class AddressSpaceError(DovetailError):
    """The VPC has no free block for the subnets of a new zone."""


def keep_subnets(
    desired: Sequence[DesiredResource], observed: ObservedState, config: ClusterConfig
) -> tuple[DesiredResource, ...]:
    """Return the desired resources with the blocks and subnets that are in use."""
    blocks = _derived_blocks(desired, observed, config)
    kept: list[DesiredResource] = []
    for resource in desired:
        changes: Mapping[str, Any] = {}
        if resource.address in blocks:
            changes = {"CidrBlock": blocks[resource.address]}
        elif resource.kind in _IN_SUBNETS:
            changes = _subnets_in_use(resource, observed)
        kept.append(msgspec.structs.replace(resource, properties={**resource.properties, **changes}))
    return tuple(kept)


def _subnets_in_use(resource: DesiredResource, observed: ObservedState) -> Mapping[str, Any]:
    """Return the subnets of a node group if all of them are still desired."""
    current = observed.resources.get(resource.address)
    subnets = resource.properties.get("Subnets")
    if current is None or not isinstance(subnets, list):
        return {}
    existing = (observed.resources.get(reference.address) for reference in find_references(subnets))
    ids = {subnet.attributes.get("id") for subnet in existing if subnet is not None}
    in_use = current.properties.get("Subnets") or []
    return {"Subnets": in_use} if in_use and ids.issuperset(in_use) else {}


def _derived_blocks(
    desired: Sequence[DesiredResource], observed: ObservedState, config: ClusterConfig
) -> dict[str, str]:
    """Return the blocks of subnets for which the file names none, by address."""
    created = config.vpc.create if config.vpc else None
    explicit = {"private": bool(created and created.private_subnets)}
    explicit["public"] = bool(created and created.public_subnets)
    subnets = [resource for resource in desired if resource.kind == "subnet"]
    derived = [subnet for subnet in subnets if not explicit[subnet.name.partition("-")[0]]]
    blocks = {
        subnet.address: str(observed.resources[subnet.address].properties["CidrBlock"])
        for subnet in derived
        if subnet.address in observed.resources
    }
    new = [subnet for subnet in derived if subnet.address not in blocks]
    if not blocks or not new:
        return blocks
    vpc = IPv4Network(observed.resources["vpc/main"].properties["CidrBlock"])
    taken = [IPv4Network(str(block)) for block in blocks.values()]
    taken += [IPv4Network(str(subnet.properties["CidrBlock"])) for subnet in subnets if subnet not in derived]
    return blocks | _allocate(vpc, taken, new)


def _allocate(
    vpc: IPv4Network, taken: Iterable[IPv4Network], new: Sequence[DesiredResource]
) -> dict[str, str]:
    free = [vpc]
    for block in taken:
        free = _without(free, block)
    blocks: dict[str, str] = {}
    public = [subnet for subnet in new if subnet.name.startswith("public-")]
    private = [subnet for subnet in new if subnet not in public]
    for subnet in (*public, *private):
        default = IPv4Network(str(subnet.properties["CidrBlock"]))
        length = default.prefixlen
        if subnet in public:
            length = min(vpc.prefixlen + PUBLIC_PREFIX_BITS, MAX_PREFIX_LENGTH)
        block = _choose(free, default, length, subnet)
        blocks[subnet.address] = str(block)
        free = _without(free, block)
    return blocks


def _choose(
    free: Sequence[IPv4Network], default: IPv4Network, shortest: int, subnet: DesiredResource
) -> IPv4Network:
    """Return the default block, else the largest that is free, up to a size."""
    if any(network.supernet_of(default) for network in free):
        return default
    if not free:
        zone = subnet.name.partition("-")[2]
        raise AddressSpaceError(
            f"vpc.create.zones: the VPC has no free block for a subnet in {zone}; keep the zones as they "
            "are, or create a cluster with a larger vpc.create.cidr"
        )
    largest = min(free, key=lambda network: (network.prefixlen, network))
    length = max(largest.prefixlen, shortest)
    # From the end, so that the rest has one large block.
    return list(largest.subnets(new_prefix=length))[-1]


def _without(networks: Iterable[IPv4Network], block: IPv4Network) -> list[IPv4Network]:
    rest: list[IPv4Network] = []
    for network in networks:
        if block.supernet_of(network):
            continue
        rest.extend(network.address_exclude(block) if network.supernet_of(block) else [network])
    return [network for network in rest if network.prefixlen <= MAX_PREFIX_LENGTH]
