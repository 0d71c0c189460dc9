"""A process that buys through the real adapter from an account that moto keeps."""

import asyncio
from collections.abc import Awaitable, Mapping
from datetime import timedelta
from functools import cache
from typing import Any, TypeVar

import boto3

from dovetail.aws.cloudprovider import AwsCloud
from dovetail.aws.instance.instances import Machines
from dovetail.aws.instance.launcher import Buyer
from dovetail.aws.launchtemplate.launch_config import Boot, Image, Launchable
from dovetail.aws.launchtemplate.launch_templates import LaunchTemplates
from dovetail.aws.nodeclass.capacity_reservations import RoomLeft
from dovetail.aws.session import Aws, Patience
from dovetail.host.event_loop import AsyncioLoop
from dovetail.host.executor import ThreadOffload
from dovetail.host.randomness import RealChance
from dovetail.model.cloud.ec2_catalog import Catalog, Region
from dovetail.model.cloud.prices import PriceBook
from dovetail.model.frozen import FrozenDict
from dovetail.model.karpenter.ec2nodeclass import NodeClass
from dovetail.model.karpenter.ec2nodeclass_launch import Subnet
from dovetail.ports.cloudprovider import ClassStatus
from dovetail.state.instancetypes.provider import Shelf
from dovetail.state.instancetypes.unavailable_offerings import Scarcity
from tests.support.moto.server import MotoAws

T = TypeVar("T")
CLUSTER = "moto"
QUICK = Patience(first=timedelta(milliseconds=5), most=timedelta(milliseconds=50))
"""So that tests do not wait as long as clusters do."""
_EACH = 32_000
"""Addresses that a subnet has in the beginning."""


class FixedClasses:
    """Every class is the same: one image, all subnets, one security group."""

    def __init__(self, subnets: Mapping[str, str], *, security_group: str) -> None:
        self.subnets = tuple(Subnet(id=one, zone=zone) for one, zone in subnets.items())
        self._group = security_group
        self.image = Image(id="ami-12c6146b")

    def launchable(self, node_class: NodeClass) -> Launchable:
        return Launchable(
            node_class=node_class,
            images=(self.image,),
            subnets=self.subnets,
            security_groups=(self._group,),
            instance_profile="nodes",
            user_data=_user_data,
            template=FrozenDict({"MetadataOptions": {"HttpTokens": "required"}}),
        )

    async def resolve(self, node_class: dict[str, Any]) -> ClassStatus:
        return ClassStatus(status={})

    async def forget(self, node_class: dict[str, Any]) -> None:
        """Make nothing, and there is nothing to take away."""


class CountedAddresses:
    """Addresses by counting alone."""

    def __init__(self, subnets: Mapping[str, str]) -> None:
        self.left = dict.fromkeys(subnets, _EACH)

    def free(self, subnet_id: str) -> int:
        return self.left.get(subnet_id, 0)

    def take(self, amounts: Mapping[str, int]) -> None:
        for one, many in amounts.items():
            self.left[one] -= many

    def give_back(self, amounts: Mapping[str, int]) -> None:
        for one, many in amounts.items():
            self.left[one] += many

    def exhaust(self, subnet_id: str) -> None:
        self.left[subnet_id] = 0


class Site:
    """What outlives processes: the account's network, and the classes in the cluster."""

    def __init__(self, moto: MotoAws, region: Region, catalog: Catalog, prices: PriceBook) -> None:
        self.moto = moto
        self.region = region
        self.catalog = catalog
        self.prices = prices
        self.classes = {"default": NodeClass()}
        self.statuses: dict[str, str] = {}
        """Claim → the instance that its status names."""


class AwsProcess:
    """The controllers' side, with nothing in its memory."""

    def __init__(self, site: Site, *, patience: Patience = QUICK) -> None:
        self._runner = asyncio.Runner()
        self._offload = ThreadOffload(16)
        self.site = site
        self._runner.run(self._begin(site, patience))

    async def _begin(self, site: Site, patience: Patience) -> None:
        self.loop = AsyncioLoop()
        self.aws = Aws(
            loop=self.loop,
            offload=self._offload,
            chance=RealChance(),
            region=site.region.name,
            endpoint_url=site.moto.url,
            patience=patience,
            session=_session(),
        )
        self.ec2 = ec2 = self.aws.ec2()
        subnets, group = network_of(ec2, site.region)
        self.addresses = CountedAddresses(subnets)
        self.classes = FixedClasses(subnets, security_group=group)
        self.scarcity = Scarcity()
        self.templates = LaunchTemplates(aws=self.aws, ec2=ec2, loop=self.loop, cluster=CLUSTER)
        self.machines = Machines(
            aws=self.aws,
            ec2=ec2,
            loop=self.loop,
            cluster=CLUSTER,
            machine_of=lambda name: site.statuses.get(name, ""),
        )
        self.use(RoomLeft())

    def use(self, room: RoomLeft) -> None:
        """Count the machines in reservations by this."""
        site = self.site
        self.cloud = AwsCloud(
            loop=self.loop,
            machines=self.machines,
            buyer=Buyer(
                aws=self.aws,
                ec2=self.ec2,
                templates=self.templates,
                addresses=self.addresses,
                scarcity=self.scarcity,
                clock=self.loop,
                cluster=CLUSTER,
                room=room,
            ),
            types=Shelf(
                site.catalog.machines_in(site.region.name),
                region=site.region,
                prices=site.prices,
                scarcity=self.scarcity,
            ),
            templates=self.templates,
            classes=self.classes,
            node_class=lambda name: self.site.classes.get(name),
            room=room,
        )

    def do(self, work: Awaitable[T]) -> T:
        """Make a call and wait for it."""

        async def wait() -> T:
            return await work

        return self._runner.run(wait())

    def together(self, works: list[Awaitable[T]]) -> list[T | Exception]:
        """Make calls at the same time."""
        return self.do(self.loop.together(works))

    def stop(self) -> None:
        """Die: what was begun goes no further."""
        self._runner.close()
        self._offload.close()


def network_of(ec2: Any, region: Region) -> tuple[dict[str, str], str]:
    """Return the cluster's subnets (id → zone) and security group; make them if need be."""
    tags = [{"Key": "cluster", "Value": CLUSTER}]
    found = ec2.describe_subnets(Filters=[{"Name": "tag:cluster", "Values": [CLUSTER]}])["Subnets"]
    if not found:
        vpc = ec2.create_vpc(CidrBlock="10.0.0.0/16")["Vpc"]["VpcId"]
        for number, zone in enumerate(region.zones):
            ec2.create_subnet(
                VpcId=vpc,
                AvailabilityZone=zone,
                CidrBlock=f"10.0.{128 * number}.0/17",
                TagSpecifications=[{"ResourceType": "subnet", "Tags": tags}],
            )
        ec2.create_security_group(VpcId=vpc, GroupName="nodes", Description="nodes")
        return network_of(ec2, region)
    groups = ec2.describe_security_groups(Filters=[{"Name": "group-name", "Values": ["nodes"]}])
    subnets = {one["SubnetId"]: one["AvailabilityZone"] for one in found}
    return subnets, groups["SecurityGroups"][0]["GroupId"]


@cache
def _session() -> boto3.Session:
    """Read the SDK's description of EC2 once: it is ten megabytes."""
    return boto3.Session(aws_access_key_id="test", aws_secret_access_key="test")  # noqa: S106


def _user_data(boot: Boot) -> bytes:
    labels = ",".join(f"{key}={value}" for key, value in sorted(boot.labels.items()))
    return f"max-pods={boot.max_pods} labels={labels}".encode()
