"""Snapshot updates: planned nodes of one round become existing nodes of the next."""

from collections.abc import Iterable, Sequence

import msgspec

from dovetail.model import labels as label_keys
from dovetail.model.frozen import FrozenDict
from dovetail.model.kube.pod import Pod
from dovetail.model.kube.requirements import Requirement
from dovetail.model.kube.resources import NO_RESOURCES, sum_resources
from dovetail.model.node import Node
from dovetail.model.plan import ExistingPlacement, Plan, PlannedNode
from dovetail.model.snapshot import ClusterSnapshot


def pin_offering(node: PlannedNode) -> PlannedNode:
    """Return a planned node that allows only its expected type, zone and capacity type."""
    fixed = [
        Requirement.one_of(label_keys.INSTANCE_TYPE, node.instance_type.name),
        Requirement.one_of(label_keys.ZONE, node.offering.zone),
        Requirement.one_of(label_keys.CAPACITY_TYPE, node.offering.capacity_type),
    ]
    return msgspec.structs.replace(
        node, instance_types=(node.instance_type,), requirements=node.requirements.intersection(fixed)
    )


def add_planned_nodes(snapshot: ClusterSnapshot, nodes: Sequence[PlannedNode]) -> ClusterSnapshot:
    """Return the snapshot in which these nodes exist and run their pods."""
    if not nodes:
        return snapshot
    placed = {pod.key for node in nodes for pod in node.pods}
    nodes_before = tuple(
        msgspec.structs.replace(node, pods=tuple(pod for pod in node.pods if pod.key not in placed))
        if any(pod.key in placed for pod in node.pods)
        else node
        for node in snapshot.nodes
    )
    return msgspec.structs.replace(
        snapshot,
        pending_pods=tuple(pod for pod in snapshot.pending_pods if pod.key not in placed),
        nodes=(*nodes_before, *map(_to_node, nodes)),
    )


def add_plan(snapshot: ClusterSnapshot, plan: Plan) -> ClusterSnapshot:
    """Return the snapshot after a plan; its new nodes take no more pods.

    Their zone and type are not known before they are launched, and pods that are added
    could narrow them.
    """
    if not plan.nodes and not plan.existing:
        return snapshot
    pods_by_node = {placement.node: placement.pods for placement in plan.existing}
    placed = {pod.key for pods in pods_by_node.values() for pod in pods}
    nodes = tuple(_replace_pods(node, placed, pods_by_node.get(node.name, ())) for node in snapshot.nodes)
    updated = add_planned_nodes(msgspec.structs.replace(snapshot, nodes=nodes), plan.nodes)
    names = {node.name for node in plan.nodes}
    return msgspec.structs.replace(
        updated,
        nodes=tuple(
            msgspec.structs.replace(node, claim_allocatable=NO_RESOURCES) if node.name in names else node
            for node in updated.nodes
        ),
    )


def merge_plans(plan: Plan, later: Plan) -> Plan:
    """Return both plans as one; ``later`` was made in the snapshot after ``plan``."""
    pods_by_node = {placement.node: tuple(placement.pods) for placement in plan.existing}
    for placement in later.existing:
        pods_by_node[placement.node] = (*pods_by_node.get(placement.node, ()), *placement.pods)
    unschedulable = (*plan.unschedulable, *later.unschedulable)
    return Plan(
        nodes=(*plan.nodes, *later.nodes),
        existing=tuple(ExistingPlacement(name, pods) for name, pods in pods_by_node.items()),
        unschedulable=tuple(sorted(unschedulable, key=lambda entry: (entry.pod.namespace, entry.pod.name))),
        postponed=(*plan.postponed, *later.postponed),
        steps=plan.steps + later.steps,
    )


def _replace_pods(node: Node, leaving: set[str], arriving: Sequence[Pod]) -> Node:
    """Return the node without some pods (keys) and with others."""
    if not arriving and not any(pod.key in leaving for pod in node.pods):
        return node
    kept = tuple(pod for pod in node.pods if pod.key not in leaving)
    added = tuple(msgspec.structs.replace(pod, node_name=node.name) for pod in arriving)
    return msgspec.structs.replace(node, pods=(*kept, *added))


def add_placements(nodes: Iterable[PlannedNode], plan: Plan) -> list[PlannedNode]:
    """Return the nodes with the pods that a later plan adds to them."""
    placements = {placement.node: placement.pods for placement in plan.existing}
    return [_add_pods(node, placements[node.name]) if node.name in placements else node for node in nodes]


def _add_pods(node: PlannedNode, pods: Sequence[Pod]) -> PlannedNode:
    return msgspec.structs.replace(
        node,
        pods=(*node.pods, *pods),
        requested=node.requested + sum_resources(pod.spec.requests for pod in pods),
    )


def _to_node(planned: PlannedNode) -> Node:
    instance_type, offering = planned.instance_type, planned.offering
    requirements = instance_type.requirements.intersection(offering.requirements().values()).intersection(
        planned.requirements.values()
    )
    labels = {
        key: next(iter(requirement.values))
        for key, requirement in requirements.items()
        if not requirement.complement and len(requirement.values) == 1
    }
    return Node(
        name=planned.name,
        claim=planned.name,
        labels=FrozenDict({**labels, **planned.labels, label_keys.NODEPOOL: planned.nodepool}),
        taints=planned.taints,
        startup_taints=planned.startup_taints,
        claim_capacity=instance_type.capacity,
        claim_allocatable=instance_type.allocatable,
        registered=False,
        initialized=False,
        pods=tuple(msgspec.structs.replace(pod, node_name=planned.name) for pod in planned.pods),
    )
