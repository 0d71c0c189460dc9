"""``ports.cloudprovider.CloudProvider`` on simulated EC2.

It calls the simulated EC2 API as ``aws.cloudprovider`` calls the real one: with
latency, throttling, capacity errors and client tokens.
"""

from collections.abc import Callable, Sequence
from datetime import timedelta
from operator import is_
from typing import Any, Final, TypeVar

from dovetail.core.instancetypes.build import build_instance_types
from dovetail.core.instancetypes.launch_choices import LaunchChoice, NoLaunchChoices
from dovetail.core.instancetypes.settings import InstanceTypeSettings
from dovetail.model import labels as label_keys
from dovetail.model.cloud.cpu_credits import BurstablePolicy
from dovetail.model.cloud.discounts import NO_DISCOUNTS, DiscountBook
from dovetail.model.cloud.ec2_catalog import Catalog
from dovetail.model.cloud.prices import PriceBook
from dovetail.model.frozen import FrozenDict
from dovetail.model.karpenter.ec2nodeclass import EC2NodeClass
from dovetail.model.karpenter.nodeclaim import NodeClaim
from dovetail.ports.cloudprovider import (
    CloudError,
    CreateError,
    Instance,
    InstanceNotFoundError,
    InsufficientCapacityError,
    NodeClassNotReadyError,
    NodeClassStatus,
)
from dovetail.ports.event_loop import EventLoop
from dovetail.simulator.ec2.account import Ec2Account, FleetError, FleetRequest, FleetResponse, instance_tags
from dovetail.simulator.ec2.errors import NO_SUCH_INSTANCE, THROTTLED, Ec2Error
from dovetail.simulator.ec2.instances import Ec2Instance
from dovetail.simulator.ec2.nodeclass_resolver import AccountNetwork, instance_profile_name, resolve_nodeclass
from dovetail.simulator.ec2.throttling import Operation
from dovetail.state.cloudprovider import (
    BaseCloudProvider,
    LaunchChoiceCache,
    claim_error,
    launch_annotations,
    launch_failure_reason,
    no_capacity_error,
    require_ready,
)
from dovetail.state.instancetypes.nodeoverlays import NodeOverlays
from dovetail.state.instancetypes.provider import BuildInstanceTypes, InstanceTypeProvider
from dovetail.state.instancetypes.unavailable_offerings import UnavailableOffering, UnavailableOfferings
from dovetail.state.nodes.instances import InstanceCache

T = TypeVar("T")
_RETRIES: Final = (timedelta(seconds=1), timedelta(seconds=2))
"""Delays of the SDK's retries after throttling."""


class Ec2Client:
    """The connection of one process; pending calls end with its event loop."""

    def __init__(self, ec2: Ec2Account, *, loop: EventLoop) -> None:
        self._ec2 = ec2
        self._loop = loop
        times = ec2.latencies
        self._latencies = {
            Operation.CREATE_FLEET: times.create_fleet,
            Operation.DESCRIBE_INSTANCES: times.describe,
            Operation.DESCRIBE_NETWORK: times.describe,
            Operation.TERMINATE_INSTANCES: times.terminate,
        }

    async def call(self, operation: Operation, effect: Callable[[], T]) -> T:
        """Apply an effect to the account; retry a few times if throttled."""
        for pause in _RETRIES:
            try:
                return await self._call(operation, effect)
            except Ec2Error as error:
                if error.code != THROTTLED:
                    raise
            await self._loop.sleep(pause)
        return await self._call(operation, effect)

    async def _call(self, operation: Operation, effect: Callable[[], T]) -> T:
        """Spend half of the latency on each side of the effect.

        A crash can then fall before or after it.
        """
        half = self._latencies[operation] / 2
        if half:
            await self._loop.sleep(half)
        injected = self._ec2.error_injector.match_call(operation)
        if not self._ec2.throttle.try_acquire(operation, self._loop.now()):
            raise Ec2Error(THROTTLED, f"{operation}: too many requests")
        if injected is not None and not injected.after_effect:
            raise injected.to_exception()
        result = effect()
        if half:
            await self._loop.sleep(half)
        if injected is not None:
            raise injected.to_exception()
        return result


