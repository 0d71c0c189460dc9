"""A process with the real AWS CloudProvider, on an account in moto."""

import asyncio
from collections.abc import Awaitable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from functools import cache
from typing import Any, TypeVar

import boto3

from dovetail.aws.cloudprovider import AwsCloudProvider
from dovetail.aws.instance.instances import Ec2Instances
from dovetail.aws.instance.launcher import InstanceLauncher
from dovetail.aws.launchtemplate.launch_config import LaunchAmi, LaunchConfig, UserDataContext
from dovetail.aws.launchtemplate.launch_templates import LaunchTemplates
from dovetail.aws.nodeclass.capacity_reservations import ReservationCapacity
from dovetail.aws.session import READ_TIMEOUT, AwsSession, RetryPolicy
from dovetail.host.event_loop import AsyncioEventLoop
from dovetail.host.executor import ThreadExecutor
from dovetail.host.randomness import SystemRandomSource
from dovetail.model.cloud.ec2_catalog import Catalog, Region
from dovetail.model.cloud.prices import PriceBook
from dovetail.model.frozen import FrozenDict
from dovetail.model.karpenter.ec2nodeclass import EC2NodeClass
from dovetail.model.karpenter.ec2nodeclass_launch import Subnet
from dovetail.model.karpenter.nodeclaim import NodeClaim
from dovetail.ports.cloudprovider import NodeClassStatus
from dovetail.state.instancetypes.provider import InstanceTypeProvider
from dovetail.state.instancetypes.unavailable_offerings import UnavailableOfferings
from tests.support.moto.server import MotoAws

T = TypeVar("T")
CLUSTER = "moto"
QUICK = RetryPolicy(initial_delay=timedelta(milliseconds=5), max_delay=timedelta(milliseconds=50))
"""Short delays for tests."""
_ADDRESSES_PER_SUBNET = 32_000
"""Free addresses of a new subnet."""
_PROFILE = "nodes"


class FakeNodeClassResolver:
    """Resolves every node class to one AMI, all subnets and one security group."""

    def __init__(self, subnets: Mapping[str, str], *, security_group: str) -> None:
        self.subnets = tuple(Subnet(id=subnet_id, zone=zone) for subnet_id, zone in subnets.items())
        self._group = security_group
        self.image = LaunchAmi(id="ami-12c6146b")

    def launch_config(self, node_class: EC2NodeClass) -> LaunchConfig:
        return LaunchConfig(
            node_class=node_class,
            amis=(self.image,),
            subnets=self.subnets,
            security_groups=(self._group,),
            instance_profile=_PROFILE,
            user_data=_user_data,
            template=FrozenDict({"MetadataOptions": {"HttpTokens": "required"}}),
        )

    async def resolve(self, node_class: dict[str, Any]) -> NodeClassStatus:
        return NodeClassStatus(status={})

    async def delete_resources(self, node_class: dict[str, Any]) -> None:
        """Do nothing: no resources were created."""


class FakeFreeAddresses:
    """Free addresses, counted without calls to EC2."""

    def __init__(self, subnets: Mapping[str, str]) -> None:
        self.left = dict.fromkeys(subnets, _ADDRESSES_PER_SUBNET)

    def free(self, subnet_id: str) -> int:
        return self.left.get(subnet_id, 0)

    def reserve(self, amounts: Mapping[str, int]) -> None:
        for subnet_id, count in amounts.items():
            self.left[subnet_id] -= count

    def release(self, amounts: Mapping[str, int]) -> None:
        for subnet_id, count in amounts.items():
            self.left[subnet_id] += count

    def mark_exhausted(self, subnet_id: str) -> None:
        self.left[subnet_id] = 0


class AwsAccount:
    """State that outlives processes: the account, and the node classes of the cluster."""

    def __init__(self, moto: MotoAws, region: Region, catalog: Catalog, prices: PriceBook) -> None:
        self.moto = moto
        self.region = region
        self.catalog = catalog
        self.prices = prices
        self.classes = {"default": EC2NodeClass()}
        self.statuses: dict[str, str] = {}
        """NodeClaim → instance ID in its status."""
        self.launch_requests: dict[str, str] = {}
        """NodeClaim → the annotation that records its launch request."""


class AdvancedEventLoop(AsyncioEventLoop):
    """Event loop whose time a test can advance."""

    def __init__(self) -> None:
        super().__init__()
        self.ahead = timedelta()

    def now(self) -> datetime:
        return super().now() + self.ahead


