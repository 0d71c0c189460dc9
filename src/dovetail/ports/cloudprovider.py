"""The cloud as controllers use it: machines bought, looked at and given back.

Writing on machines what they have become.

Zones that the cloud has been told to stay away from.
"""

from collections.abc import Collection, Sequence
from datetime import datetime
from enum import StrEnum
from typing import Any, Protocol

import msgspec

from dovetail.errors import DovetailError
from dovetail.model.cloud.instance_type import InstanceType
from dovetail.model.frozen import EMPTY, FrozenDict
from dovetail.model.karpenter.nodeclaim import NodeClaim
from dovetail.model.karpenter.nodepool import NodePool
from dovetail.model.kube.resources import NOTHING, Resources


class CloudError(DovetailError):
    """The cloud did not do what was asked; trying again later may help."""


class InstanceNotFound(CloudError):
    """There is no such instance, or it has terminated."""


class InsufficientCapacity(CloudError):
    """None of the offerings that the claim allows can be had now."""


class NodeClassNotReady(CloudError):
    """The claim's node class is not ready, so nothing can be launched from it."""


class CreateFailed(CloudError):
    """Launching failed for a reason that belongs on the claim's Launched condition."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class Instance(msgspec.Struct, frozen=True, kw_only=True):
    """One machine, as the cloud describes it."""

    provider_id: str
    """``aws:///<zone>/<instance id>``."""
    instance_type: str = ""
    zone: str = ""
    capacity_type: str = ""
    image_id: str = ""
    launched: datetime | None = None
    terminating: bool = False
    """Shutting down already."""
    claim: str = ""
    """The NodeClaim it was bought for, from its tags."""
    nodepool: str = ""
    labels: FrozenDict[str, str] = EMPTY
    """What a node on it will say of itself."""
    annotations: FrozenDict[str, str] = EMPTY
    capacity: Resources = NOTHING
    allocatable: Resources = NOTHING
    subnet: str = ""
    security_groups: tuple[str, ...] = ()
    reservation: str = ""
    """The capacity reservation that it was bought in."""
    partition: str = ""
    """Its partition of a partition placement group, once there is one."""


class ClassStatus(msgspec.Struct, frozen=True, kw_only=True):
    """What a node class turns out to mean in this account and region."""

    status: dict[str, Any]
    """subnets, securityGroups, amis, instanceProfile …, as on the wire; without conditions."""
    problems: FrozenDict[str, tuple[str, str]] = FrozenDict()
    """Condition type (SubnetsReady …) → reason and message, for those that are not met."""
    unsure: FrozenDict[str, tuple[str, str]] = FrozenDict()
    """The same for those that could not be found out this time; what was known of them holds."""


class Interruption(StrEnum):
    """What the cloud is about to do to an instance."""

    SPOT = "spot_interrupted"
    REBALANCE = "rebalance_recommendation"
    SCHEDULED_CHANGE = "scheduled_change"
    STOPPING = "instance_stopped"
    TERMINATING = "instance_terminated"
    RESERVATION = "capacity_reservation_interrupted"
    """The capacity that was lent to us from a reservation is taken back."""
    INSTANCE_STATUS = "instance_status"
    """The machine does not answer."""
    SYSTEM_STATUS = "system_status"
    """What the machine runs on is broken."""
    EVENT_STATUS = "event_status"
    """The cloud is going to stop, reboot or retire the machine."""
    NOTHING = "no_op"
    """Nothing that concerns a machine; only to be removed."""


class Message(msgspec.Struct, frozen=True, kw_only=True):
    """A warning from the interruption queue."""

    id: str
    """By which it is removed."""
    kind: Interruption
    instance_ids: tuple[str, ...] = ()
    """``i-…``: most warnings do not say in which zone."""
    sent: datetime | None = None


class Ailment(msgspec.Struct, frozen=True, kw_only=True):
    """What the cloud's own checks say of a machine."""

    instance_id: str
    kind: Interruption
    since: datetime | None = None


class Cloud(Protocol):
    """Buys and gives back machines. Both verbs may be repeated without harm."""

    async def create(self, claim: NodeClaim) -> Instance:
        """Buy one machine for a claim, or return the one already bought for its uid."""

    async def delete(self, provider_id: str) -> None:
        """Have a machine terminate; InstanceNotFound once it has."""

    async def get(self, provider_id: str) -> Instance:
        """Look at one machine; InstanceNotFound when it is gone."""

    async def list(self) -> Sequence[Instance]:
        """Return every machine of this cluster that has not terminated."""

    def instance_types(self, pool: NodePool) -> tuple[InstanceType, ...]:
        """Return what a pool could buy, priced; what failed lately is marked unavailable.

        Answers from memory, and with the same tuple until something changes.
        Empty when the pool's node class is unknown or not ready.
        """

    async def drift(self, claim: NodeClaim) -> str | None:
        """Return why a claim's class would not launch its machine as it is, or None.

        NodeClassDrift, AMIDrift, SecurityGroupDrift, SubnetDrift,
        CapacityReservationDrift or PlacementGroupDrift. Raises InstanceNotFound, and
        ``core.nodeclass.drift.DriftUnknown`` where it cannot be told. Rarely makes a call.
        """

    async def resolve(self, node_class: dict[str, Any]) -> ClassStatus:
        """Find what a node class (wire form) selects."""

    async def forget(self, node_class: dict[str, Any]) -> None:
        """Take away what was made for a node class (wire form): profiles, launch templates.

        Called when nothing launched from it is left; harmless when repeated.
        """


class Interruptions(Protocol):
    """The queue in which the cloud's warnings arrive."""

    async def receive(self) -> Sequence[Message]:
        """Return what is there now; the same again until it is removed."""

    async def remove(self, message: Message) -> None: ...


class Checkups(Protocol):
    """The cloud's own checks of machines."""

    async def ailing(self) -> Sequence[Ailment]:
        """Return the machines that fail a check now, or are soon to be touched."""


class Tagging(Protocol):
    """Tags machines; what is written on them already stays."""

    async def tag(self, provider_id: str, *, node: str, claim: str) -> None:
        """Say which node and claim a machine is; InstanceNotFound when it is gone."""


class ZonalShifts(Protocol):
    """Zonal shifts: somebody, or AWS itself, moves work out of an impaired zone."""

    async def away_from(self) -> Collection[str]:
        """Return the zones in which nothing is to be bought, or touched, now."""
