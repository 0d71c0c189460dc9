"""Running clusters for consolidation, and the effect of disruption commands."""

import os
from collections.abc import Collection, Iterable, Sequence
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from dovetail.core.disruption.candidates import Candidate
from dovetail.core.disruption.command import Command
from dovetail.core.disruption.context import DisruptionContext
from dovetail.core.disruption.simulation import SimulationOutcome
from dovetail.core.pod.eligibility import is_reschedulable
from dovetail.core.scheduling.plan_cost import get_node_cost
from dovetail.core.scheduling.solver import solve
from dovetail.model import labels as label_keys
from dovetail.model.cloud.instance_type import InstanceType
from dovetail.model.karpenter.nodeclaim import NodeClaim
from dovetail.model.kube.pod import OwnerReference, Pod, PodSpec
from dovetail.model.kube.resources import sum_resources
from dovetail.model.node import Node, NodeObject
from dovetail.model.plan import Plan
from dovetail.model.settings import Packing, SchedulingSettings
from dovetail.model.snapshot import ClusterSnapshot
from tests.support.scheduling.builders import a_node
from tests.support.scheduling.instance_types import ON_DEMAND, Z1
from tests.support.scheduling.plans import as_node, bound, settled
from tests.support.scheduling.strategies import clusters

LONG = int(os.environ.get("DOVETAIL_ATTACK", "0"))
attack = settings(
    max_examples=LONG or 25,
    derandomize=not LONG,
    database=None,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
"""Settings of property tests: quick and repeatable, or ``DOVETAIL_ATTACK`` other examples."""


OWNER = OwnerReference("apps/v1", "ReplicaSet", "web", "uid-web")


def a_pool_node(
    name: str,
    instance_type: InstanceType,
    pods: Iterable[Pod] = (),
    *,
    zone: str = Z1,
    capacity_type: str = ON_DEMAND,
    pool: str = "default",
    **more: Any,
) -> Node:
    """Return a node of an instance type of its NodePool.

    Pods without an owner get a ReplicaSet: bare pods move for a higher saving only.
    """
    node = a_node(
        name,
        pool=pool,
        zone=zone,
        capacity_type=capacity_type,
        labels={label_keys.INSTANCE_TYPE: instance_type.name},
        pods=[pod if pod.owner is not None else replace(pod, owner=OWNER) for pod in pods],
        **more,
    )
    return replace(node, capacity=instance_type.capacity, allocatable=instance_type.allocatable)


def price_of(node: Node, snapshot: ClusterSnapshot) -> float:
    """Return the price of a node by its labels; 0 if it is unknown."""
    for instance_type in snapshot.instance_types.get(node.pool, ()):
        if instance_type.name == node.labels.get(label_keys.INSTANCE_TYPE):
            location = (node.labels.get(label_keys.ZONE), node.labels.get(label_keys.CAPACITY_TYPE))
            for offering in instance_type.offerings:
                if (offering.zone, offering.capacity_type) == location:
                    used = sum_resources(pod.spec.requests for pod in node.pods)
                    return offering.price + instance_type.price_surplus(used)
    return 0.0


def candidates_of(snapshot: ClusterSnapshot) -> tuple[Candidate, ...]:
    """Return all nodes of NodePools as candidates."""
    pools = {pool.name: pool for pool in snapshot.nodepools}
    return tuple(
        Candidate(
            provider_id=node.name,
            claim=NodeClaim(name=node.claim or node.name, labels=node.labels),
            node=NodeObject(name=node.name, labels=node.labels),
            pool=pools[node.pool],
            reschedulable_pods=tuple(pod for pod in node.pods if is_reschedulable(pod)),
            price=price_of(node, snapshot),
            node_cost=get_node_cost(pools[node.pool], snapshot.instance_types.get(node.pool, ()), None),
        )
        for node in snapshot.nodes
        if node.pool in pools and node.initialized and not node.deleting
    )


def context_of(snapshot: ClusterSnapshot, excluded: Collection[str] = ()) -> DisruptionContext:
    return DisruptionContext(
        snapshot=snapshot, candidates=candidates_of(snapshot), excluded_targets=frozenset(excluded)
    )


def leaving(snapshot: ClusterSnapshot, names: Collection[str]) -> ClusterSnapshot:
    """Return the cluster with some nodes being deleted."""
    nodes = tuple(replace(node, deleting=True) if node.name in names else node for node in snapshot.nodes)
    return replace(snapshot, nodes=nodes)


def as_plan(result: SimulationOutcome | Command) -> Plan:
    """Convert a result to a plan for the checker."""
    if isinstance(result, Command):
        return Plan(result.replacements, result.placements)
    return Plan(result.new_nodes, result.placements, result.unschedulable)


def after(snapshot: ClusterSnapshot, commands: Iterable[Command]) -> ClusterSnapshot:
    """Return the cluster after commands, one after the other."""
    pools = {pool.name: pool for pool in snapshot.nodepools}
    nodes = {node.name: node for node in snapshot.nodes}
    for command in commands:
        for candidate in command.candidates:
            del nodes[candidate.node.name]
        for taken in command.placements:
            node = nodes[taken.node]
            more = tuple(bound(pod, node.name) for pod in taken.pods)
            nodes[node.name] = replace(node, pods=node.pods + more)
        for planned in command.replacements:
            name = f"for-{command.candidates[0].node.name}-{planned.name}"
            nodes[name] = as_node(planned, pools[planned.nodepool], name)
    return replace(snapshot, nodes=tuple(nodes.values()))


def cost(snapshot: ClusterSnapshot) -> float:
    """Return USD per hour of all nodes."""
    return sum(price_of(node, snapshot) for node in snapshot.nodes)


def without_pods(snapshot: ClusterSnapshot, removed: Collection[int]) -> ClusterSnapshot:
    """Remove the pods with these numbers."""
    nodes, number = [], 0
    for node in snapshot.nodes:
        kept = []
        for pod in node.pods:
            if number not in removed or not is_reschedulable(pod):
                kept.append(pod)
            number += 1
        nodes.append(replace(node, pods=tuple(kept)))
    return replace(snapshot, nodes=tuple(nodes))


@st.composite
def running_clusters(draw: st.DrawFn, *, most: int = 6) -> ClusterSnapshot:
    """Return an idle cluster that was launched for more pods than it has now."""
    before = draw(clusters(most=most))
    before = replace(before, nodes=tuple(node for node in before.nodes if not node.deleting))
    packing = draw(st.sampled_from(Packing))
    plan = solve(before, SchedulingSettings(packing=packing))
    removed = draw(st.sets(st.integers(0, 30), max_size=15))
    return without_pods(settled(before, plan), removed)


def plain(snapshot: ClusterSnapshot) -> ClusterSnapshot:
    """Return the cluster without inter-pod rules and limits."""
    nodes = tuple(
        replace(node, pods=tuple(replace(pod, spec=_simple_spec(pod.spec)) for pod in node.pods))
        for node in snapshot.nodes
    )
    pools = tuple(replace(pool, limits=None) for pool in snapshot.nodepools)
    return replace(snapshot, nodes=nodes, nodepools=pools)


def _simple_spec(spec: PodSpec) -> PodSpec:
    return PodSpec(
        requests=spec.requests,
        node_selector=spec.node_selector,
        node_terms=spec.node_terms[:1],
        tolerations=spec.tolerations,
    )


@st.composite
def some_of(draw: st.DrawFn, names: Sequence[str]) -> list[str]:
    return draw(st.lists(st.sampled_from(names), min_size=1, max_size=3, unique=True))
