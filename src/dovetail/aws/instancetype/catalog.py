"""Live catalogue: instance types and offerings of one region, refreshed from EC2."""

from collections.abc import Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from dovetail.aws.errors import AwsError, ErrorKind
from dovetail.aws.instancetype.descriptions import decode_instance_type
from dovetail.aws.instancetype.offerings import (
    OFFERINGS_QUERY,
    TYPES_QUERY,
    build_region,
    decode_offerings,
    describe_zones,
    zones_of,
)
from dovetail.aws.session import AwsSession
from dovetail.model.cloud.ec2_catalog import Ec2InstanceType, Region
from dovetail.ports.cloudprovider import CloudError
from dovetail.ports.telemetry import Log

if TYPE_CHECKING:
    from types_boto3_ec2.client import EC2Client

REFRESH_INTERVAL: Final = timedelta(hours=12)
"""Interval of catalogue and price updates."""
_NO_ANSWER: Final = (ErrorKind.THROTTLED, ErrorKind.TRANSIENT, ErrorKind.NO_CREDENTIALS)
"""Errors that every call gets, whatever the permissions are."""


class LiveCatalog:
    """Instance types that EC2 offers to this account.

    Attributes stay the same objects until something changes. The first response
    has no fallback: only EC2 knows the zones of an account and their names.

    DescribeAvailabilityZones is optional, because Karpenter's controller policy does
    not allow it. Without it, zones are those of the offerings. Their zone ids are
    empty here; ``core.instancetypes.build`` takes them from the subnets.
    """

    def __init__(self, *, aws: AwsSession, log: Log) -> None:
        self._aws = aws
        self._log = log
        self._by_name: dict[str, Ec2InstanceType] = {}
        self.region = Region(name=aws.region)
        self._failure_logged = False
        self._refusal_logged = False
        self.instance_types: tuple[Ec2InstanceType, ...] = ()
        """Sorted by name; empty until EC2 has answered."""

    async def start(self) -> None:
        """Read the catalogue for the first time; raise ``CloudError`` on failure."""
        await self._read()

    async def refresh(self) -> bool:
        """Update the catalogue; on failure keep it and return False.

        Repeated failures are logged once.
        """
        try:
            await self._read()
        except CloudError as error:
            if not self._failure_logged:
                self._failure_logged = True
                self._log.error("updating instance types failed", region=self.region.name, error=str(error))
            return False
        self._failure_logged = False
        return True

    async def _read(self) -> None:
        client: EC2Client = self._aws.ec2()
        zones = await self._read_zones(client)
        offerings = await self._aws.list_pages(
            "DescribeInstanceTypeOfferings", client, "InstanceTypeOfferings", **OFFERINGS_QUERY
        )
        offered = decode_offerings(offerings, zones)
        # Decoded in the thread of the call: a thousand descriptions would block the loop.
        types: list[Ec2InstanceType] = await self._aws.list_pages(
            "DescribeInstanceTypes",
            client,
            "InstanceTypes",
            decode=lambda page: [decode_instance_type(described) for described in page],
            **TYPES_QUERY,
        )
        described = {instance_type.name: instance_type for instance_type in types}
        if zones is None:
            zones = self._zones_of(offered)
        region = build_region(self.region.name, zones, offered, described)
        if not region.offered_zones:
            message = f"region {region.name} offers no instance type"
            raise AwsError("DescribeInstanceTypeOfferings", "NoOfferings", message)
        self._update(region, {name: described[name] for name in region.offered_zones})

    async def _read_zones(self, client: "EC2Client") -> dict[str, str] | None:
        """Return zone → zone id; None if EC2 refuses, which is logged once."""
        try:
            zones = await self._aws.call("DescribeAvailabilityZones", lambda: describe_zones(client))
        except AwsError as error:
            if error.kind in _NO_ANSWER:
                raise
            if not self._refusal_logged:
                self._refusal_logged = True
                self._log.info(
                    "cannot read availability zones; zone ids are those of the subnets of node classes",
                    region=self.region.name,
                    error=str(error),
                )
            return None
        self._refusal_logged = False
        return zones

    def _zones_of(self, offered: Mapping[str, frozenset[str]]) -> dict[str, str]:
        """Return the zones of the offerings, with the zone ids of earlier responses."""
        return {zone: self.region.zones.get(zone, "") for zone in zones_of(offered)}

    def _update(self, region: Region, described: dict[str, Ec2InstanceType]) -> None:
        if region != self.region:
            self.region = region
        if described != self._by_name:
            self._by_name = described
            self.instance_types = tuple(described[name] for name in sorted(described))
            self._log.info("discovered instance types", region=region.name, count=len(self.instance_types))