class AwsProcess:
    """A process with empty caches."""

    def __init__(
        self,
        account: AwsAccount,
        *,
        retry_policy: RetryPolicy = QUICK,
        threads: int = 16,
        read_timeout: timedelta = READ_TIMEOUT,
    ) -> None:
        self._runner = asyncio.Runner()
        self._executor, self._launch_executor = ThreadExecutor(threads), ThreadExecutor(threads)
        self.account = account
        self._runner.run(self._begin(account, retry_policy, read_timeout))

    async def _begin(self, account: AwsAccount, retry_policy: RetryPolicy, read_timeout: timedelta) -> None:
        self.loop = AdvancedEventLoop()
        self.aws = AwsSession(
            loop=self.loop,
            executor=self._executor,
            random=SystemRandomSource(),
            region=account.region.name,
            endpoint_url=account.moto.url,
            retry_policy=retry_policy,
            read_timeout=read_timeout,
            session=shared_session(),
        )
        self.ec2 = ec2 = self.aws.ec2()
        subnets, group = network_of(ec2, account.region)
        _create_profile(self.aws.client("iam"))
        self.addresses = FakeFreeAddresses(subnets)
        self.classes = FakeNodeClassResolver(subnets, security_group=group)
        self.unavailable_offerings = UnavailableOfferings()
        self.templates = LaunchTemplates(aws=self.aws, ec2=ec2, loop=self.loop, cluster=CLUSTER)
        self.instances = Ec2Instances(
            aws=self.aws,
            ec2=ec2,
            loop=self.loop,
            cluster=CLUSTER,
            known_instance=lambda name: account.statuses.get(name, ""),
        )
        self.use(ReservationCapacity())

    def use(self, reservation_capacity: ReservationCapacity) -> None:
        """Replace the capacity of reservations."""
        account = self.account
        self.cloud = AwsCloudProvider(
            loop=self.loop,
            instances=self.instances,
            launcher=InstanceLauncher(
                aws=self.aws,
                templates=self.templates,
                addresses=self.addresses,
                unavailable=self.unavailable_offerings,
                clock=self.loop,
                cluster=CLUSTER,
                reservations=reservation_capacity,
                executor=self._launch_executor,
                record_request=self._record_request,
            ),
            instance_types=InstanceTypeProvider(
                account.catalog.instance_types_in(account.region.name),
                region=account.region,
                prices=account.prices,
                unavailable=self.unavailable_offerings,
            ),
            launch_templates=self.templates,
            node_classes=self.classes,
            node_class=lambda name: self.account.classes.get(name),
            reservations=reservation_capacity,
        )

    async def _record_request(self, claims: Sequence[NodeClaim], text: str) -> None:
        self.account.launch_requests |= {claim.name: text for claim in claims}

    def do(self, work: Awaitable[T]) -> T:
        """Run a call and wait for it."""

        async def wait() -> T:
            return await work

        return self._runner.run(wait())

    def together(self, works: list[Awaitable[T]]) -> list[T | Exception]:
        """Run calls concurrently."""
        return self.do(self.loop.gather(works))

    def stop(self) -> None:
        """Stop the process; calls in flight are cancelled."""
        self._runner.close()
        self._executor.close()
        self._launch_executor.close()


def network_of(ec2: Any, region: Region) -> tuple[dict[str, str], str]:
    """Return subnets (ID → zone) and security group; create missing ones."""
    tags = [{"Key": "cluster", "Value": CLUSTER}]
    existing = ec2.describe_subnets(Filters=[{"Name": "tag:cluster", "Values": [CLUSTER]}])["Subnets"]
    if not existing:
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
    subnets = {subnet["SubnetId"]: subnet["AvailabilityZone"] for subnet in existing}
    return subnets, groups["SecurityGroups"][0]["GroupId"]


def _create_profile(iam: Any) -> None:
    """Create the instance profile of all nodes, unless it exists."""
    with suppress(iam.exceptions.EntityAlreadyExistsException):
        iam.create_instance_profile(InstanceProfileName=_PROFILE)


@cache
def shared_session() -> boto3.Session:
    """Return a shared session: loading the model of EC2 (10 MB) takes long."""
    return _SharedSession(aws_access_key_id="test", aws_secret_access_key="test")  # noqa: S106


class _SharedSession(boto3.Session):
    """One client per service and configuration: to create one takes 50 ms."""

    def __init__(self, **credentials: str) -> None:
        super().__init__(**credentials)
        self._clients: dict[tuple[object, ...], Any] = {}

    def client(self, service: Any, **options: Any) -> Any:
        config = str(vars(options["config"])) if "config" in options else ""
        key = (service, options["region_name"], options["endpoint_url"], config)
        if key not in self._clients:
            self._clients[key] = super().client(service, **options)
        return self._clients[key]


def _user_data(boot: UserDataContext) -> bytes:
    labels = ",".join(f"{key}={value}" for key, value in sorted(boot.labels.items()))
    return f"max-pods={boot.max_pods} labels={labels}".encode()
