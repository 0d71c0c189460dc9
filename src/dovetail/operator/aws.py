"""AWS cloud factory: builds the AWS adapters of one process.

    session -> cluster info -> instance types
        -> launch templates -> resolvers -> cloud provider -> background tasks

All adapters share one ``AwsSession`` and its thread pool; only CreateFleet has its own
threads. A failure before the cloud provider exists ends the process with a message for
the user; background tasks log their failures and retry.
"""

from base64 import b64encode
from collections.abc import Callable, Sequence
from datetime import timedelta
from functools import partial
from typing import Any, Final

import msgspec

from dovetail.aws.cloudprovider import AwsCloudProvider
from dovetail.aws.cluster_info import ClusterInfoResolver
from dovetail.aws.errors import AwsError, ErrorKind
from dovetail.aws.instance.instances import Ec2Instances
from dovetail.aws.instance.launcher import MAX_CREATE_FLEET_CALLS, InstanceLauncher
from dovetail.aws.interruption.sqs import SqsInterruptionQueue
from dovetail.aws.interruption.status_checks import Ec2StatusChecks
from dovetail.aws.interruption.zonal_shift import (
    ArcZonalShifts,
    TaggingCloudProvider,
    ZonalShiftCloudProvider,
)
from dovetail.aws.launchtemplate.launch_config import LaunchConfig
from dovetail.aws.launchtemplate.launch_config_builder import LaunchConfigCache
from dovetail.aws.launchtemplate.launch_templates import LaunchTemplates
from dovetail.aws.nodeclass.amis import AmiResolver
from dovetail.aws.nodeclass.capacity_reservations import CapacityReservationResolver, ReservationCapacity
from dovetail.aws.nodeclass.dry_run import LaunchDryRun
from dovetail.aws.nodeclass.instance_profiles import InstanceProfiles
from dovetail.aws.nodeclass.network import FreeAddresses, NetworkResolver
from dovetail.aws.nodeclass.resolver import NodeClassResolver, Resolvers
from dovetail.aws.session import MAX_THREADS, AwsSession, SdkSession
from dovetail.aws.userdata.bootstrap import ClusterInfo
from dovetail.errors import DovetailError, InvalidInputError, ValidationError
from dovetail.host.executor import ThreadExecutor
from dovetail.model import labels as label_keys
from dovetail.model.karpenter.ec2nodeclass import EC2NodeClass
from dovetail.model.karpenter.nodeclaim import NodeClaim
from dovetail.operator.cloud import CloudContext, CloudServices, NoInterruptionQueue
from dovetail.operator.instance_type_refresh import CatalogSettings, start_instance_type_provider
from dovetail.ports.api_resources import NODE_CLAIMS, SERVICES
from dovetail.ports.cloudprovider import CreateError, InterruptionQueue, NodeClassStatus
from dovetail.ports.event_loop import EventLoop
from dovetail.ports.kube_client import KubeClient
from dovetail.ports.kube_errors import ApiError
from dovetail.ports.telemetry import Log
from dovetail.state.cluster.cache import ClusterCache
from dovetail.state.cluster.write_through import WriteThroughClient
from dovetail.state.instancetypes.provider import InstanceTypeProvider

_RETRY_INTERVAL: Final = timedelta(minutes=5)


class AwsSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of the AWS adapters."""

    cluster_name: str
    cluster_endpoint: str = ""
    """Empty: read from EKS."""
    cluster_ca_bundle: str = ""
    """Base64; empty: that of the connection to the API server."""
    region: str | None = None
    """None: from environment and AWS config files."""
    interruption_queue: str = ""
    isolated_vpc: bool = False
    disable_dry_run: bool = False
    enable_zonal_shift: bool = False
    """Launch nothing in zones with an active zonal shift."""
    catalog: CatalogSettings = CatalogSettings()


class AwsCloudFactory:
    """Cloud factory for AWS; an instance is a ``CloudFactory``."""

    def __init__(self, settings: AwsSettings, *, session: SdkSession | None = None) -> None:
        """``session``: credentials and clients; None for those of the environment."""
        self._settings = settings
        self._session = session

    async def __call__(self, context: CloudContext) -> CloudServices:
        executor = ThreadExecutor(MAX_THREADS, name="aws")
        launch_executor = ThreadExecutor(MAX_CREATE_FLEET_CALLS, name="create-fleet")

        def close() -> None:
            executor.close()
            launch_executor.close()

        try:
            aws = AwsSession(
                loop=context.loop,
                executor=executor,
                random=context.random,
                region=self._settings.region,
                session=self._session,
                metrics=context.metrics,
                fence=context.fence,
            )
            return await _AwsServices(self._settings, context, aws, launch_executor).build(close=close)
        except BaseException:
            close()
            raise


class _AwsServices:
    """Builds the AWS adapters on one session."""

    def __init__(
        self, settings: AwsSettings, context: CloudContext, aws: AwsSession, launch_executor: ThreadExecutor
    ) -> None:
        """``launch_executor`` has the threads of CreateFleet calls."""
        self._settings = settings
        self._context = context
        self._aws = aws
        self._launch_executor = launch_executor
        self._kube = WriteThroughClient(context.kube, context.cache)
        self._cluster = settings.cluster_name
        self._reserved_capacity = settings.catalog.instance_types.reserved_capacity
        self._free_addresses = FreeAddresses()
        self._reservation_capacity = ReservationCapacity()

    async def build(self, *, close: Callable[[], None]) -> CloudServices:
        aws, context = self._aws, self._context
        _require_region(aws)
        self._ec2 = aws.ec2()
        cluster_info = await _resolve_cluster_info(aws, self._settings, context)
        instance_types = await start_instance_type_provider(aws, self._settings.catalog, context)
        templates = LaunchTemplates(aws=aws, ec2=self._ec2, loop=context.loop, cluster=self._cluster)
        resolvers = self._build_resolvers(templates, instance_types, cluster_info)
        cloud_provider = self._build_cloud_provider(templates, instance_types, resolvers, cluster_info)
        context.loop.spawn(_collect_launch_templates(templates, context))
        context.loop.spawn(_collect_instance_profiles(resolvers.profiles, context))
        context.loop.spawn(
            cluster_info.watch_version(context.get_kubernetes_version, loop=context.loop, log=context.log)
        )
        zonal_shifts = await _start_zonal_shifts(aws, self._settings, context, cluster_info)
        context.loop.spawn(_log_caller_identity(aws, context.log))
        served: TaggingCloudProvider = cloud_provider
        if zonal_shifts is not None:
            served = ZonalShiftCloudProvider(
                cloud_provider, is_shifted=zonal_shifts.is_shifted, clock=context.loop
            )
        return CloudServices(
            cloud_provider=served,
            zonal_shifts=zonal_shifts,
            interruption_queue=_create_interruption_queue(aws, self._settings, context),
            instance_status=Ec2StatusChecks(aws=aws, ec2=self._ec2, log=context.log),
            instance_tagger=served,
            close=close,
            cluster_ca_bundle=cluster_info.info.ca_bundle,
        )

    def _build_resolvers(
        self,
        templates: LaunchTemplates,
        instance_types: InstanceTypeProvider,
        cluster_info: ClusterInfoResolver,
    ) -> Resolvers:
        aws, loop, log = self._aws, self._context.loop, self._context.log
        dry_run = LaunchDryRun(
            aws,
            templates=templates,
            cluster=self._cluster,
            clock=loop,
            pools=lambda name: [
                pool for pool in self._context.cache.pools() if pool.template.node_class.name == name
            ],
            types=instance_types.launchable_types,
            disabled=self._settings.disable_dry_run,
        )
        return Resolvers(
            network=NetworkResolver(aws, self._free_addresses),
            amis=AmiResolver(aws, clock=loop, log=log),
            reservations=CapacityReservationResolver(
                aws, capacity=self._reservation_capacity, clock=loop, log=log
            ),
            profiles=InstanceProfiles(
                aws, cluster=self._cluster, clock=loop, log=log, isolated=self._settings.isolated_vpc
            ),
            templates=templates,
            dry_run=dry_run,
            cluster=cluster_info,
        )

    def _build_cloud_provider(
        self,
        templates: LaunchTemplates,
        instance_types: InstanceTypeProvider,
        resolvers: Resolvers,
        cluster_info: ClusterInfoResolver,
    ) -> AwsCloudProvider:
        aws, ec2, context = self._aws, self._ec2, self._context
        resolver = NodeClassResolver(
            resolvers,
            loop=context.loop,
            capacity=self._reservation_capacity,
            manages_reservations=self._reserved_capacity,
            check_kubelet=instance_types.kubelet_check,
        )

        def get_node_class(name: str) -> EC2NodeClass | None:
            node_class = context.cache.node_class(name)
            return None if node_class is None else resolver.with_cached_status(node_class)

        return AwsCloudProvider(
            loop=context.loop,
            instances=Ec2Instances(
                aws=aws,
                ec2=ec2,
                loop=context.loop,
                cluster=self._cluster,
                known_instance=lambda name: _get_instance_id(context.cache, name),
            ),
            launcher=InstanceLauncher(
                aws=aws,
                templates=templates,
                addresses=self._free_addresses,
                unavailable=context.unavailable_offerings,
                clock=context.loop,
                cluster=self._cluster,
                reservations=self._reservation_capacity,
                use_own_prices=bool(self._settings.catalog.discounts),
                executor=self._launch_executor,
                record_request=partial(record_launch_request, self._kube, context.loop),
            ),
            instance_types=instance_types,
            launch_templates=templates,
            node_classes=_NodeClasses(
                resolver,
                LaunchConfigCache(
                    lambda: cluster_info.info, region=aws.region, manages_reservations=self._reserved_capacity
                ),
            ),
            node_class=get_node_class,
            overlays=context.nodeoverlays,
            reservations=self._reservation_capacity,
            metrics=context.metrics,
        )


class _NodeClasses:
    """Resolution of node classes, and their launch configs."""

    def __init__(self, resolver: NodeClassResolver, launch_configs: LaunchConfigCache) -> None:
        self._resolver = resolver
        self._launch_configs = launch_configs

    def launch_config(self, node_class: EC2NodeClass) -> LaunchConfig:
        return self._launch_configs.launch_config(node_class)

    async def resolve(self, node_class: dict[str, Any]) -> NodeClassStatus:
        return await self._resolver.resolve(node_class)

    async def delete_resources(self, node_class: dict[str, Any]) -> None:
        await self._resolver.delete_resources(node_class)
        self._launch_configs.discard(node_class["metadata"]["name"])


async def record_launch_request(
    kube: KubeClient, loop: EventLoop, claims: Sequence[NodeClaim], text: str
) -> None:
    """Annotate the NodeClaims of a CreateFleet request; raise ``CreateError`` if any cannot be."""
    annotations = {label_keys.LAUNCH_REQUEST_ANNOTATION: text}
    results = await loop.gather(
        [
            kube.patch(NODE_CLAIMS, claim.name, {"metadata": {"uid": claim.uid, "annotations": annotations}})
            for claim in claims
        ]
    )
    for claim, result in zip(claims, results, strict=True):
        if isinstance(result, DovetailError):
            # Not as it is: the other claims of the request would seem to be deleted, too.
            message = f"the launch request cannot be recorded on nodeclaim {claim.name}: {result}"
            raise CreateError("LaunchFailed", message) from result
        if isinstance(result, Exception):
            raise result


def _require_region(aws: AwsSession) -> None:
    if not aws.region:
        message = "no AWS region is configured; set AWS_REGION or --region"
        raise InvalidInputError([ValidationError("--region:", 0, "", message)])


async def _log_caller_identity(aws: AwsSession, log: Log) -> None:
    """Log account and role of this process.

    Nothing depends on it: STS cannot be reached from a private VPC without an
    endpoint for it, and EKS Pod Identity works there.
    """
    try:
        sts = aws.client("sts")
        identity = await aws.call("GetCallerIdentity", lambda: sts.get_caller_identity())
    except AwsError as error:
        log.info("cannot read the aws account; nothing depends on it", error=str(error))
    else:
        log.info("found aws account", account=identity["Account"], arn=identity["Arn"], region=aws.region)


async def _start_zonal_shifts(
    aws: AwsSession, settings: AwsSettings, context: CloudContext, cluster_info: ClusterInfoResolver
) -> ArcZonalShifts | None:
    """Start reading zonal shifts; raise if the cluster is not registered for them."""
    if not settings.enable_zonal_shift:
        return None
    try:
        cluster_arn = await cluster_info.get_arn()
    except AwsError as error:
        raise DovetailError(
            f"the ARN of cluster {settings.cluster_name} cannot be read: {error}; zonal shifts need"
            " eks:DescribeCluster: allow it, or remove --enable-zonal-shift"
        ) from error
    shifts = ArcZonalShifts(
        aws, cluster_arn=cluster_arn, zones=lambda: _get_zones(context.cache), clock=context.loop
    )
    await shifts.start()
    return shifts


def _get_zones(cache: ClusterCache) -> dict[str, str]:
    """Return the zones that node classes use: zone name → zone ID."""
    return {
        zone: zone_id
        for node_class in cache.node_classes()
        if node_class.zones is not None
        for zone, zone_id in node_class.zones.items()
    }


async def _resolve_cluster_info(
    aws: AwsSession, settings: AwsSettings, context: CloudContext
) -> ClusterInfoResolver:
    """Return what nodes need to join: endpoint, CA, version and DNS address."""
    ca_bundle = b64encode(context.ca_certificates.encode()).decode()
    configured = ClusterInfo(
        name=settings.cluster_name,
        endpoint=settings.cluster_endpoint,
        ca_bundle=settings.cluster_ca_bundle or ca_bundle,
        version=context.kubernetes_version,
    )
    cluster_info = ClusterInfoResolver(aws, configured)
    try:
        service = await context.kube.get(SERVICES, "kube-dns", "kube-system")
        cluster_info.update(dns=str(service["spec"].get("clusterIP") or ""))
    except ApiError as error:
        context.log.info("cannot find the cluster's dns service", error=str(error))
    if not configured.endpoint:
        try:
            await cluster_info.resolve()
        except AwsError as error:
            advice = "; set --cluster-endpoint, or correct --cluster-name"
            if error.kind is ErrorKind.NO_CREDENTIALS:
                advice = ""  # The error has its own advice.
            raise DovetailError(
                f"the endpoint of cluster {configured.name} cannot be read: {error}{advice}"
            ) from error
    return cluster_info


def _create_interruption_queue(
    aws: AwsSession, settings: AwsSettings, context: CloudContext
) -> InterruptionQueue:
    if not settings.interruption_queue:
        return NoInterruptionQueue(context.loop)
    return SqsInterruptionQueue(
        aws, name=settings.interruption_queue, loop=context.loop, random=context.random, log=context.log
    )


def _get_instance_id(cache: ClusterCache, name: str) -> str | None:
    """Return the instance ID of a NodeClaim: empty before launch, None if it is gone."""
    claim = cache.claim(name)
    return None if claim is None else claim.provider_id.rpartition("/")[2]


def _get_used_profiles(cache: ClusterCache) -> list[str] | None:
    """Return the instance profiles of node classes and NodeClaims; None if not synced."""
    if not cache.has_synced():
        return None
    launched = (claim.annotations.get(label_keys.INSTANCE_PROFILE, "") for claim in cache.claims())
    current = (node_class.resolved.instance_profile for node_class in cache.node_classes())
    return [*launched, *current]


async def _collect_instance_profiles(profiles: InstanceProfiles, context: CloudContext) -> None:
    await context.wait_until_leader()
    await profiles.run_garbage_collection(lambda: _get_used_profiles(context.cache), loop=context.loop)


async def _collect_launch_templates(templates: LaunchTemplates, context: CloudContext) -> None:
    """Delete unused launch templates, including those of earlier processes."""
    await context.wait_until_leader()
    is_loaded = False
    while True:
        try:
            if not is_loaded:
                await templates.load_existing()
                is_loaded = True
            await templates.run_garbage_collection()
        except AwsError as error:
            context.log.info("unused launch templates could not be deleted", error=str(error))
            await context.loop.sleep(_RETRY_INTERVAL)
