"""All controllers on an asyncio loop, with the real AWS adapter on moto, in a living cluster."""

import asyncio
from contextlib import AsyncExitStack
from datetime import timedelta
from functools import cache
from typing import Any

import boto3

from dovetail.aws.buying import Buyer
from dovetail.aws.launchable import Launchable
from dovetail.aws.launchables import ClassBook
from dovetail.aws.launchtemplates import LaunchTemplates
from dovetail.aws.machines import Machines
from dovetail.aws.provider import AwsCloud
from dovetail.aws.queue import SqsInterruptions
from dovetail.aws.session import THREADS, Aws
from dovetail.aws.userdata.bootstrap import Cluster as JoinedCluster
from dovetail.controllers.batching import Windows
from dovetail.controllers.recording import Recorder
from dovetail.controllers.registry import Tools, registrations
from dovetail.controllers.runtime import Runtime
from dovetail.core.machines.build import instance_types
from dovetail.host.chance import RealChance
from dovetail.host.loop import AsyncioLoop
from dovetail.host.offload import ThreadOffload
from dovetail.model.catalog import InstanceType
from dovetail.model.nodeclass import NodeClass
from dovetail.ports.cloud import ClassStatus
from dovetail.sim.kube import feed
from dovetail.state.evictions import Evictions
from dovetail.state.inflight import ReadYourWrites
from dovetail.state.mirror import Mirror
from dovetail.state.nominations import Nominations
from dovetail.state.promises import Promises
from dovetail.state.scarcity import Scarcity
from dovetail.state.shelf import Shelf
from tests.aws.booting import Booting
from tests.sim.cloud.place import CATALOG, PRICES, REGION
from tests.support.living import Cluster
from tests.support.moto.process import CLUSTER, QUICK, CountedAddresses, network_of
from tests.support.moto.server import MotoAws
from tests.support.telling import KeptLog, KeptMetrics

QUEUE = "interruptions"
_IMAGE = {
    "id": "ami-12c6146b",
    "name": "amazon-eks-node-al2023-x86_64-standard-1.34",
    "requirements": [{"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]}],
}


class _Classes:
    """Classes that select the network there is; user data is made as in production."""

    def __init__(self, subnets: dict[str, str], group: str) -> None:
        joined = JoinedCluster(
            name=CLUSTER,
            endpoint="https://cluster.test",
            ca_bundle="Y2E=",
            cidr="172.20.0.0/16",
            dns="172.20.0.10",
            version="1.34",
        )
        self._book = ClassBook(lambda: joined, region=REGION.name)
        self._status = {
            "subnets": [
                {"id": one, "zone": zone, "zoneID": REGION.zones[zone]}
                for one, zone in subnets.items()
            ],
            "securityGroups": [{"id": group, "name": "nodes"}],
            "amis": [_IMAGE],
            "instanceProfile": "nodes",
        }

    def launchable(self, node_class: NodeClass) -> Launchable:
        return self._book.launchable(node_class)

    async def resolve(self, node_class: dict[str, Any]) -> ClassStatus:
        return ClassStatus(status=self._status)

    async def forget(self, node_class: dict[str, Any]) -> None:
        """Take nothing away: nothing was made."""


class Operation:
    """A cluster, an account, and Dovetail between them; entered, it runs."""

    def __init__(self, moto: MotoAws) -> None:
        moto.reset()
        self.moto = moto
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
        self.ec2, self.sqs = aws.ec2(), aws.client("sqs")
        self._queue = self.sqs.create_queue(QueueName=QUEUE)["QueueUrl"]
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
        subnets, group = network_of(self.ec2, REGION)
        templates = LaunchTemplates(aws=aws, ec2=self.ec2, loop=loop, cluster=CLUSTER)
        return AwsCloud(
            loop=loop,
            machines=Machines(aws=aws, ec2=self.ec2, loop=loop, cluster=CLUSTER),
            buyer=Buyer(
                aws=aws,
                ec2=self.ec2,
                templates=templates,
                addresses=CountedAddresses(subnets),
                scarcity=self.scarcity,
                clock=loop,
                cluster=CLUSTER,
            ),
            types=Shelf(
                CATALOG.machines_in(REGION.name),
                region=REGION,
                prices=PRICES,
                scarcity=self.scarcity,
            ),
            templates=templates,
            classes=_Classes(subnets, group),
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
