"""How placing decides, where users may choose."""

from enum import StrEnum

import msgspec

from dovetail.model.kube.pod import Spread


class Preferences(StrEnum):
    """Whether wishes (preferred terms, ScheduleAnyway) count."""

    RESPECT = "Respect"
    IGNORE = "Ignore"


class MinValues(StrEnum):
    """Whether a NodePool's minValues may be undercut when they cannot be met."""

    STRICT = "Strict"
    BEST_EFFORT = "BestEffort"


class Packing(StrEnum):
    """What a plan minimises."""

    CHEAPEST = "cheapest"
    """Dollars per hour (the default)."""
    FEWEST = "fewest"
    """Nodes, as the reference packs: never open one while a pod fits an open one."""


ROOT_VOLUME_PER_HOUR = 20 * 0.08 / 730
"""A node's 20 GiB gp3 root volume in us-east-1: what a node costs beside its instance."""


class SchedulingSettings(msgspec.Struct, frozen=True, kw_only=True):
    """One value with every choice; but for packing, the defaults are the reference's."""

    preferences: Preferences = Preferences.RESPECT
    min_values: MinValues = MinValues.STRICT
    packing: Packing = Packing.CHEAPEST
    node_cost: float = ROOT_VOLUME_PER_HOUR
    """USD per hour charged for each node when fleets are compared; not shown as price."""
    max_instance_types: int = 600
    reserved_capacity: bool = True
    default_spreads: tuple[Spread, ...] = ()
    """For pods without spread constraints of their own (the scheduler's configuration)."""
    unsupported_provisioners: frozenset[str] = frozenset()
    unsupported_topology_keys: frozenset[str] = frozenset()


class Gates(msgspec.Struct, frozen=True, kw_only=True):
    """What is switched on and off by name; names and defaults are the reference's."""

    NodeRepair: bool = False
    ReservedCapacity: bool = True
    SpotToSpotConsolidation: bool = False
    NodeOverlay: bool = False
    StaticCapacity: bool = False
    CapacityBuffer: bool = False
    NominatedNodeName: bool = True
    """Ours: kube-scheduler is told for which pods a node was bought."""


class InterruptionSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How the cloud's warnings are taken."""

    act_on_rebalance: bool = False
    """Drain a spot machine already when AWS recommends it, not first at the interruption."""


class ConsolidationSettings(msgspec.Struct, frozen=True, kw_only=True):
    """When moving pods to cheaper nodes is worth it."""

    spot_to_spot: bool = False
    """Replace spot nodes by cheaper spot nodes (the gate SpotToSpotConsolidation)."""
    spot_types: int = 15
    """A single spot node is replaced by spot only where so many cheaper types would do."""
    balanced_k: float = 2.0
    """Policy Balanced: a move's share of the savings must be at least 1/k of its share of
    the disruption."""
    min_saving: float = 0.0
    """USD per hour that a move must save at least."""
    min_saving_per_cost: float = 0.0005
    """USD per hour that a move must save for each pod that it moves; 0: any saving will do."""
    most_replacements: int | None = None
    """Nodes that one move may buy; None: as many as are cheaper. The reference buys one."""
