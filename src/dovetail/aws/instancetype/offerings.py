"""What a region sells, and in which of its zones, as EC2 tells it."""

from collections.abc import Container, Iterable, Iterator, Mapping
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any

from dovetail.model.cloud.ec2_catalog import Region
from dovetail.model.frozen import FrozenDict

if TYPE_CHECKING:
    from types_boto3_ec2.client import EC2Client

_TYPE_FILTERS: Any = [
    {"Name": "supported-virtualization-type", "Values": ["hvm"]},
    {"Name": "processor-info.supported-architecture", "Values": ["x86_64", "arm64"]},
]


def zones_of(client: "EC2Client") -> tuple[dict[str, str], str]:
    """Return the zones that the account can use (zone → id), and the day it is."""
    answer = client.describe_availability_zones()
    zones = {
        zone["ZoneName"]: zone.get("ZoneId", "")
        for zone in sorted(answer["AvailabilityZones"], key=lambda one: one["ZoneName"])
        if zone.get("OptInStatus", "opt-in-not-required") != "not-opted-in"
    }
    headers = answer["ResponseMetadata"]["HTTPHeaders"]
    return zones, parsedate_to_datetime(headers["date"]).date().isoformat()


def offered_in(client: "EC2Client", zones: Iterable[str]) -> dict[str, frozenset[str]]:
    """Return instance type → those of the zones that sell it."""
    known = frozenset(zones)
    found: dict[str, set[str]] = {}
    pages = client.get_paginator("describe_instance_type_offerings").paginate(
        LocationType="availability-zone"
    )
    for page in pages:
        for offering in page["InstanceTypeOfferings"]:
            # EC2 lists zones that this account has no name for; nothing can run there.
            if offering["Location"] in known:
                found.setdefault(offering["InstanceType"], set()).add(offering["Location"])
    return {name: frozenset(sold) for name, sold in found.items()}


def descriptions(client: "EC2Client") -> Iterator[Any]:
    """Hand out all instance types that a Kubernetes node can be, as EC2 describes them."""
    pages = client.get_paginator("describe_instance_types").paginate(Filters=_TYPE_FILTERS)
    for page in pages:
        yield from page["InstanceTypes"]


def region_of(
    name: str,
    zones: Mapping[str, str],
    offered: Mapping[str, frozenset[str]],
    described: Container[str],
) -> Region:
    """Return a region that sells what is both offered and described."""
    kept = {machine: sold for machine, sold in sorted(offered.items()) if machine in described}
    return Region(name=name, zones=FrozenDict(zones), offered=FrozenDict(kept))
