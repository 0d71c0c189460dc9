"""The catalogue of one region, kept current from EC2."""

from datetime import timedelta
from typing import TYPE_CHECKING, Final

from dovetail.aws.errors import AwsError
from dovetail.aws.instancetype.descriptions import machine_of
from dovetail.aws.instancetype.offerings import descriptions, offered_in, region_of, zones_of
from dovetail.aws.session import Aws
from dovetail.model.cloud.ec2_catalog import Machine, Region
from dovetail.ports.cloudprovider import CloudError
from dovetail.ports.event_loop import Loop
from dovetail.ports.telemetry import Log

if TYPE_CHECKING:
    from types_boto3_ec2.client import EC2Client

PERIOD: Final = timedelta(hours=12)
"""How long a catalogue, and prices, are good for."""


class LiveCatalog:
    """What EC2 sells to this account; objects stay the same until something changes.

    There is no substitute for the first answer: which zones an account has, and
    by what names, only EC2 knows.
    """

    def __init__(self, *, aws: Aws, loop: Loop, log: Log) -> None:
        self._aws = aws
        self._loop = loop
        self._log = log
        self._machines: dict[str, Machine] = {}
        self._region = Region(name=aws.region)
        self._complained = False
        self.machines: tuple[Machine, ...] = ()
        """Sorted by name; empty until EC2 has answered."""

    @property
    def region(self) -> Region:
        return self._region

    async def start(self) -> None:
        """Ask for the first time; raises ``CloudError`` when that fails."""
        await self._ask()

    async def refresh(self) -> bool:
        """Ask again; on failure, which is said once, all stays as it is."""
        try:
            await self._ask()
        except CloudError as error:
            if not self._complained:
                self._complained = True
                self._log.error(
                    "updating instance types failed", region=self._region.name, error=str(error)
                )
            return False
        self._complained = False
        return True

    async def _ask(self) -> None:
        client: EC2Client = self._aws.ec2()
        zones, _ = await self._aws.call("DescribeAvailabilityZones", lambda: zones_of(client))
        offered = await self._aws.call(
            "DescribeInstanceTypeOfferings", lambda: offered_in(client, zones)
        )
        # Read in the thread that asked: a thousand descriptions take a moment.
        described = await self._aws.call("DescribeInstanceTypes", lambda: _machines(client))
        region = region_of(self._region.name, zones, offered, described)
        if not region.offered:
            message = f"region {region.name} offers no instance type"
            raise AwsError("DescribeInstanceTypeOfferings", "NoOfferings", message)
        self._take(region, {name: described[name] for name in region.offered})

    def _take(self, region: Region, described: dict[str, Machine]) -> None:
        if region != self._region:
            self._region = region
        if described != self._machines:
            self._machines = described
            self.machines = tuple(described[name] for name in sorted(described))
            self._log.info(
                "discovered instance types", region=region.name, count=len(self.machines)
            )


def _machines(client: "EC2Client") -> dict[str, Machine]:
    return {one["InstanceType"]: machine_of(one) for one in descriptions(client)}
