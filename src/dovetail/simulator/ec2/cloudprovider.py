"""``ports.cloudprovider.Cloud`` on virtual EC2, working as a real adapter would."""

from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar

from dovetail.core.instancetypes.launch_choices import Choice, Refused, choices_for
from dovetail.model import labels as label_keys
from dovetail.model.cloud.discounts import NO_DISCOUNTS, DiscountBook
from dovetail.model.cloud.ec2_catalog import Catalog
from dovetail.model.cloud.instance_type import InstanceType
from dovetail.model.cloud.prices import PriceBook
from dovetail.model.frozen import FrozenDict
from dovetail.model.karpenter.ec2nodeclass import NodeClass
from dovetail.model.karpenter.nodeclaim import NodeClaim
from dovetail.model.karpenter.nodepool import NodePool
from dovetail.ports.cloudprovider import (
    ClassStatus,
    CloudError,
    CreateFailed,
    Instance,
    InstanceNotFound,
    InsufficientCapacity,
    NodeClassNotReady,
)
from dovetail.ports.event_loop import Loop
from dovetail.simulator.ec2.account import (
    FleetAnswer,
    FleetError,
    FleetRequest,
    VirtualEc2,
    tags_of,
)
from dovetail.simulator.ec2.client import Ec2Client
from dovetail.simulator.ec2.errors import NO_SUCH_INSTANCE, THROTTLED, Ec2Error
from dovetail.simulator.ec2.instances import Ec2Instance
from dovetail.simulator.ec2.nodeclass_resolver import Network, profile_of, resolve
from dovetail.simulator.ec2.throttling import Operation
from dovetail.state.instancetypes.by_name import TypesByName
from dovetail.state.instancetypes.nodeoverlays import Overlays
from dovetail.state.instancetypes.provider import Shelf
from dovetail.state.instancetypes.unavailable_offerings import Scarce, Scarcity
from dovetail.state.nodes.instances import Sightings, drift_of

T = TypeVar("T")
_SHOWN: Final = 3
_REMEMBERED: Final = 256
_PROFILE: Final = f"{label_keys.AWS_DOMAIN}/instance-profile-name"
_STAMPS: Final = (label_keys.EC2_NODE_CLASS_HASH, label_keys.EC2_NODE_CLASS_HASH_VERSION)
_REASONS: Final = {
    THROTTLED: "RequestLimitExceeded",
    "InternalError": "InternalError",
    "UnauthorizedOperation": "Unauthorized",
    "InvalidAMIID.NotFound": "AMINotFound",
}
"""EC2's error code → reason of the Launched condition; ``LaunchFailed`` for all others."""


