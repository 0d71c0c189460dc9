"""Nodes planned in an earlier round, as nodes that a later round finds there."""

from collections.abc import Iterable, Sequence

import msgspec

from dovetail.model import labels as label_keys
from dovetail.model.frozen import FrozenDict
from dovetail.model.kube.pod import Pod
from dovetail.model.kube.requirements import Requirement
from dovetail.model.kube.resources import total
from dovetail.model.node import Node
from dovetail.model.plan import Plan, PlannedNode
from dovetail.model.snapshot import ClusterSnapshot


def bound(node: PlannedNode) -> PlannedNode:
    """Return a planned node that can become nothing but what it is expected to become."""
    only = [
        Requirement.one_of(label_keys.INSTANCE_TYPE, node.instance_type.name),
        Requirement.one_of(label_keys.ZONE, node.offering.zone),
        Requirement.one_of(label_keys.CAPACITY_TYPE, node.offering.capacity_type),
    ]
    return msgspec.structs.replace(
        node,
        instance_types=(node.instance_type,),
        requirements=node.requirements.and_also(only),
    )


def with_bought(snapshot: ClusterSnapshot, nodes: Sequence[PlannedNode]) -> ClusterSnapshot:
    """Return the picture in which these nodes are there, and their pods on them."""
    if not nodes:
        return snapshot
    placed = {pod.key for node in nodes for pod in node.pods}
    old = tuple(
        msgspec.structs.replace(node, pods=tuple(pod for pod in node.pods if pod.key not in placed))
        if any(pod.key in placed for pod in node.pods)
        else node
        for node in snapshot.nodes
    )
    return msgspec.structs.replace(
        snapshot,
        pending=tuple(pod for pod in snapshot.pending if pod.key not in placed),
        nodes=(*old, *map(_as_node, nodes)),
    )


def with_placements(nodes: Iterable[PlannedNode], plan: Plan) -> list[PlannedNode]:
    """Return the nodes with the pods that a later plan puts on them."""
    more = {one.node: one.pods for one in plan.existing}
    return [_holding(node, more[node.name]) if node.name in more else node for node in nodes]


def _holding(node: PlannedNode, pods: Sequence[Pod]) -> PlannedNode:
    return msgspec.structs.replace(
        node,
        pods=(*node.pods, *pods),
        requested=node.requested + total(pod.spec.requests for pod in pods),
    )


def _as_node(planned: PlannedNode) -> Node:
    kind, offering = planned.instance_type, planned.offering
    known = kind.requirements.and_also(offering.requirements().values()).and_also(
        planned.requirements.values()
    )
    labels = {
        key: next(iter(one.values))
        for key, one in known.items()
        if not one.complement and len(one.values) == 1
    }
    return Node(
        name=planned.name,
        claim=planned.name,
        labels=FrozenDict({**labels, **planned.labels, label_keys.NODEPOOL: planned.nodepool}),
        taints=planned.taints,
        startup_taints=planned.startup_taints,
        claim_capacity=kind.capacity,
        claim_allocatable=kind.allocatable,
        registered=False,
        initialized=False,
        pods=tuple(msgspec.structs.replace(pod, node_name=planned.name) for pod in planned.pods),
    )
