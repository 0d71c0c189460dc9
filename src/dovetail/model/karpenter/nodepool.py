"""NodePool: which nodes may be bought, and how they are given back."""

from datetime import timedelta
from enum import StrEnum

import msgspec

from dovetail.model import labels as label_keys
from dovetail.model.frozen import EMPTY, FrozenDict
from dovetail.model.kube.conditions import NO_CONDITIONS, Conditions
from dovetail.model.kube.requirements import Requirement, Requirements, RequirementSpec
from dovetail.model.kube.resources import Resources
from dovetail.model.kube.taints import Taint


class NodeClassRef(msgspec.Struct, frozen=True, cache_hash=True):
    """Points at the object that holds the cloud's details."""

    group: str = "karpenter.k8s.aws"
    kind: str = "EC2NodeClass"
    name: str = "default"

    @property
    def supported(self) -> bool:
        """Whether it is of the kind that we can buy from; all else is somebody else's."""
        return (self.group, self.kind) == ("karpenter.k8s.aws", "EC2NodeClass")

    @property
    def label(self) -> tuple[str, str]:
        """The label by which nodes of this class are known."""
        return (f"{self.group}/{self.kind.lower()}", self.name)


class ConsolidationPolicy(StrEnum):
    """Which nodes consolidation may touch."""

    WHEN_EMPTY = "WhenEmpty"
    WHEN_EMPTY_OR_UNDERUTILIZED = "WhenEmptyOrUnderutilized"
    BALANCED = "Balanced"


class Budget(msgspec.Struct, frozen=True):
    """How many nodes may be disrupted at once."""

    nodes: str = "10%"
    schedule: str | None = None
    duration: timedelta | None = None
    reasons: tuple[str, ...] = ()


class Disruption(msgspec.Struct, frozen=True):
    """How nodes are given back; ``consolidate_after`` None means never."""

    consolidate_after: timedelta | None = timedelta()
    policy: ConsolidationPolicy = ConsolidationPolicy.WHEN_EMPTY_OR_UNDERUTILIZED
    budgets: tuple[Budget, ...] = (Budget(),)


class NodeTemplate(msgspec.Struct, frozen=True, kw_only=True):
    """What every node of a pool is made from."""

    labels: FrozenDict[str, str] = EMPTY
    annotations: FrozenDict[str, str] = EMPTY
    requirements: tuple[RequirementSpec, ...] = ()
    taints: tuple[Taint, ...] = ()
    startup_taints: tuple[Taint, ...] = ()
    node_class: NodeClassRef = NodeClassRef()
    expire_after: timedelta | None = timedelta(hours=720)
    """None: never."""
    termination_grace_period: timedelta | None = None


class NodePool(msgspec.Struct, frozen=True, kw_only=True):
    """A pool of nodes that are bought alike."""

    name: str
    uid: str = ""
    template: NodeTemplate = NodeTemplate()
    disruption: Disruption = Disruption()
    limits: Resources | None = None
    weight: int = 0
    replicas: int | None = None
    """Set: a static pool, which the pod scheduler does not use."""
    ready: bool = True
    deleting: bool = False
    annotations: FrozenDict[str, str] = EMPTY
    """Of the pool itself, not of its nodes."""
    generation: int = 0
    resource_version: str = ""
    conditions: Conditions = NO_CONDITIONS
    node_class_generation: int = 0
    """Of its node class when the pool's registration health was last reset."""
    used: Resources | None = None
    """``status.resources``, as last written."""
    node_count: int = 0

    def requirements(self) -> Requirements:
        """Return what holds for every node of this pool, its own labels included."""
        key, value = self.template.node_class.label
        return Requirements.of_specs(self.template.requirements).and_also(
            [
                *Requirements.of_labels(self.template.labels).values(),
                Requirement.one_of(label_keys.NODEPOOL, self.name),
                Requirement.one_of(key, value),
            ]
        )


def in_order_of_preference(pools: tuple[NodePool, ...]) -> list[NodePool]:
    """Sort heaviest first; equal weights by name, descending as upstream does."""
    by_name = sorted(pools, key=lambda pool: pool.name, reverse=True)
    return sorted(by_name, key=lambda pool: -pool.weight)
