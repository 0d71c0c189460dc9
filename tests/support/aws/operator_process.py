"""All controllers in real time, with the AWS CloudProvider on moto."""

import asyncio
from contextlib import AsyncExitStack
from datetime import timedelta
from functools import cache
from typing import Any

from dovetail.aws.cloudprovider import AwsCloudProvider
from dovetail.aws.cluster_info import ClusterInfoResolver
from dovetail.aws.instance.instances import Ec2Instances
from dovetail.aws.instance.launcher import InstanceLauncher
from dovetail.aws.interruption.sqs import SqsInterruptionQueue
from dovetail.aws.launchtemplate.launch_config_builder import LaunchConfigCache
from dovetail.aws.launchtemplate.launch_templates import LaunchTemplates
from dovetail.aws.nodeclass.amis import AmiResolver
from dovetail.aws.nodeclass.capacity_reservations import CapacityReservationResolver, ReservationCapacity
from dovetail.aws.nodeclass.dry_run import LaunchDryRun
from dovetail.aws.nodeclass.instance_profiles import InstanceProfiles
from dovetail.aws.nodeclass.network import FreeAddresses, NetworkResolver
from dovetail.aws.nodeclass.resolver import NodeClassResolver, Resolvers
from dovetail.aws.session import MAX_THREADS, AwsSession
from dovetail.controllers.context import ControllerContext
from dovetail.controllers.registry import controllers
from dovetail.controllers.runtime.event_recorder import KubeEventRecorder
from dovetail.controllers.runtime.manager import ControllerManager
from dovetail.core.instancetypes.build import build_instance_types
from dovetail.host.event_loop import AsyncioEventLoop
from dovetail.host.executor import ThreadExecutor
from dovetail.host.randomness import SystemRandomSource
from dovetail.model.cloud.instance_type import InstanceType
from dovetail.model.karpenter.ec2nodeclass import EC2NodeClass
from dovetail.model.settings import BatchSettings
from dovetail.simulator.kube_client import start_reflectors
from dovetail.state.cluster.cache import ClusterCache
from dovetail.state.cluster.write_through import WriteThroughClient
from dovetail.state.instancetypes.provider import InstanceTypeProvider
from dovetail.state.instancetypes.unavailable_offerings import UnavailableOfferings
from dovetail.state.nodes.nominations import NodeNominations
from dovetail.state.pods.assignments import PodAssignments
from dovetail.state.pods.evictions import PendingEvictions
from tests.simulator.ec2.harness import CATALOG, PRICES, REGION
from tests.support.aws.booted_nodes import InstanceBooter
from tests.support.aws.nodeclass_account import CLUSTER, Account
from tests.support.aws.provider_process import QUICK, shared_session
from tests.support.moto.server import MotoAws
from tests.support.simulator.realtime_cluster import Cluster
from tests.support.telemetry import RecordedLog, RecordedMetrics

QUEUE = "interruptions"
_IMAGE = "ami-al2023"
_PARAMETER = "/aws/service/eks/optimized-ami/1.34/amazon-linux-2023/x86_64/standard/recommended/image_id"


class _Classes:
    """``aws.launchtemplate.launch_config.Classes``."""

    def __init__(self, resolver: NodeClassResolver, launch_configs: LaunchConfigCache) -> None:
        self.launch_config = launch_configs.launch_config
        self.resolve = resolver.resolve
        self.delete_resources = resolver.delete_resources


