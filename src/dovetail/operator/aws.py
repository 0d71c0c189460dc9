"""AWS as the cloud of a real process."""

from base64 import b64encode
from datetime import timedelta
from typing import Any, Final

import msgspec

from dovetail.aws.cloudprovider import PROFILE, AwsCloud
from dovetail.aws.cluster_info import ClusterFacts
from dovetail.aws.errors import AwsError
from dovetail.aws.instance.instances import Machines
from dovetail.aws.instance.launcher import Buyer
from dovetail.aws.interruption.sqs import SqsInterruptions
from dovetail.aws.interruption.status_checks import Ec2Checkups
from dovetail.aws.interruption.zonal_shift import ArcZonalShifts
from dovetail.aws.interruption.zonal_shift_filter import StayingAway, TaggingCloud
from dovetail.aws.launchtemplate.launch_config import Launchable
from dovetail.aws.launchtemplate.launch_config_builder import ClassBook
from dovetail.aws.launchtemplate.launch_templates import LaunchTemplates
from dovetail.aws.nodeclass.amis import Images
from dovetail.aws.nodeclass.capacity_reservations import Reservations, RoomLeft
from dovetail.aws.nodeclass.dry_run import Rehearsal
from dovetail.aws.nodeclass.instance_profiles import Profiles
from dovetail.aws.nodeclass.network import FreeAddresses, Network
from dovetail.aws.nodeclass.resolver import NodeClassResolver, Parts
from dovetail.aws.session import THREADS, Aws
from dovetail.aws.userdata.bootstrap import Cluster
from dovetail.errors import BadInput, DovetailError, Mistake
from dovetail.host.executor import ThreadOffload
from dovetail.model.karpenter.ec2nodeclass import NodeClass
from dovetail.model.karpenter.nodepool import NodePool
from dovetail.operator.cloud import Hired, NoWarnings, Surroundings
from dovetail.operator.instance_type_refresh import StockSettings, stocked_shelf
from dovetail.ports.api_resources import SERVICES
from dovetail.ports.cloudprovider import ClassStatus, Interruptions
from dovetail.ports.kube_errors import ApiError
from dovetail.ports.telemetry import Log
from dovetail.state.cluster.cache import Mirror

_TRY_TIDYING_AGAIN: Final = timedelta(minutes=5)


class AwsSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What users may choose of AWS."""

    cluster_name: str
    cluster_endpoint: str = ""
    """Empty: EKS is asked."""
    cluster_ca_bundle: str = ""
    """Base64; empty: that of the API server we talk to."""
    region: str | None = None
    """None: as AWS's own tools find it."""
    interruption_queue: str = ""
    isolated_vpc: bool = False
    disable_dry_run: bool = False
    enable_zonal_shift: bool = False
    """Stay out of zones that the cluster is shifted away from."""
    stock: StockSettings = StockSettings()


class AwsHire:
    """Makes the adapter; an instance is a ``Hire``."""

    def __init__(self, settings: AwsSettings) -> None:
        self._settings = settings

    async def __call__(self, around: Surroundings) -> Hired:
        threads = ThreadOffload(THREADS, name="aws")
        try:
            return await self._made(around, threads)
        except BaseException:
            threads.close()
            raise

    async def _made(self, around: Surroundings, threads: ThreadOffload) -> Hired:
        settings, loop, mirror = self._settings, around.loop, around.mirror
        aws = Aws(
            loop=loop,
            offload=threads,
            chance=around.chance,
            region=settings.region,
            metrics=around.metrics,
            guard=around.guard,
        )
        identity = await _greet(aws, around.log)
        cluster, ec2 = settings.cluster_name, aws.ec2()
        facts = await _facts(aws, settings, around)
        shelf = await stocked_shelf(aws, settings.stock, around)
        addresses, room = FreeAddresses(), RoomLeft()
        templates = LaunchTemplates(aws=aws, ec2=ec2, loop=loop, cluster=cluster)
        rehearsal = Rehearsal(
            aws,
            templates=templates,
            cluster=cluster,
            clock=loop,
            pools=lambda name: _pools_of(mirror, name),
            types=lambda one: shelf.instance_types(one, now=loop.now()),
            disabled=settings.disable_dry_run,
        )
        parts = Parts(
            network=Network(aws, addresses),
            images=Images(aws, clock=loop, log=around.log),
            reservations=Reservations(aws, room=room, clock=loop, log=around.log),
            profiles=Profiles(
                aws, cluster=cluster, clock=loop, log=around.log, isolated=settings.isolated_vpc
            ),
            templates=templates,
            rehearsal=rehearsal,
            facts=facts,
        )
        reserved = settings.stock.machines.reserved_capacity
        resolver = NodeClassResolver(parts, loop=loop, room=room, reserved_capacity=reserved)

        def node_class(name: str) -> NodeClass | None:
            known = mirror.node_class(name)
            return None if known is None else resolver.completed(known)

        cloud = AwsCloud(
            loop=loop,
            machines=Machines(
                aws=aws,
                ec2=ec2,
                loop=loop,
                cluster=cluster,
                machine_of=lambda name: _machine_of(mirror, name),
            ),
            buyer=Buyer(
                aws=aws,
                ec2=ec2,
                templates=templates,
                addresses=addresses,
                scarcity=around.scarcity,
                clock=loop,
                cluster=cluster,
                room=room,
                own_prices=bool(settings.stock.discounts),
            ),
            types=shelf,
            templates=templates,
            classes=_Classes(
                resolver,
                ClassBook(lambda: facts.cluster, region=aws.region, reserved_capacity=reserved),
            ),
            node_class=node_class,
            overlays=around.overlays,
            room=room,
            metrics=around.metrics,
        )
        loop.spawn(_keep_tidy(templates, around))
        loop.spawn(facts.follow_version(around.look_up_version, loop=loop, log=around.log))
        loop.spawn(_keep_profiles_tidy(parts.profiles, around))
        shifts = await _shifts(aws, settings, around, identity)
        served: TaggingCloud = cloud
        if shifts is not None:
            served = StayingAway(cloud, is_shifted=shifts.is_shifted, clock=loop)
        return Hired(
            cloud=served,
            shifts=shifts,
            interruptions=_interruptions(aws, settings, around),
            checkups=Ec2Checkups(aws=aws, ec2=ec2, log=around.log),
            tagging=served,
            close=threads.close,
            ca_bundle=facts.cluster.ca_bundle,
        )


