"""All controllers on an asyncio loop, with the real AWS adapter on moto, in a living cluster."""

import asyncio
from contextlib import AsyncExitStack
from datetime import timedelta
from functools import cache
from typing import Any

import boto3

from dovetail.aws.cloudprovider import AwsCloud
from dovetail.aws.cluster_info import ClusterFacts
from dovetail.aws.instance.instances import Machines
from dovetail.aws.instance.launcher import Buyer
from dovetail.aws.interruption.sqs import SqsInterruptions
from dovetail.aws.launchtemplate.launch_config_builder import ClassBook
from dovetail.aws.launchtemplate.launch_templates import LaunchTemplates
from dovetail.aws.nodeclass.amis import Images
from dovetail.aws.nodeclass.capacity_reservations import Reservations, RoomLeft
from dovetail.aws.nodeclass.dry_run import Rehearsal
from dovetail.aws.nodeclass.instance_profiles import Profiles
from dovetail.aws.nodeclass.network import FreeAddresses, Network
from dovetail.aws.nodeclass.resolver import NodeClassResolver, Parts
from dovetail.aws.session import THREADS, Aws
from dovetail.controllers.provisioning.batch_window import Windows
from dovetail.controllers.registry import Tools, registrations
from dovetail.controllers.runtime.event_recorder import Recorder
from dovetail.controllers.runtime.manager import Runtime
from dovetail.core.instancetypes.build import instance_types
from dovetail.host.event_loop import AsyncioLoop
from dovetail.host.executor import ThreadOffload
from dovetail.host.randomness import RealChance
from dovetail.model.cloud.instance_type import InstanceType
from dovetail.model.karpenter.ec2nodeclass import NodeClass
from dovetail.simulator.kube_client import feed
from dovetail.state.cluster.cache import Mirror
from dovetail.state.cluster.write_through import ReadYourWrites
from dovetail.state.instancetypes.provider import Shelf
from dovetail.state.instancetypes.unavailable_offerings import Scarcity
from dovetail.state.nodes.nominations import Nominations
from dovetail.state.pods.assignments import Promises
from dovetail.state.pods.evictions import Evictions
from tests.aws.booting import Booting
from tests.simulator.ec2.place import CATALOG, PRICES, REGION
from tests.support.living import Cluster
from tests.support.moto.process import QUICK
from tests.support.moto.server import MotoAws
from tests.support.moto_nodeclass import CLUSTER, Account
from tests.support.telling import KeptLog, KeptMetrics

QUEUE = "interruptions"
_IMAGE = "ami-al2023"
_PARAMETER = (
    "/aws/service/eks/optimized-ami/1.34/amazon-linux-2023/x86_64/standard/recommended/image_id"
)


class _Classes:
    """``aws.launchtemplate.launch_config.Classes``."""

    def __init__(self, resolver: NodeClassResolver, book: ClassBook) -> None:
        self.launchable = book.launchable
        self.resolve = resolver.resolve
        self.forget = resolver.forget


