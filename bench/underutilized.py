"""Running clusters for consolidation: with deleted pods, or taken over from a fewest-nodes plan."""

import random

from msgspec.structs import replace

from bench.mixes import deployments
from dovetail.core.disruption.candidates import Candidate
from dovetail.core.disruption.command import Command
from dovetail.core.disruption.context import DisruptionContext
from dovetail.core.scheduling.plan_cost import get_node_cost
from dovetail.core.scheduling.solver import solve
from dovetail.model import labels as label_keys
from dovetail.model.frozen import FrozenDict
from dovetail.model.karpenter.nodeclaim import NodeClaim
from dovetail.model.karpenter.nodepool import NodePool
from dovetail.model.kube.pod import OwnerReference, Pod, PodPhase, TopologySpreadConstraint
from dovetail.model.kube.resources import CPU, MEMORY, Resources
from dovetail.model.kube.selectors import LabelSelector
from dovetail.model.node import Node, NodeObject
from dovetail.model.plan import PlannedNode
from dovetail.model.settings import Packing, SchedulingSettings
from dovetail.model.snapshot import ClusterSnapshot

PODS_PER_NODE = 23.0
"""Mean number of pods per node of the mix, in a fleet launched for them."""


class RunningCluster:
    """Nodes and their pods, as the commands of consolidation change them."""

    def __init__(self, mix: ClusterSnapshot, packing: Packing = Packing.CHEAPEST) -> None:
        """Launch the nodes of a plan for the pending pods of a mix."""
        self._mix = mix
        self._pool: NodePool = mix.nodepools[0]
        self._count = 0
        self.nodes: dict[str, Node] = {}
        self.prices: dict[str, float] = {}
        for planned in solve(mix, SchedulingSettings(packing=packing)).nodes:
            self._add(planned)

    def delete_pods(self, kept_count: int, seed: int) -> None:
        """Delete pods at random until ``kept_count`` are left."""
        all_pods = [(name, pod) for name, node in self.nodes.items() for pod in node.pods]
        kept_indexes = random.Random(seed).sample(range(len(all_pods)), min(kept_count, len(all_pods)))
        kept: dict[str, list[Pod]] = {name: [] for name in self.nodes}
        for index in sorted(kept_indexes):
            name, pod = all_pods[index]
            kept[name].append(pod)
        for name, node_pods in kept.items():
            self.nodes[name] = replace(self.nodes[name], pods=tuple(node_pods))

    @property
    def price(self) -> float:
        """USD per hour."""
        return sum(self.prices.values())

    @property
    def pods(self) -> tuple[Pod, ...]:
        return tuple(pod for node in self.nodes.values() for pod in node.pods)

    def pending_snapshot(self) -> ClusterSnapshot:
        """Return a snapshot in which all pods are pending and no node exists."""
        pods = tuple(replace(pod, node_name="") for pod in self.pods)
        return replace(self._mix, pending_pods=pods)

    def context(self) -> DisruptionContext:
        """Return the input of consolidation."""
        candidates = tuple(
            Candidate(
                provider_id=name,
                claim=NodeClaim(name=node.claim, labels=node.labels),
                node=NodeObject(name=name, labels=node.labels),
                pool=self._pool,
                reschedulable_pods=node.pods,
                price=self.prices[name],
                node_cost=get_node_cost(self._pool, self._mix.instance_types[self._pool.name], None),
            )
            for name, node in self.nodes.items()
        )
        snapshot = replace(self._mix, pending_pods=(), nodes=tuple(self.nodes.values()))
        return DisruptionContext(snapshot=snapshot, candidates=candidates)

    def execute(self, command: Command) -> None:
        """Execute a disruption command."""
        for candidate in command.candidates:
            del self.nodes[candidate.node.name], self.prices[candidate.node.name]
        for placement in command.placements:
            node = self.nodes[placement.node]
            moved = tuple(replace(pod, node_name=placement.node) for pod in placement.pods)
            self.nodes[placement.node] = replace(node, pods=node.pods + moved)
        for planned in command.replacements:
            self._add(planned)

    def _add(self, planned: PlannedNode) -> None:
        self._count += 1
        name = f"node-{self._count:05}"
        instance_type, offering = planned.instance_type, planned.offering
        labels = {
            key: min(candidate.values)
            for key, candidate in instance_type.requirements.items()
            if not candidate.complement and len(candidate.values) == 1
        }
        labels |= {
            **planned.labels,
            label_keys.ZONE: offering.zone,
            label_keys.CAPACITY_TYPE: offering.capacity_type,
            label_keys.HOSTNAME: name,
        }
        self.nodes[name] = Node(
            name=name,
            claim=name,
            labels=FrozenDict(labels),
            capacity=instance_type.capacity,
            allocatable=instance_type.allocatable,
            pods=tuple(replace(pod, node_name=name, phase=PodPhase.RUNNING) for pod in planned.pods),
        )
        self.prices[name] = offering.price


class UnderutilizedCluster(RunningCluster):
    """A cluster of about a number of nodes, after some pods were deleted."""

    def __init__(self, nodes: int, pods: int, keep: float, seed: int, *, spread: bool = False) -> None:
        """Plan the nodes; with ``spread`` every other Deployment is spread over zones."""
        pods_before = round(pods / keep)
        mix = deployments(pods_before, seed)
        if spread:
            mix = spread_over_zones(mix)
        # Scale the requests so that the fleet has about the requested number of nodes.
        factor = nodes * PODS_PER_NODE / pods_before
        plan = solve(_scale_requests(mix, factor))
        super().__init__(_scale_requests(mix, factor * nodes / len(plan.nodes)))
        self.delete_pods(pods, seed)


def spread_over_zones(mix: ClusterSnapshot) -> ClusterSnapshot:
    """Return a mix in which every other Deployment is spread over zones."""
    return replace(mix, pending_pods=tuple(map(_spread, mix.pending_pods)))


def _spread(pod: Pod) -> Pod:
    if int(pod.labels["app"].removeprefix("app-")) % 2:
        return pod
    rule = TopologySpreadConstraint(topology_key=label_keys.ZONE, selector=LabelSelector(pod.labels))
    return replace(pod, spec=replace(pod.spec, spreads=(rule,)))


def _scale_requests(mix: ClusterSnapshot, factor: float) -> ClusterSnapshot:
    return replace(mix, pending_pods=tuple(_scale_pod(pod, factor) for pod in mix.pending_pods))


def _scale_pod(pod: Pod, factor: float) -> Pod:
    """Return a pod with its own objects, as if it had just been decoded."""
    requests_before = pod.spec.requests
    requests = Resources(
        {
            **requests_before,
            CPU: max(10, round(requests_before[CPU] * factor / 10) * 10),
            MEMORY: max(1, round(requests_before[MEMORY] * factor / 2**20)) * 2**20,
        }
    )
    owner = pod.owner or OwnerReference("apps/v1", "ReplicaSet", pod.name)
    return replace(pod, owner=owner, spec=replace(pod.spec, requests=requests))