class SimCloud:
    """One process' view of the account.

    Of its own it has only what may be lost with the process: what failed lately,
    and the instance types worked out.
    """

    def __init__(
        self,
        ec2: VirtualEc2,
        *,
        loop: Loop,
        catalog: Catalog,
        prices: PriceBook,
        node_class: Callable[[str], NodeClass | None],
        network: Network | None = None,
        scarcity: Scarcity | None = None,
        overlays: Overlays | None = None,
        cluster: str = "sandbox",
        discounts: DiscountBook = NO_DISCOUNTS,
    ) -> None:
        self._ec2 = ec2
        self._loop = loop
        self._client = Ec2Client(ec2, loop=loop)
        self._node_class = node_class
        self._cluster = cluster
        self._network = network or Network.of(ec2.region)
        self._scarcity = scarcity or Scarcity()
        self._overlays = overlays or Overlays()
        self._shelf = Shelf(
            catalog.machines_in(ec2.region.name),
            region=ec2.region,
            prices=prices,
            scarcity=self._scarcity,
            discounts=discounts,
            running=lambda: ec2.ledger.held,
        )
        self._by_name = TypesByName()
        self._sightings = Sightings()
        self._considered: tuple[InstanceType, ...] = ()
        self._choices: dict[Any, tuple[Choice, ...] | Refused] = {}
        """Claim's needs → what to ask for, among ``_considered``."""

    async def create(self, claim: NodeClaim) -> Instance:
        """Buy one machine for a claim, or return the one already bought for its uid.

        When a whole request is out of stock, the next one follows at once.
        """
        try:
            bought_now = self._described(await self._buy(claim))
            self._sightings.saw(bought_now, now=self._loop.now())
            return bought_now
        except (InsufficientCapacity, NodeClassNotReady):
            # An earlier try may have bought something, and its answer got lost.
            bought = await self._call(
                Operation.DESCRIBE_INSTANCES, lambda: self._ec2.bought_with(claim.uid)
            )
            if bought is None or bought.is_ending:
                raise
            return self._described(bought)

    async def delete(self, provider_id: str) -> None:
        """Have a machine terminate; InstanceNotFound once it has."""
        instance = await self._find(provider_id)
        if not instance.is_ending:
            await self._call(
                Operation.TERMINATE_INSTANCES, lambda: self._ec2.terminate(instance.id)
            )

    async def get(self, provider_id: str) -> Instance:
        """Look at one machine; InstanceNotFound when it is gone."""
        return self._described(await self._find(provider_id))

    async def list(self) -> Sequence[Instance]:
        """Return every machine of this cluster that has not terminated."""
        found = await self._call(
            Operation.DESCRIBE_INSTANCES,
            lambda: [
                self._described(one)
                for one in self._ec2.instances()
                if one.tags.get("eks:eks-cluster-name") == self._cluster
            ],
        )
        self._sightings.listed(found, now=self._loop.now())
        return found

    def instance_types(self, pool: NodePool) -> tuple[InstanceType, ...]:
        """Return what a pool could buy; the same tuple until something changes."""
        node_class = self._node_class(pool.template.node_class.name)
        if node_class is None or node_class.deleting or not node_class.ready:
            return ()
        types = self._shelf.instance_types(node_class, now=self._loop.now())
        return self._overlays.applied(pool, types)

    async def drift(self, claim: NodeClaim) -> str | None:
        """Return why a claim's class would not launch its machine as it is, or None."""
        node_class = self._node_class(claim.node_class.name)
        if node_class is None:
            return None
        now = self._loop.now()
        if self._sightings.recent(claim.provider_id, now=now) is None:
            # One call for all that nobody has seen for a while.
            await self.list()
        seen = self._sightings.recent(claim.provider_id, now=self._loop.now())
        if seen is None:
            raise InstanceNotFound(f"there is no instance {claim.provider_id}")
        types = self._shelf.instance_types(node_class, now=self._loop.now())
        return drift_of(seen, claim, node_class, self._by_name.of(node_class.name, types))

    async def resolve(self, node_class: dict[str, Any]) -> ClassStatus:
        """Find what a node class (wire form) selects."""
        return await self._call(
            Operation.DESCRIBE_NETWORK,
            lambda: resolve(
                node_class,
                network=self._network,
                reservations=self._ec2.reservations(),
                cluster=self._cluster,
                latest=self._ec2.latest,
            ),
        )

    async def forget(self, node_class: dict[str, Any]) -> None:
        """Do nothing: node classes leave nothing behind in a virtual account."""

    async def _buy(self, claim: NodeClaim) -> Ec2Instance:
        node_class = self._class_of(claim)
        failed: list[FleetError] = []
        while True:
            sold = self._shelf.instance_types(node_class, now=self._loop.now())
            choices = self._choices_for(claim, self._overlays.applied_to(claim, sold))
            if isinstance(choices, Refused):
                raise InsufficientCapacity(_nothing_left(claim, failed, choices))
            answer = await self._create_fleet(claim, node_class, choices)
            failed += answer.errors
            self._scarcity.mark(map(_scarce, answer.errors), now=self._loop.now())
            if answer.instance is not None and answer.instance.is_ending:
                raise InsufficientCapacity(
                    f"nodeclaim {claim.name}: its instance {answer.instance.id} has ended already"
                )
            if answer.instance is not None:
                return answer.instance

    def _choices_for(
        self, claim: NodeClaim, types: tuple[InstanceType, ...]
    ) -> tuple[Choice, ...] | Refused:
        """Work it out once for claims that are alike: they come by the dozen."""
        if types is not self._considered or len(self._choices) == _REMEMBERED:
            self._considered = types
            self._choices.clear()
        needs = (claim.requirements, claim.requests)
        if needs not in self._choices:
            self._choices[needs] = choices_for(claim, types)
        return self._choices[needs]

    async def _create_fleet(
        self, claim: NodeClaim, node_class: NodeClass, choices: tuple[Choice, ...]
    ) -> FleetAnswer:
        request = FleetRequest(
            token=claim.uid,
            choices=choices,
            claim=claim,
            ami_family=node_class.ami_family,
            tags=tags_of(claim, self._cluster),
            images=node_class.found.images,
            subnets=FrozenDict({one.zone: one.id for one in reversed(node_class.found.subnets)}),
            security_groups=node_class.found.security_groups,
        )
        try:
            return await self._client.call(
                Operation.CREATE_FLEET, lambda: self._ec2.create_fleet(request)
            )
        except Ec2Error as error:
            reason = _REASONS.get(error.code, "LaunchFailed")
            raise CreateFailed(reason, f"nodeclaim {claim.name}: {error}") from error

    def _class_of(self, claim: NodeClaim) -> NodeClass:
        name = claim.node_class.name
        known = self._node_class(name)
        if known is None or known.deleting:
            what = "does not exist" if known is None else "is being deleted"
            raise InsufficientCapacity(f"nodeclaim {claim.name}: EC2NodeClass {name} {what}")
        if not known.ready:
            raise NodeClassNotReady(f"nodeclaim {claim.name}: EC2NodeClass {name} is not ready")
        return known

    async def _find(self, provider_id: str) -> Ec2Instance:
        instance_id = provider_id.rpartition("/")[2]
        found = await self._call(Operation.DESCRIBE_INSTANCES, lambda: self._ec2.find(instance_id))
        if found is None:
            raise InstanceNotFound(f"there is no instance {instance_id}, or it has terminated")
        return found

    async def _call(self, operation: Operation, effect: Callable[[], T]) -> T:
        try:
            return await self._client.call(operation, effect)
        except Ec2Error as error:
            if error.code == NO_SUCH_INSTANCE:
                raise InstanceNotFound(str(error)) from error
            raise CloudError(str(error)) from error

    def _described(self, instance: Ec2Instance) -> Instance:
        offering = instance.choice.offering
        pool = instance.tags[label_keys.NODEPOOL]
        labels = {**instance.labels, label_keys.NODEPOOL: pool} if pool else instance.labels
        known = self._node_class(instance.claim.node_class.name)
        noted = known.annotations if known is not None else FrozenDict()
        stamps = {key: noted[key] for key in _STAMPS if key in noted}
        profile = profile_of(self._cluster, instance.claim.node_class.name)
        return Instance(
            provider_id=instance.provider_id,
            instance_type=instance.choice.instance_type.name,
            zone=offering.zone,
            capacity_type=offering.capacity_type,
            image_id=instance.image_id,
            launched=instance.launched,
            terminating=instance.is_ending,
            claim=instance.claim.name,
            nodepool=pool,
            labels=FrozenDict(labels),
            annotations=FrozenDict({_PROFILE: profile, **stamps}),
            capacity=instance.capacity,
            allocatable=instance.allocatable,
            subnet=instance.subnet,
            security_groups=instance.security_groups,
            reservation=offering.reservation_id,
        )


def _scarce(error: FleetError) -> Scarce:
    offering = error.choice.offering
    return Scarce(
        capacity_type=offering.capacity_type,
        instance_type=error.choice.instance_type.name,
        zone=offering.zone,
    )


def _nothing_left(claim: NodeClaim, failed: Sequence[FleetError], refused: Refused) -> str:
    if not failed:
        return f"nodeclaim {claim.name}: {refused.because}"
    pools = [
        f"{one.choice.instance_type.name}/{one.choice.offering.capacity_type}"
        f"/{one.choice.offering.zone}"
        for one in failed
    ]
    shown, more = ", ".join(pools[:_SHOWN]), len(pools) - _SHOWN
    rest = f", … and {more} more" if more > 0 else ""
    return (
        f"nodeclaim {claim.name}: EC2 has no capacity in {shown}{rest}; "
        "these are set aside for 3m, and its pods will be given others"
    )
