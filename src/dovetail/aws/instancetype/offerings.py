"""Zones, offerings and instance types of a region, read from EC2."""

from collections.abc import Container, Iterable, Iterator, Mapping
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any

from dovetail.model.cloud.ec2_catalog import Region
from dovetail.model.frozen import FrozenDict

if TYPE_CHECKING:
    from types_boto3_ec2.client import EC2Client

OFFERINGS_QUERY: Any = {"LocationType": "availability-zone"}
TYPES_QUERY: Any = {
    "Filters": [
        {"Name": "supported-virtualization-type", "Values": ["hvm"]},
        {"Name": "processor-info.supported-architecture", "Values": ["x86_64", "arm64"]},
    ]
}
"""Instance types that can be Kubernetes nodes."""


def describe_zones(client: "EC2Client") -> tuple[dict[str, str], str]:
    """Return the zones of the account (zone → id), and the date of the response."""
    answer = client.describe_availability_zones()
    zones = {
        zone["ZoneName"]: zone.get("ZoneId", "")
        for zone in sorted(answer["AvailabilityZones"], key=lambda zone: zone["ZoneName"])
        if zone.get("OptInStatus", "opt-in-not-required") != "not-opted-in"
    }
    headers = answer["ResponseMetadata"]["HTTPHeaders"]
    return zones, parsedate_to_datetime(headers["date"]).date().isoformat()


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
    """Yield the descriptions of all instance types that can be Kubernetes nodes."""
    for page in client.get_paginator("describe_instance_types").paginate(**TYPES_QUERY):
        yield from page["InstanceTypes"]


def build_region(
    name: str, zones: Mapping[str, str], offered: Mapping[str, frozenset[str]], described: Container[str]
) -> Region:
    """Return a region with the instance types that are offered and described."""
    both = {kind: where for kind, where in sorted(offered.items()) if kind in described}
    return Region(name=name, zones=FrozenDict(zones), offered_zones=FrozenDict(both))
