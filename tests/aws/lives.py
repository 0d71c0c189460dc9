"""Many machines bought, looked at and given back, on an EC2 that does as it is told."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from datetime import UTC, datetime
from itertools import count
from typing import Any, TypeVar

from dovetail.aws.cloudprovider import AwsCloud
from dovetail.aws.instance.instances import Machines
from dovetail.aws.instance.launcher import Buyer
from dovetail.aws.launchtemplate.launch_templates import LaunchTemplates
from dovetail.aws.session import Aws
from dovetail.host.event_loop import AsyncioLoop
from dovetail.host.randomness import RealChance
from dovetail.model.karpenter.ec2nodeclass import NodeClass
from dovetail.state.instancetypes.provider import Shelf
from dovetail.state.instancetypes.unavailable_offerings import Scarcity
from tests.aws.buying import claims
from tests.simulator.ec2.place import CATALOG, PRICES, REGION
from tests.support.moto.process import CountedAddresses, FixedClasses

T = TypeVar("T")


class AtOnce:
    """``Offload`` without threads: what is measured is our own work."""

    async def run(self, work: Callable[[], T]) -> T:
        return work()


class PlentifulEc2:
    """An EC2 client that does as it is told."""

    def __init__(self) -> None:
        self._numbers = count(1)
        self.instances: dict[str, dict[str, Any]] = {}
        self.calls = 0

    def create_launch_template(self, **_: Any) -> None:
        self.calls += 1

    def create_fleet(self, **asked: Any) -> dict[str, Any]:
        self.calls += 1
        overrides = asked["LaunchTemplateConfigs"][0]["Overrides"][0]
        ids = [
            f"i-{next(self._numbers):017x}"
            for _ in range(asked["TargetCapacitySpecification"]["TotalTargetCapacity"])
        ]
        for one in ids:
            self.instances[one] = {
                "InstanceId": one,
                "InstanceType": overrides["InstanceType"],
                "Placement": {"AvailabilityZone": overrides["AvailabilityZone"]},
                "LaunchTime": datetime(2026, 1, 1, tzinfo=UTC),
                "State": {"Name": "running"},
                "Tags": asked["TagSpecifications"][0]["Tags"],
            }
        shown = {"LaunchTemplateAndOverrides": {"Overrides": overrides}}
        return {
            "Instances": [{**shown, "InstanceIds": ids, "InstanceType": overrides["InstanceType"]}]
        }

    def terminate_instances(self, *, InstanceIds: list[str]) -> None:  # noqa: N803
        self.calls += 1
        for one in InstanceIds:
            del self.instances[one]

    def get_paginator(self, _: str) -> "PlentifulEc2":
        return self

    def paginate(self, *, Filters: list[Any], **_: Any) -> Iterator[Any]:  # noqa: N803
        self.calls += 1
        named = [one["Values"] for one in Filters if one["Name"] == "instance-id"]
        wanted = named[0] if named else list(self.instances)
        yield {"Reservations": [{"Instances": [self.instances[one] for one in wanted]}]}


async def a_life(many: int) -> tuple[float, int]:
    """Buy, list, look at and give back so many; return the time it took and the calls made."""
    loop, ec2 = AsyncioLoop(), PlentifulEc2()
    client: Any = ec2
    aws = Aws(loop=loop, offload=AtOnce(), chance=RealChance(), region=REGION.name)
    subnets = {f"subnet-{zone}": zone for zone in REGION.zones}
    scarcity = Scarcity()
    templates = LaunchTemplates(aws=aws, ec2=client, loop=loop, cluster="c")
    cloud = AwsCloud(
        loop=loop,
        machines=Machines(aws=aws, ec2=client, loop=loop, cluster="c"),
        buyer=Buyer(
            aws=aws,
            ec2=client,
            templates=templates,
            addresses=CountedAddresses(subnets),
            scarcity=scarcity,
            clock=loop,
            cluster="c",
        ),
        types=Shelf(CATALOG.machines, region=REGION, prices=PRICES, scarcity=scarcity),
        templates=templates,
        classes=FixedClasses(subnets, security_group="sg-1"),
        node_class=lambda _: NodeClass(),
    )
    wanted = claims(many)
    before = time.process_time()

    machines = await asyncio.gather(*(cloud.create(claim) for claim in wanted))
    listed = await cloud.list()
    await _all(cloud.get(one.provider_id) for one in machines)
    await _all(cloud.delete(one.provider_id) for one in machines)

    took = time.process_time() - before
    assert [one.claim for one in machines] == [claim.name for claim in wanted]
    assert {one.provider_id: one.claim for one in listed} == {
        one.provider_id: one.claim for one in machines
    }
    assert not ec2.instances
    return took, ec2.calls


async def _all(works: Iterator[Awaitable[Any]]) -> None:
    await asyncio.gather(*works)