class OperatorProcess:
    """A cluster, an account and all controllers; runs as a context manager."""

    def __init__(self, moto: MotoAws) -> None:
        self.moto = moto
        self._account = Account(moto)
        self.log, self.metrics = RecordedLog(), RecordedMetrics()
        self.unavailable = UnavailableOfferings()
        self._exits = AsyncExitStack()

    async def __aenter__(self) -> "OperatorProcess":
        executor = ThreadExecutor(MAX_THREADS)
        self._exits.callback(executor.close)
        loop, random = AsyncioEventLoop(), SystemRandomSource()
        aws = AwsSession(
            loop=loop,
            executor=executor,
            random=random,
            region=REGION.name,
            endpoint_url=self.moto.url,
            retry_policy=QUICK,
            session=shared_session(),
        )
        self.ec2, self.sqs, self.iam = aws.ec2(), aws.client("sqs"), aws.client("iam")
        self._queue = self.sqs.create_queue(QueueName=QUEUE)["QueueUrl"]
        self._account.network(self.ec2)
        self._account.role(self.iam)
        self._account.image(_IMAGE, name="amazon-eks-node-al2023-x86_64-standard-1.34")
        self._account.parameter(_PARAMETER, _IMAGE)
        self.cluster = await self._exits.enter_async_context(Cluster())
        self._exits.push_async_callback(loop.stop)
        cluster_cache = ClusterCache()
        for stop in start_reflectors(cluster_cache, self.cluster.api, self.cluster.clock):
            self._exits.callback(stop)
        kube = WriteThroughClient(self.cluster.kube, cluster_cache)
        context = ControllerContext(
            cache=cluster_cache,
            assignments=PodAssignments(cluster_cache),
            nominations=NodeNominations(),
            evictions=PendingEvictions(),
            unavailable_offerings=self.unavailable,
            kube=kube,
            cloud_provider=self._cloud(aws, loop, cluster_cache),
            interruption_queue=SqsInterruptionQueue(
                aws, name=QUEUE, loop=loop, random=random, log=self.log, poll_wait=timedelta(seconds=1)
            ),
            loop=loop,
            executor=executor,
            random=random,
            log=self.log,
            events=KubeEventRecorder(kube=kube, loop=loop, random=random, log=self.log),
            metrics=self.metrics,
            batch_settings=BatchSettings(idle_duration=timedelta(milliseconds=200)),
        )
        ControllerManager(controllers(context), context).start()
        loop.spawn(InstanceBooter(self.ec2, self.cluster, _types()).run())
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._exits.aclose()

    def _cloud(
        self, aws: AwsSession, loop: AsyncioEventLoop, cluster_cache: ClusterCache
    ) -> AwsCloudProvider:
        cluster, ec2 = CLUSTER.name, self.ec2
        provider = InstanceTypeProvider(
            CATALOG.instance_types_in(REGION.name), region=REGION, prices=PRICES, unavailable=self.unavailable
        )
        templates = LaunchTemplates(aws=aws, ec2=ec2, loop=loop, cluster=cluster)
        addresses, reserved = FreeAddresses(), ReservationCapacity()
        parts = Resolvers(
            network=NetworkResolver(aws, addresses),
            amis=AmiResolver(aws, clock=loop, log=self.log),
            reservations=CapacityReservationResolver(aws, capacity=reserved, clock=loop, log=self.log),
            profiles=InstanceProfiles(aws, cluster=cluster, clock=loop, log=self.log),
            templates=templates,
            dry_run=LaunchDryRun(
                aws,
                templates=templates,
                cluster=cluster,
                clock=loop,
                pools=lambda _: list(cluster_cache.pools()),
                types=provider.launchable_types,
            ),
            cluster=ClusterInfoResolver(aws, CLUSTER),
        )
        resolver = NodeClassResolver(parts, loop=loop, capacity=reserved)
        return AwsCloudProvider(
            loop=loop,
            instances=Ec2Instances(aws=aws, ec2=ec2, loop=loop, cluster=cluster),
            launcher=InstanceLauncher(
                aws=aws,
                templates=templates,
                addresses=addresses,
                unavailable=self.unavailable,
                clock=loop,
                cluster=cluster,
            ),
            instance_types=provider,
            launch_templates=templates,
            node_classes=_Classes(resolver, LaunchConfigCache(lambda: CLUSTER, region=REGION.name)),
            node_class=cluster_cache.node_class,
        )

    async def send_event(self, body: str) -> None:
        """Send an interruption event to the queue."""
        await asyncio.to_thread(lambda: self.sqs.send_message(QueueUrl=self._queue, MessageBody=body))

    async def instances(self) -> dict[str, dict[str, Any]]:
        """Return all instances, also terminated ones, by ID."""
        response = await asyncio.to_thread(self.ec2.describe_instances)
        return {
            entry["InstanceId"]: entry for group in response["Reservations"] for entry in group["Instances"]
        }

    async def leftovers(self) -> list[str]:
        """Return the remaining launch templates and instance profiles."""
        templates = await asyncio.to_thread(self.ec2.describe_launch_templates)
        profiles = await asyncio.to_thread(self.iam.list_instance_profiles)
        return [
            *(template["LaunchTemplateName"] for template in templates["LaunchTemplates"]),
            *(profile["InstanceProfileName"] for profile in profiles["InstanceProfiles"]),
        ]

    async def running(self) -> set[str]:
        """Return the IDs of running instances."""
        instances = await self.instances()
        return {name for name, entry in instances.items() if entry["State"]["Name"] == "running"}


@cache
def _types() -> dict[str, InstanceType]:
    built = build_instance_types(
        CATALOG.instance_types_in(REGION.name), region=REGION, node_class=EC2NodeClass(), prices=PRICES
    )
    return {instance_type.name: instance_type for instance_type in built}
