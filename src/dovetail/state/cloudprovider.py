"""Logic that the AWS, virtual and simulated cloud providers share.

Nothing here calls a cloud. A provider that restarts loses only caches.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Final, Protocol

from dovetail.core.instancetypes.launch_choices import LaunchChoice, NoLaunchChoices, find_launch_choices
from dovetail.core.scheduling.arrays.instance_types import forget_compiled_types
from dovetail.model import labels as label_keys
from dovetail.model.cloud.instance_type import InstanceType
from dovetail.model.karpenter.ec2nodeclass import EC2NodeClass
from dovetail.model.karpenter.nodeclaim import NodeClaim
from dovetail.model.karpenter.nodepool import NodePool
from dovetail.model.kube.conditions import READY, UNKNOWN
from dovetail.ports.cloudprovider import (
    CloudError,
    CreateError,
    Instance,
    InsufficientCapacityError,
    NodeClassNotReadyError,
)
from dovetail.ports.event_loop import EventLoop
from dovetail.state.instancetypes.by_name import InstanceTypeIndex
from dovetail.state.instancetypes.nodeoverlays import NodeOverlays
from dovetail.state.nodes.instances import get_instance_drift

_MAX_CACHED_CLAIMS: Final = 256
_MAX_LISTED_OFFERINGS: Final = 3
_HASH_ANNOTATIONS: Final = (label_keys.EC2_NODE_CLASS_HASH, label_keys.EC2_NODE_CLASS_HASH_VERSION)
LAUNCH_FAILURE_REASONS: Final = (
    # The first entry whose words are all in "code: message" is the reason.
    (("AuthFailure.ServiceLinkedRoleCreationNotPermitted",), "SpotSLRCreationFailed"),
    (("UnauthorizedOperation",), "Unauthorized"),
    (("AccessDenied",), "Unauthorized"),
    (("AuthFailure", "images"), "AMIAuthorizationFailure"),
    (("ecurity group", "subnet", "different networks"), "SecurityGroupSubnetVPCMismatch"),
    (("Invalid IAM Instance Profile name",), "InstanceProfileNameInvalid"),
    (("InvalidLaunchTemplate", "NotFound"), "LaunchTemplateNotFound"),
    (("User data is limited to",), "UserDataSizeLimitExceeded"),
    (("InvalidAMIID.Malformed",), "InvalidAMIID"),
    (("InvalidAMIID.NotFound",), "AMINotFound"),
    (("RequestLimitExceeded",), "RequestLimitExceeded"),
    (("Throttling",), "RequestLimitExceeded"),
    (("InternalError",), "InternalError"),
    (("Free Tier",), "FreeTierIneligible"),
    (("MaxFleetCountExceeded",), "FleetQuotaExceeded"),
    (("PendingVerification",), "AccountPendingVerification"),
    (("MaxSpotInstanceCountExceeded",), "SpotQuotaExceeded"),
    (("VcpuLimitExceeded",), "VCPULimitExceeded"),
    (("InsufficientFreeAddressesInSubnet",), "InsufficientFreeAddressesInSubnet"),
)


class InstanceTypeSource(Protocol):
    """Instance types of a node class, as ``InstanceTypeProvider`` returns them."""

    def instance_types(self, node_class: EC2NodeClass, *, now: datetime) -> tuple[InstanceType, ...]: ...

    def retain(self, node_classes: Iterable[str]) -> bool: ...


class BaseCloudProvider(ABC):
    """Base of cloud providers: instance types of NodePools and NodeClaims, and drift.

    Instance types have NodeOverlays applied. They are the same tuple until something
    changes, so that callers can compare by identity.
    """

    def __init__(
        self,
        source: InstanceTypeSource,
        *,
        overlays: NodeOverlays | None,
        node_class: Callable[[str], EC2NodeClass | None],
        loop: EventLoop,
    ) -> None:
        self._source = source
        self._overlays = overlays or NodeOverlays()
        self._node_class = node_class
        self._loop = loop
        self._index = InstanceTypeIndex()

    def instance_types(self, pool: NodePool) -> tuple[InstanceType, ...]:
        """Return the instance types that a NodePool can launch now.

        Empty if its node class is missing, being deleted or not ready.
        """
        node_class = self._node_class(pool.template.node_class.name)
        if node_class is None or node_class.deleting or not node_class.ready:
            return ()
        return self._overlays.apply(pool, self._types_for_node_class(node_class))

    def forget_deleted_nodeclasses(self, node_classes: Collection[str]) -> None:
        """Free the memory of instance types whose node class is not one of these."""
        if self._source.retain(node_classes):
            forget_compiled_types()
        self._index.retain(node_classes)

    async def drift_reason(self, claim: NodeClaim) -> str | None:
        """Return why the node class would launch the claim differently, or None."""
        node_class = self._node_class(claim.node_class.name)
        if node_class is None:
            return None
        instance = await self._get_instance(claim)
        by_name: Mapping[str, InstanceType] = self._index.by_name(
            node_class.name, self._types_for_node_class(node_class)
        )
        return get_instance_drift(instance, claim, node_class, by_name)

    @abstractmethod
    async def get(self, provider_id: str) -> Instance:
        """Return an instance; InstanceNotFoundError if it has terminated."""

    async def _get_instance(self, claim: NodeClaim) -> Instance:
        """Return the instance of a launched claim. Overridden where there is a cache."""
        return await self.get(claim.provider_id)

    def _types_for_claim(self, claim: NodeClaim, node_class: EC2NodeClass) -> tuple[InstanceType, ...]:
        """Return the instance types that a NodeClaim can be launched as."""
        return self._overlays.apply_to_claim(claim, self._types_for_node_class(node_class))

    def _types_for_node_class(self, node_class: EC2NodeClass) -> tuple[InstanceType, ...]:
        """Return the instance types of a node class, without overlays."""
        return self._source.instance_types(node_class, now=self._loop.now())


class LaunchChoiceCache:
    """Launch choices, computed once for NodeClaims with equal requirements.

    Claims come in batches, and the computation blocks the event loop. Entries
    are valid for one tuple of instance types.
    """

    def __init__(self) -> None:
        self._types: tuple[InstanceType, ...] = ()
        self._choices: dict[Hashable, tuple[LaunchChoice, ...] | NoLaunchChoices] = {}

    def find(
        self, claim: NodeClaim, types: tuple[InstanceType, ...]
    ) -> tuple[LaunchChoice, ...] | NoLaunchChoices:
        """Return the offerings to request for a claim, cheapest first."""
        if types is not self._types or len(self._choices) >= _MAX_CACHED_CLAIMS:
            self._types = types
            self._choices.clear()
        key = (claim.requirements, claim.requests, claim.annotations.get(label_keys.MIN_VALUES_RELAXED))
        if key not in self._choices:
            self._choices[key] = find_launch_choices(claim, types)
        return self._choices[key]


def require_ready(name: str, node_class: EC2NodeClass | None) -> EC2NodeClass:
    """Return the node class if instances may be launched from it; else raise.

    ``InsufficientCapacityError`` and ``NodeClassNotReadyError`` have the claim
    deleted; ``CreateError`` has the launch retried.
    """
    if node_class is None or node_class.deleting:
        problem = "does not exist" if node_class is None else "is being deleted"
        raise InsufficientCapacityError(f"EC2NodeClass {name} {problem}")
    ready = node_class.conditions.get(READY)
    if ready is not None and ready.status == UNKNOWN:
        problem = f"the readiness of EC2NodeClass {name} is not known yet"
        raise CreateError("NodeClassReadinessUnknown", problem)
    is_stale = ready is not None and ready.observed_generation not in (0, node_class.generation)
    if is_stale or not node_class.ready:
        problem = "has changed and is not resolved yet" if is_stale else "is not ready"
        raise NodeClassNotReadyError(f"EC2NodeClass {name} {problem}")
    return node_class


def claim_error(claim: NodeClaim, error: CloudError) -> CloudError:
    """Return an error of the same type that names the NodeClaim."""
    message = f"nodeclaim {claim.name}: {error}"
    if isinstance(error, CreateError):
        return type(error)(error.reason, message)
    return type(error)(message)


def no_capacity_error(
    claim: NodeClaim, failed: Sequence[str], no_choices: NoLaunchChoices
) -> InsufficientCapacityError:
    """Return the error for a claim that no offering is left for.

    ``failed`` describes the offerings that EC2 had no capacity for.
    """
    if not failed:
        return InsufficientCapacityError(f"nodeclaim {claim.name}: {no_choices.reason}")
    listed = ", ".join(failed[:_MAX_LISTED_OFFERINGS])
    rest = len(failed) - _MAX_LISTED_OFFERINGS
    more = f" and {rest} more" if rest > 0 else ""
    return InsufficientCapacityError(
        f"nodeclaim {claim.name}: EC2 has no capacity for {listed}{more}; these offerings are"
        " unavailable for 3m, and pods are scheduled with other offerings"
    )


def launch_failure_reason(message: str) -> str:
    """Return Karpenter's reason of the Launched condition for EC2's ``code: message``."""
    return next(
        (reason for words, reason in LAUNCH_FAILURE_REASONS if all(word in message for word in words)),
        "LaunchFailed",
    )


def launch_annotations(node_class: EC2NodeClass | None, *, profile: str) -> dict[str, str]:
    """Return the annotations of a launched claim: node class hash, instance profile."""
    annotations = {label_keys.INSTANCE_PROFILE: profile} if profile else {}
    if node_class is not None:
        stored = node_class.annotations
        annotations |= {key: stored[key] for key in _HASH_ANNOTATIONS if key in stored}
    return annotations
