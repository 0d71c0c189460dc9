"""NodePool: template, limits and disruption settings of a group of nodes."""

from collections.abc import Mapping
from datetime import timedelta
from enum import StrEnum

import msgspec

from dovetail.model import labels as label_keys
from dovetail.model.frozen import EMPTY, FrozenDict
from dovetail.model.kube.conditions import NO_CONDITIONS, Conditions
from dovetail.model.kube.requirements import Requirement, Requirements, RequirementSpec
from dovetail.model.kube.resources import Resources
from dovetail.model.kube.taints import Taint

MAX_NODE_COST = 10.0
"""USD per hour; more is probably a monthly amount."""


class NodeClassRef(msgspec.Struct, frozen=True, cache_hash=True):
    """Reference to a node class."""

    group: str = "karpenter.k8s.aws"
    kind: str = "EC2NodeClass"
    name: str = "default"

    @property
    def is_supported(self) -> bool:
        """True if it refers to an EC2NodeClass; others belong to other providers."""
        return (self.group, self.kind) == ("karpenter.k8s.aws", "EC2NodeClass")

    @property
    def label(self) -> tuple[str, str]:
        """Label of nodes launched from this node class: (key, value)."""
        return (f"{self.group}/{self.kind.lower()}", self.name)


class ConsolidationPolicy(StrEnum):
    """Nodes that consolidation considers."""

    WHEN_EMPTY = "WhenEmpty"
    WHEN_EMPTY_OR_UNDERUTILIZED = "WhenEmptyOrUnderutilized"
    BALANCED = "Balanced"


class DisruptionReason(StrEnum):
    """Reason for a voluntary disruption; budgets can be limited to some of them."""

    UNDERUTILIZED = "Underutilized"
    EMPTY = "Empty"
    DRIFTED = "Drifted"


class Budget(msgspec.Struct, frozen=True):
    """Maximum number of nodes of a NodePool that are disrupted at the same time."""

    nodes: str = "10%"
    """Number or percentage of the NodePool's nodes; a percentage is rounded up."""
    schedule: str | None = None
    """Cron schedule, in UTC, at which the budget becomes active; None: always active."""
    duration: timedelta | None = None
    """Duration for which the budget stays active after each time of the schedule."""
    reasons: tuple[str, ...] = ()
    """Values of DisruptionReason that the budget limits; empty: all of them."""


class Disruption(msgspec.Struct, frozen=True):
    """When nodes of a NodePool may be disrupted, and how many at once."""

    consolidate_after: timedelta | None = timedelta()
    """Time without pod changes before a node is consolidated; None: never."""
    policy: ConsolidationPolicy = ConsolidationPolicy.WHEN_EMPTY_OR_UNDERUTILIZED
    budgets: tuple[Budget, ...] = (Budget(),)


class NodeTemplate(msgspec.Struct, frozen=True, kw_only=True):
    """``spec.template`` of a NodePool: what every NodeClaim of it starts with."""

    labels: FrozenDict[str, str] = EMPTY
    annotations: FrozenDict[str, str] = EMPTY
    requirements: tuple[RequirementSpec, ...] = ()
    taints: tuple[Taint, ...] = ()
    startup_taints: tuple[Taint, ...] = ()
    node_class: NodeClassRef = NodeClassRef()
    expire_after: timedelta | None = timedelta(hours=720)
    """Maximum age of a node; None: never expires."""
    termination_grace_period: timedelta | None = None
    """Maximum duration of draining; None: no limit."""


class NodePool(msgspec.Struct, frozen=True, kw_only=True):
    """A karpenter.sh/v1 NodePool."""

    name: str
    uid: str = ""
    template: NodeTemplate = NodeTemplate()
    disruption: Disruption = Disruption()
    limits: Resources | None = None
    weight: int = 0
    replicas: int | None = None
    """Number of nodes of a static NodePool; None: a dynamic NodePool."""
    ready: bool = True
    deleting: bool = False
    annotations: FrozenDict[str, str] = EMPTY
    """Annotations of the NodePool itself, not of its nodes."""
    generation: int = 0
    resource_version: str = ""
    conditions: Conditions = NO_CONDITIONS
    node_class_generation: int = 0
    """``status.nodeClassObservedGeneration``: generation of the node class when
    NodeRegistrationHealthy was last reset."""
    resources: Resources | None = None
    """``status.resources``: total capacity of its nodes, as last written."""
    node_count: int = 0
    """``status.nodes``, as last written."""

    @property
    def node_cost(self) -> float | None:
        """Return the cost of a node beyond its instance, in USD per hour; None: not set."""
        return parse_node_cost(self.annotations.get(label_keys.NODE_COST_ANNOTATION, ""))

    def requirements(self) -> Requirements:
        """Return the requirements of every node of the NodePool, its labels included."""
        key, value = self.template.node_class.label
        return Requirements.from_specs(self.template.requirements).intersection(
            [
                *Requirements.from_labels(self.template.labels).values(),
                Requirement.one_of(label_keys.NODEPOOL, self.name),
                Requirement.one_of(key, value),
            ]
        )


def parse_node_cost(text: str) -> float | None:
    """Return USD per hour of an annotation; None if it is no number from 0 to 10."""
    try:
        cost = float(text)
    except ValueError:
        return None
    return cost if 0 <= cost <= MAX_NODE_COST else None


def find_node_cost_error(annotations: Mapping[str, str]) -> str:
    """Return what is wrong with the annotation for the node cost; empty: nothing."""
    text = annotations.get(label_keys.NODE_COST_ANNOTATION)
    if text is None or parse_node_cost(text) is not None:
        return ""
    amount = f"an amount from 0 to {MAX_NODE_COST:g} USD per hour"
    return f'{text!r} is not {amount}; 15 USD a month are "0.0205"'


def sort_by_weight(pools: tuple[NodePool, ...]) -> list[NodePool]:
    """Sort by descending weight; equal weights by descending name, as Karpenter does."""
    by_name = sorted(pools, key=lambda pool: pool.name, reverse=True)
    return sorted(by_name, key=lambda pool: -pool.weight)