class Operation:
    """A cluster, an account, and Dovetail between them; entered, it runs."""

    def __init__(self, moto: MotoAws) -> None:
        self.moto = moto
        self._account = Account(moto)
        self.log, self.metrics = KeptLog(), KeptMetrics()
        self.scarcity = Scarcity()
        self._exits = AsyncExitStack()

    async def __aenter__(self) -> "Operation":
        offload = ThreadOffload(THREADS)
        self._exits.callback(offload.close)
        loop, chance = AsyncioLoop(), RealChance()
        aws = Aws(
            loop=loop,
            offload=offload,
            chance=chance,
            region=REGION.name,
            endpoint_url=self.moto.url,
            patience=QUICK,
            session=_session(),
        )
        self.ec2, self.sqs, self.iam = aws.ec2(), aws.client("sqs"), aws.client("iam")
        self._queue = self.sqs.create_queue(QueueName=QUEUE)["QueueUrl"]
        self._account.network(self.ec2)
        self._account.role(self.iam)
        self._account.image(_IMAGE, name="amazon-eks-node-al2023-x86_64-standard-1.34")
        self._account.parameter(_PARAMETER, _IMAGE)
        self.cluster = await self._exits.enter_async_context(Cluster())
        self._exits.push_async_callback(loop.stop)
        mirror = Mirror()
        for stop in feed(mirror, self.cluster.api, self.cluster.engine):
            self._exits.callback(stop)
        kube = ReadYourWrites(self.cluster.kube, mirror)
        tools = Tools(
            mirror=mirror,
            promises=Promises(mirror),
            nominations=Nominations(),
            evictions=Evictions(),
            scarcity=self.scarcity,
            kube=kube,
            cloud=self._cloud(aws, loop, mirror),
            interruptions=SqsInterruptions(
                aws,
                name=QUEUE,
                loop=loop,
                chance=chance,
                log=self.log,
                longest_poll=timedelta(seconds=1),
            ),
            loop=loop,
            offload=offload,
            chance=chance,
            log=self.log,
            events=Recorder(kube=kube, loop=loop, chance=chance, log=self.log),
            metrics=self.metrics,
            windows=Windows(idle=timedelta(milliseconds=200)),
        )
        Runtime(
            registrations(tools), mirror=mirror, loop=loop, log=self.log, metrics=self.metrics
        ).start()
        loop.spawn(Booting(self.ec2, self.cluster, _types()).run())
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._exits.aclose()

    def _cloud(self, aws: Aws, loop: AsyncioLoop, mirror: Mirror) -> AwsCloud:
        cluster, ec2 = CLUSTER.name, self.ec2
        shelf = Shelf(
            CATALOG.machines_in(REGION.name), region=REGION, prices=PRICES, scarcity=self.scarcity
        )
        templates = LaunchTemplates(aws=aws, ec2=ec2, loop=loop, cluster=cluster)
        addresses, room = FreeAddresses(), RoomLeft()
        parts = Parts(
            network=Network(aws, addresses),
            images=Images(aws, clock=loop, log=self.log),
            reservations=Reservations(aws, room=room, clock=loop, log=self.log),
            profiles=Profiles(aws, cluster=cluster, clock=loop, log=self.log),
            templates=templates,
            rehearsal=Rehearsal(
                aws,
                templates=templates,
                cluster=cluster,
                clock=loop,
                pools=lambda _: list(mirror.pools()),
                types=lambda one: shelf.instance_types(one, now=loop.now()),
            ),
            facts=ClusterFacts(aws, CLUSTER),
        )
        resolver = NodeClassResolver(parts, loop=loop, room=room)
        return AwsCloud(
            loop=loop,
            machines=Machines(aws=aws, ec2=ec2, loop=loop, cluster=cluster),
            buyer=Buyer(
                aws=aws,
                ec2=ec2,
                templates=templates,
                addresses=addresses,
                scarcity=self.scarcity,
                clock=loop,
                cluster=cluster,
            ),
            types=shelf,
            templates=templates,
            classes=_Classes(resolver, ClassBook(lambda: CLUSTER, region=REGION.name)),
            node_class=mirror.node_class,
        )

    async def warn(self, body: str) -> None:
        """Have EventBridge put a warning into the queue."""
        await asyncio.to_thread(
            lambda: self.sqs.send_message(QueueUrl=self._queue, MessageBody=body)
        )

    async def instances(self) -> dict[str, dict[str, Any]]:
        """All that were ever bought, by id."""
        told = await asyncio.to_thread(self.ec2.describe_instances)
        return {
            one["InstanceId"]: one for group in told["Reservations"] for one in group["Instances"]
        }

    async def left_behind(self) -> list[str]:
        """Launch templates and instance profiles that are there."""
        templates = await asyncio.to_thread(self.ec2.describe_launch_templates)
        profiles = await asyncio.to_thread(self.iam.list_instance_profiles)
        return [
            *(one["LaunchTemplateName"] for one in templates["LaunchTemplates"]),
            *(one["InstanceProfileName"] for one in profiles["InstanceProfiles"]),
        ]

    async def running(self) -> set[str]:
        """The ids of what is paid for now."""
        found = await self.instances()
        return {name for name, one in found.items() if one["State"]["Name"] == "running"}


@cache
def _types() -> dict[str, InstanceType]:
    found = instance_types(
        CATALOG.machines_in(REGION.name), region=REGION, node_class=NodeClass(), prices=PRICES
    )
    return {one.name: one for one in found}


@cache
def _session() -> boto3.Session:
    """Read the SDK's description of EC2 once: it is ten megabytes."""
    return boto3.Session(aws_access_key_id="test", aws_secret_access_key="test")  # noqa: S106
