"""Plan: result of scheduling, with a reason for each pod that has no node."""

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
    """Constraint that excludes a NodePool, or every NodePool, for a pod."""

    TAINT = "taint"
    REQUIREMENT = "requirement"
    RESOURCES = "resources"
    OFFERING = "offering"
    MIN_VALUES = "min-values"
    LIMITS = "limits"
    TOPOLOGY_SPREAD = "topology-spread"
    POD_AFFINITY = "pod-affinity"
    POD_ANTI_AFFINITY = "pod-anti-affinity"
    HOST_PORT = "host-port"
    VOLUME = "volume"
    DEVICES = "devices"
    INVALID_POD = "invalid-pod"
    COMPLEXITY = "complexity"
    NO_NODEPOOL = "no-nodepool"
    NODEPOOL_NOT_READY = "nodepool-not-ready"


class UnschedulableReason(msgspec.Struct, frozen=True):
    """Why a NodePool cannot provide a node for a pod."""

    nodepool: str
    """Empty if the reason is the pod itself and not a NodePool."""
    constraint: Constraint
    message: str
    """The violated constraint and, where possible, what would satisfy it."""


class UnschedulablePod(msgspec.Struct, frozen=True):
    """A pod without a node, with the reasons per NodePool."""

    pod: Pod
    reasons: tuple[UnschedulableReason, ...]


class PlannedNode(msgspec.Struct, frozen=True, kw_only=True):
    """A NodeClaim that the plan creates."""

    name: str
    """Deterministic: ``<nodepool>-<number>``."""
    nodepool: str
    instance_types: Sequence[InstanceType]
    """All instance types that fit, cheapest first."""
    offering: Offering
    """Cheapest offering of the first instance type."""
    pods: Sequence[Pod]
    requirements: Requirements
    """Requirements of the NodeClaim, without hostname and simulation-only keys."""
    requested: Resources
    """Total requests of its pods and DaemonSet pods."""
    daemon_requests: Resources
    """The part of ``requested`` that belongs to DaemonSet pods."""
    labels: FrozenDict[str, str] = EMPTY
    taints: tuple[Taint, ...] = ()
    startup_taints: tuple[Taint, ...] = ()
    min_values_relaxed: bool = False
    reservation_ids: tuple[str, ...] = ()
    node_cost: float = 0.0
    """USD per hour beyond the instance."""

    @property
    def instance_type(self) -> InstanceType:
        return self.instance_types[0]

    @property
    def expected_cpu(self) -> int:
        """Millicores."""
        return self.instance_type.expected_cpu(self.requested)

    def describe_burstable(self) -> str:
        """Return its CPU credits and why it is burstable; empty: it is not."""
        cpu_credits = self.instance_type.cpu_credits
        return "" if cpu_credits is None else cpu_credits.describe_choice([self.expected_cpu])

    @property
    def surplus_price(self) -> float:
        """USD per hour of surplus CPU credits, if it is burstable."""
        return self.instance_type.price_surplus(self.requested)

    @property
    def price(self) -> float:
        """USD per hour, expected surplus CPU credits included."""
        return self.offering.price + self.surplus_price

    @property
    def cost(self) -> float:
        """USD per hour of instance and node cost."""
        return self.price + self.node_cost


class ExistingPlacement(msgspec.Struct, frozen=True):
    """Pods placed on an existing node."""

    node: str
    pods: Sequence[Pod]


class Plan(msgspec.Struct, frozen=True):
    """Placement of all pending pods: on new nodes, on existing nodes, or nowhere."""

    nodes: tuple[PlannedNode, ...] = ()
    existing: tuple[ExistingPlacement, ...] = ()
    unschedulable: tuple[UnschedulablePod, ...] = ()
    postponed: tuple[Pod, ...] = ()
    """Pods that were not considered because the time or the steps were used up."""
    steps: int = 0
    """Work done for the plan (``core.scheduling.work``)."""

    @property
    def price(self) -> float:
        """USD per hour of the instances of all new nodes."""
        return sum(node.price for node in self.nodes)

    @property
    def node_cost(self) -> float:
        """USD per hour of all new nodes beyond their instances."""
        return sum(node.node_cost for node in self.nodes)

    @property
    def cost(self) -> float:
        """USD per hour of instances and node costs."""
        return self.price + self.node_cost
