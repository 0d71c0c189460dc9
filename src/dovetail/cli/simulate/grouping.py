"""What is alike in a plan, told once: nodes with the same pods, pods refused alike."""

from collections import Counter
from collections.abc import Iterable, Sequence

import msgspec

from dovetail.model.kube.pod import Pod
from dovetail.model.kube.resources import Resources, total
from dovetail.model.plan import ExistingPlacement, Plan, PlannedNode, Refusal

MANY_LINES = 40
"""Beyond this, nodes of one type are told together whatever runs on them."""

Composition = tuple[tuple[str, int], ...]
"""Workload → how many of its pods, most first."""


class NodeGroup(msgspec.Struct, frozen=True, kw_only=True):
    """Nodes that were bought alike."""

    nodes: Sequence[PlannedNode]

    @property
    def first(self) -> PlannedNode:
        return self.nodes[0]

    @property
    def price(self) -> float:
        return sum(node.price for node in self.nodes)

    @property
    def requested(self) -> Resources:
        return total(node.requested for node in self.nodes)

    @property
    def allocatable(self) -> Resources:
        return total(node.instance_type.allocatable for node in self.nodes)

    @property
    def pods(self) -> Composition:
        return composition(pod for node in self.nodes for pod in node.pods)

    @property
    def zones(self) -> Composition:
        """Zone → how many of the nodes are there, by name."""
        return tuple(sorted(Counter(node.offering.zone for node in self.nodes).items()))

    @property
    def alternatives(self) -> list[str]:
        """Other types that would do for every one of the nodes, cheapest first."""
        # Nodes often share one sequence of hundreds of types: look at each once.
        distinct = {id(node.instance_types): node.instance_types for node in self.nodes}.values()
        in_all = set.intersection(*({one.name for one in types} for types in distinct))
        return [one.name for one in self.first.instance_types[1:] if one.name in in_all]


class RefusedGroup(msgspec.Struct, frozen=True, kw_only=True):
    """Pods that no node would take, for the same reasons."""

    pods: Sequence[Pod]
    refusals: tuple[Refusal, ...]


def alike_nodes(nodes: Iterable[PlannedNode]) -> list[NodeGroup]:
    """Group nodes that are told in one line, dearest group first."""
    nodes = tuple(nodes)
    fine = _group(nodes, by_pods=True)
    groups = fine if len(fine) <= MANY_LINES else _group(nodes, by_pods=False)
    return sorted(groups, key=lambda group: (-group.price, group.first.name))


def alike_existing(nodes: Iterable[ExistingPlacement]) -> list[list[ExistingPlacement]]:
    """Group nodes that get the same pods, in the plan's order."""
    groups: dict[Composition, list[ExistingPlacement]] = {}
    for node in nodes:
        groups.setdefault(composition(node.pods), []).append(node)
    return list(groups.values())


def alike_refusals(plan: Plan) -> list[RefusedGroup]:
    """Group pods that were refused for the same reasons, in the plan's order."""
    groups: dict[tuple[Refusal, ...], list[Pod]] = {}
    for one in plan.unplaced:
        groups.setdefault(one.refusals, []).append(one.pod)
    return [RefusedGroup(pods=pods, refusals=refusals) for refusals, pods in groups.items()]


def composition(pods: Iterable[Pod]) -> Composition:
    """Count pods by the workload they belong to."""
    counts = Counter(workload(pod) for pod in pods)
    return tuple(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def workload(pod: Pod) -> str:
    """Return what a person calls it: the Deployment's name rather than the pod's."""
    if pod.owner is None:
        name = pod.name
    else:
        # A live Deployment's pods belong to a ReplicaSet named <deployment>-<hash>.
        name = pod.owner.name.removesuffix(f"-{pod.labels.get('pod-template-hash', '')}")
    return name if pod.namespace == "default" else f"{pod.namespace}/{name}"


def _group(nodes: Iterable[PlannedNode], *, by_pods: bool) -> list[NodeGroup]:
    groups: dict[tuple[object, ...], list[PlannedNode]] = {}
    for node in nodes:
        offering = node.offering
        key: tuple[object, ...] = (
            node.nodepool,
            node.instance_type.name,
            offering.capacity_type,
            offering.price,
        )
        if by_pods:
            key = (*key, composition(node.pods), node.requested)
        groups.setdefault(key, []).append(node)
    return [NodeGroup(nodes=tuple(group)) for group in groups.values()]
