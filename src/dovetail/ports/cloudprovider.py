"""CloudProvider: port to the cloud, and the optional ports beside it.

``CloudProvider`` launches and terminates instances and resolves node classes.
The other protocols are optional features of a cloud: an interruption queue,
instance status checks, instance tags and zonal shifts.

Implementations: ``aws.cloudprovider`` (EC2), ``simulator.ec2`` (in memory) and
``operator.virtual`` (a client of the simulated EC2 in another process).
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
from dovetail.model.kube.resources import NO_RESOURCES, Resources


class CloudError(DovetailError):
    """A call to the cloud failed; a retry may succeed."""


class InstanceNotFoundError(CloudError):
    """The instance does not exist or is terminated."""


class InsufficientCapacityError(CloudError):
    """No offering that the NodeClaim allows has capacity now."""


class NodeClassNotReadyError(CloudError):
    """The node class of the NodeClaim is not ready to launch instances."""


class CreateError(CloudError):
    """The launch failed; ``reason`` goes to the Launched condition of the NodeClaim."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class Instance(msgspec.Struct, frozen=True, kw_only=True):
    """An instance of this cluster, as the cloud describes it."""

    provider_id: str
    """``aws:///<zone>/<instance id>``."""
    instance_type: str = ""
    zone: str = ""
    capacity_type: str = ""
    image_id: str = ""
    launch_time: datetime | None = None
    terminating: bool = False
    """True while the instance is shutting down."""
    nodeclaim: str = ""
    """Name of the NodeClaim that it was launched for, from its tags."""
    nodepool: str = ""
    labels: FrozenDict[str, str] = EMPTY
    """Labels that the node will have."""
    annotations: FrozenDict[str, str] = EMPTY
    capacity: Resources = NO_RESOURCES
    allocatable: Resources = NO_RESOURCES
    subnet_id: str = ""
    security_group_ids: tuple[str, ...] = ()
    capacity_reservation_id: str = ""
    """Capacity reservation that it uses; empty if none."""
    placement_group_partition: str = ""
    """Partition number in its placement group; empty until EC2 assigns one."""


class NodeClassStatus(msgspec.Struct, frozen=True, kw_only=True):
    """Resources that a node class selects, and conditions that are not met."""

    status: dict[str, Any]
    """Status in wire format (subnets, securityGroups, amis …), without conditions."""
    false_conditions: FrozenDict[str, tuple[str, str]] = FrozenDict()
    """Type of a condition with status False (SubnetsReady …) → (reason, message)."""
    unknown_conditions: FrozenDict[str, tuple[str, str]] = FrozenDict()
    """The same for conditions that could not be evaluated; their previous status stays."""


class InterruptionKind(StrEnum):
    """Kind of an interruption message; values are Karpenter's metric labels."""

    SPOT_INTERRUPTED = "spot_interrupted"
    REBALANCE_RECOMMENDATION = "rebalance_recommendation"
    SCHEDULED_CHANGE = "scheduled_change"
    INSTANCE_STOPPED = "instance_stopped"
    INSTANCE_TERMINATED = "instance_terminated"
    CAPACITY_RESERVATION_INTERRUPTED = "capacity_reservation_interrupted"
    """EC2 reclaims the capacity of an interruptible reservation."""
    INSTANCE_STATUS = "instance_status"
    """The instance status check failed."""
    SYSTEM_STATUS = "system_status"
    """The system status check failed: the host of the instance is impaired."""
    EVENT_STATUS = "event_status"
    """AWS has scheduled a stop, reboot or retirement of the instance."""
    NO_OP = "no_op"
    """Message without effect on instances; it is only deleted."""


class InterruptionMessage(msgspec.Struct, frozen=True, kw_only=True):
    """A message from the interruption queue."""

    id: str
    """Receipt handle, needed to delete the message."""
    kind: InterruptionKind
    instance_ids: tuple[str, ...] = ()
    """Instance IDs (``i-…``), not provider IDs: most messages do not contain the zone."""
    sent_at: datetime | None = None


class UnhealthyInstance(msgspec.Struct, frozen=True, kw_only=True):
    """An instance with a failed status check or a scheduled event."""

    instance_id: str
    kind: InterruptionKind
    since: datetime | None = None


class CloudProvider(Protocol):
    """Launches and terminates instances and resolves node classes.

    ``create`` and ``delete`` are idempotent.
    """

    async def create(self, claim: NodeClaim) -> Instance:
        """Launch an instance for a NodeClaim, or return the one launched for its UID."""

    async def delete(self, provider_id: str) -> None:
        """Terminate an instance; raises InstanceNotFoundError once it is terminated."""

    async def get(self, provider_id: str) -> Instance:
        """Return an instance; raises InstanceNotFoundError if it does not exist."""

    async def list(self) -> Sequence[Instance]:
        """Return all instances of this cluster that are not terminated."""

    def instance_types(self, pool: NodePool) -> tuple[InstanceType, ...]:
        """Return the instance types that a NodePool can launch, with offerings.

        Unavailable offerings are marked. The result comes from a cache and is the
        same object until something changes. Empty if the node class is unknown or
        not ready.
        """

    def forget_deleted_nodeclasses(self, node_classes: Collection[str]) -> None:
        """Free the memory of instance types whose node class is not one of these."""

    async def drift_reason(self, claim: NodeClaim) -> str | None:
        """Return why the instance of a NodeClaim has drifted, or None.

        NodeClassDrift, AMIDrift, SecurityGroupDrift, SubnetDrift,
        CapacityReservationDrift or PlacementGroupDrift. Raises InstanceNotFoundError,
        and ``core.nodeclass.drift.DriftUnknown`` if drift cannot be determined.
        Mostly served from caches.
        """

    async def resolve_nodeclass(self, node_class: dict[str, Any]) -> NodeClassStatus:
        """Resolve the selectors of a node class (wire format)."""

    async def delete_nodeclass_resources(self, node_class: dict[str, Any]) -> None:
        """Delete instance profiles and launch templates of a node class (wire format).

        Called when no NodeClaim uses the node class. Idempotent.
        """


class InterruptionQueue(Protocol):
    """Queue of interruption messages."""

    async def receive(self) -> Sequence[InterruptionMessage]:
        """Return available messages; a message is redelivered until it is deleted."""

    async def delete(self, message: InterruptionMessage) -> None: ...


class InstanceStatusProvider(Protocol):
    """Status checks and scheduled events of instances."""

    async def list_unhealthy(self) -> Sequence[UnhealthyInstance]:
        """Return instances with a failed status check or a scheduled event."""


class InstanceTagger(Protocol):
    """Tags instances; tags that already exist are kept."""

    async def tag(self, provider_id: str, *, node: str, claim: str) -> None:
        """Tag an instance with its Node and NodeClaim; raises InstanceNotFoundError."""


class ZonalShiftProvider(Protocol):
    """Zonal shifts, with which a user or AWS moves workloads out of an impaired zone."""

    async def list_shifted_zones(self) -> Collection[str]:
        """Return the zones in which no instance may be launched or disrupted now."""