class _Classes:
    """Node classes, looked up and made ready."""

    def __init__(self, resolver: NodeClassResolver, book: ClassBook) -> None:
        self._resolver = resolver
        self._book = book

    def launchable(self, node_class: NodeClass) -> Launchable:
        return self._book.launchable(node_class)

    async def resolve(self, node_class: dict[str, Any]) -> ClassStatus:
        return await self._resolver.resolve(node_class)

    async def forget(self, node_class: dict[str, Any]) -> None:
        await self._resolver.forget(node_class)
        self._book.forget(node_class["metadata"]["name"])


async def _greet(aws: Aws, log: Log) -> str:
    """Find out who we are to AWS; raises when it does not know us, or we no region."""
    if not aws.region:
        what = "no AWS region is known; set AWS_REGION, or give --region"
        raise BadInput([Mistake("--region:", 0, "", what)])
    sts = aws.client("sts")
    try:
        told = await aws.call("GetCallerIdentity", lambda: sts.get_caller_identity())
    except AwsError as error:
        raise DovetailError(f"AWS cannot be used: {error}") from error
    log.info("found aws account", account=told["Account"], arn=told["Arn"], region=aws.region)
    return str(told["Arn"])


async def _shifts(
    aws: Aws, settings: AwsSettings, around: Surroundings, identity: str
) -> ArcZonalShifts | None:
    """Return what is known of zonal shifts; raises when the cluster is not registered for them."""
    if not settings.enable_zonal_shift:
        return None
    _, partition, _, _, account, _ = identity.split(":", 5)
    shifts = ArcZonalShifts(
        aws,
        cluster_arn=f"arn:{partition}:eks:{aws.region}:{account}:cluster/{settings.cluster_name}",
        zones=lambda: _zones(around.mirror),
        clock=around.loop,
    )
    await shifts.begin()
    return shifts


def _zones(mirror: Mirror) -> dict[str, str]:
    """Return the zones that node classes use, with their ids."""
    return {
        zone: zone_id
        for one in mirror.node_classes()
        if one.zones is not None
        for zone, zone_id in one.zones.items()
    }


async def _facts(aws: Aws, settings: AwsSettings, around: Surroundings) -> ClusterFacts:
    authority = b64encode(around.authority.encode()).decode()
    known = Cluster(
        name=settings.cluster_name,
        endpoint=settings.cluster_endpoint,
        ca_bundle=settings.cluster_ca_bundle or authority,
        version=around.kubernetes_version,
    )
    facts = ClusterFacts(aws, known)
    try:
        service = await around.kube.get(SERVICES, "kube-dns", "kube-system")
        facts.learn(dns=str(service["spec"].get("clusterIP") or ""))
    except ApiError as error:
        around.log.info("cannot find the cluster's dns service", error=str(error))
    if not known.endpoint:
        try:
            await facts.look_up()
        except AwsError as error:
            advice = "give --cluster-endpoint, or correct --cluster-name"
            raise DovetailError(
                f"where cluster {known.name} is cannot be found out: {error}; {advice}"
            ) from error
    return facts


def _interruptions(aws: Aws, settings: AwsSettings, around: Surroundings) -> Interruptions:
    if not settings.interruption_queue:
        return NoWarnings(around.loop)
    return SqsInterruptions(
        aws,
        name=settings.interruption_queue,
        loop=around.loop,
        chance=around.chance,
        log=around.log,
    )


def _pools_of(mirror: Mirror, node_class: str) -> list[NodePool]:
    return [one for one in mirror.pools() if one.template.node_class.name == node_class]


def _machine_of(mirror: Mirror, claim: str) -> str | None:
    """Return the instance of a claim, "" when it has none yet; None when it is not there."""
    found = mirror.claim(claim)
    return None if found is None else found.provider_id.rpartition("/")[2]


def _used_profiles(mirror: Mirror) -> list[str] | None:
    """Return the instance profiles that classes have, and those that machines were bought with."""
    if not mirror.synced():
        return None
    bought = (one.annotations.get(PROFILE, "") for one in mirror.claims())
    return [*bought, *(one.found.instance_profile for one in mirror.node_classes())]


async def _keep_profiles_tidy(profiles: Profiles, around: Surroundings) -> None:
    await around.elected()
    await profiles.keep_tidy(lambda: _used_profiles(around.mirror), loop=around.loop)


async def _keep_tidy(templates: LaunchTemplates, around: Surroundings) -> None:
    """Take away launch templates that nobody uses, also those of earlier processes."""
    await around.elected()
    is_known = False
    while True:
        try:
            if not is_known:
                await templates.adopt()
                is_known = True
            await templates.keep_tidy()
        except AwsError as error:
            told = "unused launch templates could not be taken away"
            around.log.info(told, error=str(error))
            await around.loop.sleep(_TRY_TIDYING_AGAIN)