class SimulatedCloudProvider(BaseCloudProvider):
    """The view that one process has of the account.

    It keeps caches only: unavailable offerings, instance types, instances.
    """

    def __init__(
        self,
        ec2: Ec2Account,
        *,
        loop: EventLoop,
        catalog: Catalog,
        prices: PriceBook,
        node_class: Callable[[str], EC2NodeClass | None],
        network: AccountNetwork | None = None,
        unavailable: UnavailableOfferings | None = None,
        overlays: NodeOverlays | None = None,
        cluster: str = "sandbox",
        discounts: DiscountBook = NO_DISCOUNTS,
        kubelet_expressions: bool = False,
        burstable: BurstablePolicy = BurstablePolicy.BASELINE,
        build: BuildInstanceTypes = build_instance_types,
    ) -> None:
        self._unavailable = unavailable or UnavailableOfferings()
        provider = InstanceTypeProvider(
            catalog.instance_types_in(ec2.region.name),
            region=ec2.region,
            prices=prices,
            unavailable=self._unavailable,
            settings=InstanceTypeSettings(kubelet_expressions=kubelet_expressions, burstable=burstable),
            discounts=discounts,
            running=lambda: ec2.billing.instance_counts,
            build=build,
        )
        super().__init__(provider, overlays=overlays, node_class=node_class, loop=loop)
        self._ec2 = ec2
        self._client = Ec2Client(ec2, loop=loop)
        self._check_kubelet = provider.kubelet_check
        self._cluster = cluster
        self._network = network or AccountNetwork.from_region(ec2.region)
        self._instances = InstanceCache()
        self._encoded: dict[str, tuple[tuple[object, ...], Instance]] = {}
        """Instance ID → what may change about an instance, and the instance for callers."""
        self._launch_choices = LaunchChoiceCache()

    async def create(self, claim: NodeClaim) -> Instance:
        """Launch an instance for a claim, or return the one its uid already has.

        If every offering of a request is out of capacity, the next request
        follows at once.
        """
        try:
            launched = self._to_instance(await self._launch(claim))
            self._instances.add(launched, now=self._loop.now())
            return launched
        except (InsufficientCapacityError, NodeClassNotReadyError):
            # The response of an earlier attempt may have been lost.
            existing = await self._call(
                Operation.DESCRIBE_INSTANCES, lambda: self._ec2.find_by_token(claim.uid)
            )
            if existing is None or existing.is_terminating:
                raise
            return self._to_instance(existing)

    async def delete(self, provider_id: str) -> None:
        """Terminate an instance; InstanceNotFoundError once it has terminated."""
        instance = await self._find(provider_id)
        if not instance.is_terminating:
            await self._call(Operation.TERMINATE_INSTANCES, lambda: self._ec2.terminate(instance.id))

    async def get(self, provider_id: str) -> Instance:
        """Return one instance; InstanceNotFoundError if it has terminated."""
        return self._to_instance(await self._find(provider_id))

    async def list(self) -> Sequence[Instance]:
        """Return every instance of this cluster that has not terminated."""
        instances = await self._call(
            Operation.DESCRIBE_INSTANCES,
            lambda: [
                self._to_instance(instance)
                for instance in self._ec2.instances()
                if instance.tags.get("eks:eks-cluster-name") == self._cluster
            ],
        )
        self._instances.replace_all(instances, now=self._loop.now())
        listed = {instance.provider_id.rpartition("/")[2] for instance in instances}
        self._encoded = {key: value for key, value in self._encoded.items() if key in listed}
        return instances

    async def resolve_nodeclass(self, node_class: dict[str, Any]) -> NodeClassStatus:
        """Resolve the selectors of a node class (an API object)."""
        return await self._call(
            Operation.DESCRIBE_NETWORK,
            lambda: resolve_nodeclass(
                node_class,
                network=self._network,
                reservations=self._ec2.reservations(),
                cluster=self._cluster,
                latest=self._ec2.latest_image_versions,
                check_kubelet=self._check_kubelet,
                recorded=self._ec2.recorded_nodeclasses.get(node_class["metadata"]["name"]),
            ),
        )

    async def delete_nodeclass_resources(self, node_class: dict[str, Any]) -> None:
        """Do nothing: a simulated account has no resources per node class."""

    async def _get_instance(self, claim: NodeClaim) -> Instance:
        if self._instances.get_fresh(claim.provider_id, now=self._loop.now()) is None:
            # One list call refreshes every instance whose entry has expired.
            await self.list()
        instance = self._instances.get_fresh(claim.provider_id, now=self._loop.now())
        if instance is None:
            raise InstanceNotFoundError(f"there is no instance {claim.provider_id}")
        return instance

    async def _launch(self, claim: NodeClaim) -> Ec2Instance:
        name = claim.node_class.name
        try:
            node_class = require_ready(name, self._node_class(name))
        except CloudError as error:
            raise claim_error(claim, error) from error
        failed: list[FleetError] = []
        while True:
            types = self._types_for_claim(claim, node_class)
            choices = self._launch_choices.find(claim, types)
            if isinstance(choices, NoLaunchChoices):
                raise no_capacity_error(claim, [_describe(error) for error in failed], choices)
            response = await self._create_fleet(claim, node_class, choices)
            failed += response.errors
            self._unavailable.mark_unavailable(
                map(_unavailable_offering, response.errors), now=self._loop.now()
            )
            if response.instance is not None and response.instance.is_terminating:
                raise InsufficientCapacityError(
                    f"nodeclaim {claim.name}: its instance {response.instance.id} has terminated"
                )
            if response.instance is not None:
                return response.instance

    async def _create_fleet(
        self, claim: NodeClaim, node_class: EC2NodeClass, choices: tuple[LaunchChoice, ...]
    ) -> FleetResponse:
        request = FleetRequest(
            token=claim.uid,
            choices=choices,
            claim=claim,
            ami_family=node_class.ami_family,
            tags=instance_tags(claim, self._cluster),
            images=node_class.resolved.amis,
            subnets=FrozenDict({subnet.zone: subnet.id for subnet in reversed(node_class.resolved.subnets)}),
            security_groups=node_class.resolved.security_group_ids,
            lists_interfaces=bool(node_class.launch.network_interfaces),
        )
        try:
            return await self._client.call(Operation.CREATE_FLEET, lambda: self._ec2.create_fleet(request))
        except Ec2Error as error:
            reason = launch_failure_reason(str(error))
            raise CreateError(reason, f"nodeclaim {claim.name}: {error}") from error

    async def _find(self, provider_id: str) -> Ec2Instance:
        instance_id = provider_id.rpartition("/")[2]
        instance = await self._call(Operation.DESCRIBE_INSTANCES, lambda: self._ec2.find(instance_id))
        if instance is None:
            raise InstanceNotFoundError(f"there is no instance {instance_id}, or it has terminated")
        return instance

    async def _call(self, operation: Operation, effect: Callable[[], T]) -> T:
        try:
            return await self._client.call(operation, effect)
        except Ec2Error as error:
            if error.code == NO_SUCH_INSTANCE:
                raise InstanceNotFoundError(str(error)) from error
            raise CloudError(str(error)) from error

    def _to_instance(self, instance: Ec2Instance) -> Instance:
        node_class = self._node_class(instance.claim.node_class.name)
        state = (node_class, instance.is_terminating, instance.tags, instance.security_groups)
        encoded = self._encoded.get(instance.id)
        if encoded is None or not all(map(is_, encoded[0], state)):
            encoded = self._encoded[instance.id] = (state, self._encode(instance, node_class))
        return encoded[1]

    def _encode(self, instance: Ec2Instance, node_class: EC2NodeClass | None) -> Instance:
        offering = instance.choice.offering
        pool = instance.tags[label_keys.NODEPOOL]
        labels = {**instance.labels, label_keys.NODEPOOL: pool} if pool else instance.labels
        profile = instance_profile_name(self._cluster, instance.claim.node_class.name)
        return Instance(
            provider_id=instance.provider_id,
            instance_type=instance.choice.instance_type.name,
            zone=offering.zone,
            capacity_type=offering.capacity_type,
            image_id=instance.image_id,
            launch_time=instance.launched,
            terminating=instance.is_terminating,
            nodeclaim=instance.claim.name,
            nodepool=pool,
            labels=FrozenDict(labels),
            annotations=FrozenDict(launch_annotations(node_class, profile=profile)),
            capacity=instance.capacity,
            allocatable=instance.allocatable,
            subnet_id=instance.subnet,
            security_group_ids=instance.security_groups,
            capacity_reservation_id=offering.reservation_id,
        )


def _unavailable_offering(error: FleetError) -> UnavailableOffering:
    offering = error.choice.offering
    return UnavailableOffering(
        capacity_type=offering.capacity_type,
        instance_type=error.choice.instance_type.name,
        zone=offering.zone,
    )


def _describe(error: FleetError) -> str:
    offering = error.choice.offering
    return f"{error.choice.instance_type.name}/{offering.capacity_type}/{offering.zone}"
