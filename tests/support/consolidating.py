"""Running clusters for consolidation, and the world after a move."""

from collections.abc import Collection, Iterable, Sequence
from typing import Any

from hypothesis import strategies as st
from msgspec.structs import replace

from dovetail.core.disruption.candidates import Candidate
from dovetail.core.disruption.command import Move
from dovetail.core.disruption.context import View
from dovetail.core.disruption.simulation import Outcome
from dovetail.core.pod.eligibility import is_reschedulable
from dovetail.core.scheduling.solver import solve
from dovetail.model import labels as label_keys
from dovetail.model.cloud.instance_type import InstanceType
from dovetail.model.karpenter.nodeclaim import NodeClaim
from dovetail.model.kube.pod import Pod, PodSpec
from dovetail.model.node import Node, NodeObject
from dovetail.model.plan import Plan
from dovetail.model.settings import Packing, SchedulingSettings
from dovetail.model.snapshot import ClusterSnapshot
from tests.support.build import a_node
from tests.support.catalog import ON_DEMAND, Z1
from tests.support.outcome import as_node, bound, settled
from tests.support.strategies import clusters


def a_bought_node(
    name: str,
    kind: InstanceType,
    pods: Iterable[Pod] = (),
    *,
    zone: str = Z1,
    capacity_type: str = ON_DEMAND,
    pool: str = "default",
    **more: Any,
) -> Node:
    """A node of a type that the pool can buy."""
    node = a_node(
        name,
        pool=pool,
        zone=zone,
        capacity_type=capacity_type,
        labels={label_keys.INSTANCE_TYPE: kind.name},
        pods=pods,
        **more,
    )
    return replace(node, capacity=kind.capacity, allocatable=kind.allocatable)


def price_of(node: Node, snapshot: ClusterSnapshot) -> float:
    """What a node costs by its labels; 0 where nobody knows."""
    for kind in snapshot.instance_types.get(node.pool, ()):
        if kind.name == node.labels.get(label_keys.INSTANCE_TYPE):
            for one in kind.offerings:
                place = (
                    node.labels.get(label_keys.ZONE),
                    node.labels.get(label_keys.CAPACITY_TYPE),
                )
                if (one.zone, one.capacity_type) == place:
                    return one.price
    return 0.0


def candidates_of(snapshot: ClusterSnapshot) -> tuple[Candidate, ...]:
    """Every node of a pool that could be disrupted."""
    pools = {pool.name: pool for pool in snapshot.node_pools}
    return tuple(
        Candidate(
            identity=node.name,
            claim=NodeClaim(name=node.claim or node.name, labels=node.labels),
            node=NodeObject(name=node.name, labels=node.labels),
            pool=pools[node.pool],
            reschedulable=tuple(pod for pod in node.pods if is_reschedulable(pod)),
            price=price_of(node, snapshot),
        )
        for node in snapshot.nodes
        if node.pool in pools and node.initialized and not node.deleting
    )


def view_of(snapshot: ClusterSnapshot, closed: Collection[str] = ()) -> View:
    return View(snapshot=snapshot, candidates=candidates_of(snapshot), closed=frozenset(closed))


def leaving(snapshot: ClusterSnapshot, names: Collection[str]) -> ClusterSnapshot:
    """The same cluster with some nodes on their way out, as the solver sees it."""
    nodes = tuple(
        replace(node, deleting=True) if node.name in names else node for node in snapshot.nodes
    )
    return replace(snapshot, nodes=nodes)


def as_plan(found: Outcome | Move) -> Plan:
    """An answer as the checker reads it."""
    if isinstance(found, Move):
        return Plan(found.replacements, found.placements)
    return Plan(found.nodes, found.placements, found.unplaced)


def after(snapshot: ClusterSnapshot, moves: Iterable[Move]) -> ClusterSnapshot:
    """The world once moves have come true, one after the other."""
    pools = {pool.name: pool for pool in snapshot.node_pools}
    nodes = {node.name: node for node in snapshot.nodes}
    for move in moves:
        for one in move.removed:
            del nodes[one.node.name]
        for taken in move.placements:
            node = nodes[taken.node]
            more = tuple(bound(pod, node.name) for pod in taken.pods)
            nodes[node.name] = replace(node, pods=node.pods + more)
        for planned in move.replacements:
            name = f"for-{move.removed[0].node.name}-{planned.name}"
            nodes[name] = as_node(planned, pools[planned.nodepool], name)
    return replace(snapshot, nodes=tuple(nodes.values()))


def cost(snapshot: ClusterSnapshot) -> float:
    """USD per hour of all nodes."""
    return sum(price_of(node, snapshot) for node in snapshot.nodes)


def thinned(snapshot: ClusterSnapshot, gone: Collection[int]) -> ClusterSnapshot:
    """Let every pod go whose number is among ``gone``."""
    nodes, number = [], 0
    for node in snapshot.nodes:
        stay = []
        for pod in node.pods:
            if number not in gone or not is_reschedulable(pod):
                stay.append(pod)
            number += 1
        nodes.append(replace(node, pods=tuple(stay)))
    return replace(snapshot, nodes=tuple(nodes))


@st.composite
def running_clusters(draw: st.DrawFn, *, most: int = 6) -> ClusterSnapshot:
    """A cluster at rest that was bought for more pods than it has now."""
    before = draw(clusters(most=most))
    before = replace(before, nodes=tuple(node for node in before.nodes if not node.deleting))
    packing = draw(st.sampled_from(Packing))
    plan = solve(before, SchedulingSettings(packing=packing))
    gone = draw(st.sets(st.integers(0, 30), max_size=15))
    return thinned(settled(before, plan), gone)


def plain(snapshot: ClusterSnapshot) -> ClusterSnapshot:
    """The same cluster with pods that have no ties, and pools without limits."""
    nodes = tuple(
        replace(node, pods=tuple(replace(pod, spec=_untied(pod.spec)) for pod in node.pods))
        for node in snapshot.nodes
    )
    pools = tuple(replace(pool, limits=None) for pool in snapshot.node_pools)
    return replace(snapshot, nodes=nodes, node_pools=pools)


def _untied(spec: PodSpec) -> PodSpec:
    return PodSpec(
        requests=spec.requests,
        node_selector=spec.node_selector,
        node_terms=spec.node_terms[:1],
        tolerations=spec.tolerations,
    )


@st.composite
def some_of(draw: st.DrawFn, names: Sequence[str]) -> list[str]:
    return draw(st.lists(st.sampled_from(names), min_size=1, max_size=3, unique=True))
