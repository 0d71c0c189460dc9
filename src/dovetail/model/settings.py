"""Settings of scheduling, batching, interruption handling and consolidation.

Names and defaults are Karpenter's unless a field says otherwise.
"""

from datetime import timedelta
from enum import StrEnum

import msgspec

from dovetail.model.cloud.cpu_credits import BurstablePolicy
from dovetail.model.kube.pod import TopologySpreadConstraint


class PreferencePolicy(StrEnum):
    """Treatment of preferences: preferred terms and ScheduleAnyway."""

    RESPECT = "Respect"
    IGNORE = "Ignore"


class MinValuesPolicy(StrEnum):
    """Treatment of minValues that cannot be met."""

    STRICT = "Strict"
    BEST_EFFORT = "BestEffort"


class Packing(StrEnum):
    """The quantity that a plan minimizes."""

    CHEAPEST = "cheapest"
    """USD per hour; the default."""
    FEWEST = "fewest"
    """Number of nodes, like Karpenter: no new node while the pod fits an existing one."""


MIN_NODE_MEMORY = 128 << 20
"""Bytes. A t4g.nano leaves 15 MiB to pods, a t3.nano 74 MiB, any other type more than this."""


CLASS_STEPS = 40_000
"""Steps of the solver to place one class of pods; a step takes about 10 microseconds."""


class SchedulingSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of the scheduler.

    Not in Karpenter: packing, node cost, fewer nodes, minimum memory of a node, steps.
    """

    preference_policy: PreferencePolicy = PreferencePolicy.RESPECT
    min_values_policy: MinValuesPolicy = MinValuesPolicy.STRICT
    packing: Packing = Packing.CHEAPEST
    min_node_memory: int = MIN_NODE_MEMORY
    """Bytes left for pods after DaemonSets; types with less are used if no other fits."""
    node_cost: float | None = None
    """USD per hour of each node beyond its instance; None: from the node class.

    An annotation of the NodePool takes precedence.
    """
    fewer_nodes_tolerance: float = 0.02
    """Share by which a plan with half the nodes may be more expensive than the cheapest."""
    max_instance_types: int = 600
    """Maximum number of instance types in the requirements of a NodeClaim."""
    reserved_capacity: bool = True
    """Use capacity reservations (feature gate ReservedCapacity)."""
    class_steps: int = CLASS_STEPS
    isolated_steps: int = 100_000
    """Steps for all pods with complex specs of one plan, so that they take about a second."""
    default_spreads: tuple[TopologySpreadConstraint, ...] = ()
    """Default constraints of kube-scheduler, for pods without spread constraints."""
    unsupported_provisioners: frozenset[str] = frozenset()
    """StorageClass provisioners whose pods are not provisioned for."""
    unsupported_topology_keys: frozenset[str] = frozenset()
    """Topology keys whose pods are not provisioned for."""


class FeatureGates(msgspec.Struct, frozen=True, kw_only=True):
    """Feature gates; names and defaults are Karpenter's."""

    NodeRepair: bool = False
    ReservedCapacity: bool = True
    SpotToSpotConsolidation: bool = False
    NodeOverlay: bool = False
    StaticCapacity: bool = False
    CapacityBuffer: bool = False
    NodeClassCEL: bool = False
    """Evaluate expressions in ``spec.kubelet`` of EC2NodeClasses."""
    NominatedNodeName: bool = True
    """Not in Karpenter: write ``status.nominatedNodeName`` of pods that have a NodeClaim."""
    HostGroupReplacement: bool = False
    """Not in Karpenter: replace a node that has no room for pods that must share its host."""


class BatchSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Batch window: time that the provisioner waits for more pending pods."""

    idle_duration: timedelta = timedelta(seconds=1)
    """The batch ends when no new pod arrives for this long."""
    max_duration: timedelta = timedelta(seconds=3)
    """Upper limit of the batch window. Karpenter: 10 s.

    kube-scheduler marks the pods of a large scale-up over many seconds. The first must not
    wait for the last: pods that come later fill the nodes that are already starting.
    """
    expedited_duration: timedelta = timedelta(milliseconds=100)
    """Window for pods that were batched before and lost their NodeClaim."""
    scheduling_timeout: timedelta = timedelta(seconds=10)
    """Time after which a pass considers no more pods; the next one continues. Karpenter: 1 min."""


class InterruptionSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of interruption handling."""

    act_on_rebalance: bool = False
    """Drain a spot node on a rebalance recommendation, not only on an interruption."""


class ConsolidationSettings(msgspec.Struct, frozen=True, kw_only=True):
    """When consolidation is worth the disruption."""

    spot_to_spot: bool = False
    """Replace spot nodes with cheaper spot nodes (gate SpotToSpotConsolidation)."""
    min_spot_types: int = 15
    """Minimum number of cheaper instance types to replace one spot node with spot."""
    balanced_k: float = 2.0
    """Policy Balanced: the command's share of the savings must be at least 1/k of its
    share of the disruption."""
    min_saving: float = 0.0
    """Minimum saving of a command, in USD per hour."""
    min_saving_per_pod: float = 0.0005
    """Minimum saving in USD per hour for each evicted pod; 0 accepts any saving."""
    min_saving_share: float = 0.35
    """Minimum saving as a share of what the evicted pods cost.

    Six times that for tasks. It falls with the age of nodes, from two days on. 0 accepts any
    saving."""
    max_replacements: int | None = None
    """Maximum number of replacements of a command; None: no limit. Karpenter uses 1."""


class ControllerSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of ``dovetail run`` that decide about nodes."""

    gates: FeatureGates = FeatureGates()
    scheduling: SchedulingSettings = SchedulingSettings()
    consolidation: ConsolidationSettings = ConsolidationSettings()
    burstable: BurstablePolicy = BurstablePolicy.BASELINE
