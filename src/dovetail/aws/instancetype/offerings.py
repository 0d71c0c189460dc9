"""Zones, offerings and instance types of a region, read from EC2."""

from collections.abc import Container, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from dovetail.model.cloud.ec2_catalog import Region
from dovetail.model.frozen import FrozenDict

if TYPE_CHECKING:
    from types_boto3_ec2.client import EC2Client

_VIRTUALIZATION: Final = "hvm"
_ARCHITECTURES: Final = ("x86_64", "arm64")
OFFERINGS_QUERY: Any = {"LocationType": "availability-zone"}
TYPES_QUERY: Any = {
    "Filters": [
        {"Name": "supported-virtualization-type", "Values": [_VIRTUALIZATION]},
        {"Name": "processor-info.supported-architecture", "Values": list(_ARCHITECTURES)},
    ]
}
"""Instance types that can be Kubernetes nodes."""


def describe_zones(client: "EC2Client") -> dict[str, str]:
    """Return the zones of the account: zone → id."""
    answer = client.describe_availability_zones()
    return {
        zone["ZoneName"]: zone.get("ZoneId", "")
        for zone in sorted(answer["AvailabilityZones"], key=lambda zone: zone["ZoneName"])
        if zone.get("OptInStatus", "opt-in-not-required") != "not-opted-in"
    }


def describe_subnet_zones(client: "EC2Client") -> dict[str, str]:
    """Return the zones in which the account has a subnet: zone → id."""
    pages = client.get_paginator("describe_subnets").paginate()
    return {
        subnet["AvailabilityZone"]: subnet.get("AvailabilityZoneId", "")
        for page in pages
        for subnet in page["Subnets"]
    }


def describe_offerings(client: "EC2Client", zones: Iterable[str] | None) -> dict[str, frozenset[str]]:
    """Return instance type → those of the zones that offer it; None for all zones."""
    pages = client.get_paginator("describe_instance_type_offerings").paginate(**OFFERINGS_QUERY)
    return decode_offerings((entry for page in pages for entry in page["InstanceTypeOfferings"]), zones)


def decode_offerings(
    described: Iterable[Mapping[str, Any]], zones: Iterable[str] | None
) -> dict[str, frozenset[str]]:
    """Return instance type → those of the zones that offer it; None for all zones."""
    account_zones = None if zones is None else frozenset(zones)
    offered: dict[str, set[str]] = {}
    for offering in described:
        # EC2 lists zones that this account has no name for; nothing can run there.
        if account_zones is None or offering["Location"] in account_zones:
            offered.setdefault(offering["InstanceType"], set()).add(offering["Location"])
    return {name: frozenset(locations) for name, locations in offered.items()}


def describe_instance_types(client: "EC2Client") -> Iterator[Any]:
    """Yield the descriptions of all instance types that can be Kubernetes nodes.

    They are selected here, because emulators of EC2 apply the filters of ``TYPES_QUERY``
    differently to types with two architectures.
    """
    for page in client.get_paginator("describe_instance_types").paginate():
        for description in page["InstanceTypes"]:
            architectures = description.get("ProcessorInfo", {}).get("SupportedArchitectures", ())
            is_known = not set(_ARCHITECTURES).isdisjoint(architectures)
            if is_known and _VIRTUALIZATION in description.get("SupportedVirtualizationTypes", ()):
                yield description


def zones_of(offered: Mapping[str, frozenset[str]]) -> list[str]:
    """Return the names of all zones with offerings, sorted."""
    return sorted(frozenset().union(*offered.values()))


def build_region(
    name: str, zones: Mapping[str, str], offered: Mapping[str, frozenset[str]], described: Container[str]
) -> Region:
    """Return a region with the instance types that are offered and described."""
    both = {kind: where for kind, where in sorted(offered.items()) if kind in described}
    return Region(name=name, zones=FrozenDict(zones), offered_zones=FrozenDict(both))
