"""Many instances launched, described and terminated on a fake EC2 client."""

import asyncio
import time
from collections.abc import Awaitable, Iterator
from datetime import UTC, datetime
from itertools import count
from typing import Any, cast

import boto3

from dovetail.aws.cloudprovider import AwsCloudProvider
from dovetail.aws.instance.instances import Ec2Instances
from dovetail.aws.instance.launcher import InstanceLauncher
from dovetail.aws.launchtemplate.launch_templates import LaunchTemplates
from dovetail.aws.session import AwsSession
from dovetail.host.event_loop import AsyncioEventLoop
from dovetail.host.randomness import SystemRandomSource
from dovetail.model.karpenter.ec2nodeclass import EC2NodeClass
from dovetail.state.instancetypes.provider import InstanceTypeProvider
from dovetail.state.instancetypes.unavailable_offerings import UnavailableOfferings
from tests.simulator.ec2.harness import CATALOG, PRICES, REGION
from tests.support.aws.launches import claims
from tests.support.aws.provider_process import FakeFreeAddresses, FakeNodeClassResolver
from tests.support.controllers.environment import ImmediateExecutor


class FakeEc2:
    """A fake EC2 client."""

    def __init__(self) -> None:
        self._numbers = count(1)
        self.instances: dict[str, dict[str, Any]] = {}
        self.calls = 0

    def create_launch_template(self, **_: Any) -> None:
        self.calls += 1

    def create_fleet(self, **request: Any) -> dict[str, Any]:
        self.calls += 1
        overrides = request["LaunchTemplateConfigs"][0]["Overrides"][0]
        ids = [
            f"i-{next(self._numbers):017x}"
            for _ in range(request["TargetCapacitySpecification"]["TotalTargetCapacity"])
        ]
        for instance_id in ids:
            self.instances[instance_id] = {
                "InstanceId": instance_id,
                "InstanceType": overrides["InstanceType"],
                "Placement": {"AvailabilityZone": overrides["AvailabilityZone"]},
                "LaunchTime": datetime(2026, 1, 1, tzinfo=UTC),
                "State": {"Name": "running"},
                "Tags": request["TagSpecifications"][0]["Tags"],
            }
        shown = {"LaunchTemplateAndOverrides": {"Overrides": overrides}}
        return {"Instances": [{**shown, "InstanceIds": ids, "InstanceType": overrides["InstanceType"]}]}

    def terminate_instances(self, *, InstanceIds: list[str]) -> None:  # noqa: N803
        self.calls += 1
        for instance_id in InstanceIds:
            del self.instances[instance_id]

    def describe_instances(self, *, Filters: list[Any], **_: Any) -> dict[str, Any]:  # noqa: N803
        self.calls += 1
        named = [query_filter["Values"] for query_filter in Filters if query_filter["Name"] == "instance-id"]
        ids = named[0] if named else list(self.instances)
        return {"Reservations": [{"Instances": [self.instances[entry] for entry in ids]}]}


class FakeSession:
    """A boto3 session whose only client is the fake one."""

    def __init__(self, client: FakeEc2) -> None:
        self._client = client

    def client(self, *_: object, **__: object) -> FakeEc2:
        return self._client


async def run_lifecycles(instance_count: int) -> tuple[float, int]:
    """Launch, list, get and terminate instances; return duration and calls."""
    loop, ec2 = AsyncioEventLoop(), FakeEc2()
    client: Any = ec2
    aws = AwsSession(
        loop=loop,
        executor=ImmediateExecutor(),
        random=SystemRandomSource(),
        region=REGION.name,
        session=cast(boto3.Session, FakeSession(client)),
    )
    subnets = {f"subnet-{zone}": zone for zone in REGION.zones}
    unavailable = UnavailableOfferings()
    templates = LaunchTemplates(aws=aws, ec2=client, loop=loop, cluster="c")
    cloud = AwsCloudProvider(
        loop=loop,
        instances=Ec2Instances(aws=aws, ec2=client, loop=loop, cluster="c"),
        launcher=InstanceLauncher(
            aws=aws,
            templates=templates,
            addresses=FakeFreeAddresses(subnets),
            unavailable=unavailable,
            clock=loop,
            cluster="c",
        ),
        instance_types=InstanceTypeProvider(
            CATALOG.instance_types, region=REGION, prices=PRICES, unavailable=unavailable
        ),
        launch_templates=templates,
        node_classes=FakeNodeClassResolver(subnets, security_group="sg-1"),
        node_class=lambda _: EC2NodeClass(),
    )
    batch = claims(instance_count)
    before = time.process_time()

    instances = await asyncio.gather(*(cloud.create(claim) for claim in batch))
    listed = await cloud.list()
    await _all(cloud.get(instance.provider_id) for instance in instances)
    await _all(cloud.delete(instance.provider_id) for instance in instances)

    elapsed = time.process_time() - before
    assert [instance.nodeclaim for instance in instances] == [claim.name for claim in batch]
    assert {entry.provider_id: entry.nodeclaim for entry in listed} == {
        instance.provider_id: instance.nodeclaim for instance in instances
    }
    assert not ec2.instances
    return elapsed, ec2.calls


async def _all(works: Iterator[Awaitable[Any]]) -> None:
    await asyncio.gather(*works)
