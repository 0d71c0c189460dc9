"""A cluster that was bought for more pods than it has now, and what becomes of it."""

import random

from msgspec.structs import replace

from bench.mixes import deployments
from dovetail.core.disruption.candidates import Candidate
from dovetail.core.disruption.command import Move
from dovetail.core.disruption.context import View
from dovetail.core.scheduling.solver import solve
from dovetail.model import labels as label_keys
from dovetail.model.frozen import FrozenDict
from dovetail.model.karpenter.nodeclaim import NodeClaim
from dovetail.model.karpenter.nodepool import NodePool
from dovetail.model.kube.pod import Owner, Phase, Pod, Spread
from dovetail.model.kube.resources import CPU, MEMORY, Resources
from dovetail.model.kube.selectors import LabelSelector
from dovetail.model.node import Node, NodeObject
from dovetail.model.plan import PlannedNode
from dovetail.model.snapshot import ClusterSnapshot

PODS_PER_NODE = 23.0
"""How many pods of the mix a node holds, on the average, when the fleet is bought for them."""


class ThinnedCluster:
    """Nodes and who runs on them, after some of the pods have gone."""

    def __init__(
        self, nodes: int, pods: int, keep: float, seed: int, *, spread: bool = False
    ) -> None:
        """Buy the fleet; with ``spread`` every other Deployment is spread over zones."""
        before = round(pods / keep)
        mix = deployments(before, seed)
        if spread:
            mix = replace(mix, pending=tuple(map(_spread, mix.pending)))
        # With pods of other sizes the fleet has as many nodes as are wanted.
        factor = nodes * PODS_PER_NODE / before
        plan = solve(_scaled(mix, factor))
        mix = _scaled(mix, factor * nodes / len(plan.nodes))
        self._mix = mix
        self._pool: NodePool = mix.node_pools[0]
        self._count = 0
        self.nodes: dict[str, Node] = {}
        self.prices: dict[str, float] = {}
        for planned in solve(mix).nodes:
            self._add(planned)
        every = [(name, pod) for name, node in self.nodes.items() for pod in node.pods]
        left = random.Random(seed).sample(range(len(every)), min(pods, len(every)))
        kept: dict[str, list[Pod]] = {name: [] for name in self.nodes}
        for index in sorted(left):
            name, pod = every[index]
            kept[name].append(pod)
        for name, some in kept.items():
            self.nodes[name] = replace(self.nodes[name], pods=tuple(some))

    @property
    def price(self) -> float:
        """USD per hour."""
        return sum(self.prices.values())

    @property
    def pods(self) -> tuple[Pod, ...]:
        return tuple(pod for node in self.nodes.values() for pod in node.pods)

    def afresh(self) -> ClusterSnapshot:
        """Return the same pods as if all of them waited and no node was there."""
        waiting = tuple(replace(pod, node_name="") for pod in self.pods)
        return replace(self._mix, pending=waiting)

    def view(self) -> View:
        """Return what consolidation sees."""
        candidates = tuple(
            Candidate(
                identity=name,
                claim=NodeClaim(name=node.claim, labels=node.labels),
                node=NodeObject(name=name, labels=node.labels),
                pool=self._pool,
                reschedulable=node.pods,
                price=self.prices[name],
            )
            for name, node in self.nodes.items()
        )
        snapshot = replace(self._mix, pending=(), nodes=tuple(self.nodes.values()))
        return View(snapshot=snapshot, candidates=candidates)

    def make(self, move: Move) -> None:
        """Let a move come true."""
        for one in move.removed:
            del self.nodes[one.node.name], self.prices[one.node.name]
        for taken in move.placements:
            node = self.nodes[taken.node]
            arriving = tuple(replace(pod, node_name=taken.node) for pod in taken.pods)
            self.nodes[taken.node] = replace(node, pods=node.pods + arriving)
        for planned in move.replacements:
            self._add(planned)

    def _add(self, planned: PlannedNode) -> None:
        self._count += 1
        name = f"node-{self._count:05}"
        kind, offering = planned.instance_type, planned.offering
        labels = {
            key: min(one.values)
            for key, one in kind.requirements.items()
            if not one.complement and len(one.values) == 1
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
            capacity=kind.capacity,
            allocatable=kind.allocatable,
            pods=tuple(replace(pod, node_name=name, phase=Phase.RUNNING) for pod in planned.pods),
        )
        self.prices[name] = offering.price


def _spread(pod: Pod) -> Pod:
    if int(pod.labels["app"].removeprefix("app-")) % 2:
        return pod
    rule = Spread(topology_key=label_keys.ZONE, selector=LabelSelector(pod.labels))
    return replace(pod, spec=replace(pod.spec, spreads=(rule,)))


def _scaled(mix: ClusterSnapshot, factor: float) -> ClusterSnapshot:
    return replace(mix, pending=tuple(_scaled_pod(pod, factor) for pod in mix.pending))


def _scaled_pod(pod: Pod, factor: float) -> Pod:
    """Give every pod objects of its own, as if it had just been decoded."""
    asked = pod.spec.requests
    requests = Resources(
        {
            **asked,
            CPU: max(10, round(asked[CPU] * factor / 10) * 10),
            MEMORY: max(1, round(asked[MEMORY] * factor / 2**20)) * 2**20,
        }
    )
    owner = pod.owner or Owner("apps/v1", "ReplicaSet", pod.name)
    return replace(pod, owner=owner, spec=replace(pod.spec, requests=requests))
