"""Plan: where every pending pod would go, and why some go nowhere."""

from collections.abc import Sequence
from enum import StrEnum

import msgspec

from dovetail.model.cloud.instance_type import InstanceType, Offering
from dovetail.model.frozen import EMPTY, FrozenDict
from dovetail.model.kube.pod import Pod
from dovetail.model.kube.requirements import Requirements
from dovetail.model.kube.resources import Resources
from dovetail.model.kube.taints import Taint


class Constraint(StrEnum):
    """What ruled a NodePool (or the cluster as a whole) out for a pod."""

    TAINT = "taint"
    REQUIREMENT = "requirement"
    RESOURCES = "resources"
    OFFERING = "offering"
    MIN_VALUES = "min-values"
    LIMITS = "limits"
    SPREAD = "topology-spread"
    AFFINITY = "pod-affinity"
    ANTI_AFFINITY = "pod-anti-affinity"
    HOST_PORT = "host-port"
    VOLUME = "volume"
    DEVICES = "devices"
    INVALID = "invalid-pod"
    NO_POOL = "no-nodepool"
    POOL_NOT_READY = "nodepool-not-ready"


class Refusal(msgspec.Struct, frozen=True):
    """Why one NodePool has no node for a pod."""

    nodepool: str
    """Empty: the reason lies with the pod, not with any pool."""
    constraint: Constraint
    message: str
    """What ruled it out, and how close it came ("would fit if …")."""


class Unplaced(msgspec.Struct, frozen=True):
    """A pod that gets no node, and why."""

    pod: Pod
    refusals: tuple[Refusal, ...]


class PlannedNode(msgspec.Struct, frozen=True, kw_only=True):
    """One NodeClaim that would be made."""

    name: str
    """Deterministic; ``<pool>-<number>``."""
    nodepool: str
    instance_types: Sequence[InstanceType]
    """All that would do, cheapest first; the first is the one to expect."""
    offering: Offering
    """The cheapest way to get the first type."""
    pods: Sequence[Pod]
    requirements: Requirements
    """Of the claim: without hostname and simulation-only keys."""
    requested: Resources
    """Of its pods and of the DaemonSets that come along."""
    daemon_requests: Resources
    labels: FrozenDict[str, str] = EMPTY
    taints: tuple[Taint, ...] = ()
    startup_taints: tuple[Taint, ...] = ()
    min_values_relaxed: bool = False
    reservation_ids: tuple[str, ...] = ()

    @property
    def instance_type(self) -> InstanceType:
        return self.instance_types[0]

    @property
    def price(self) -> float:
        return self.offering.price


class ExistingPlacement(msgspec.Struct, frozen=True):
    """Pods that an existing node takes."""

    node: str
    pods: Sequence[Pod]


class Plan(msgspec.Struct, frozen=True):
    """Which nodes these pods would get."""

    nodes: tuple[PlannedNode, ...] = ()
    existing: tuple[ExistingPlacement, ...] = ()
    unplaced: tuple[Unplaced, ...] = ()

    @property
    def price(self) -> float:
        """USD per hour of all new nodes."""
        return sum(node.price for node in self.nodes)
