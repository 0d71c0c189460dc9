"""Reads plans, and applies them to a snapshot."""

from collections import Counter
from collections.abc import Iterable, Sequence

import msgspec

from dovetail.model import labels as label_keys
from dovetail.model.cloud.instance_type import InstanceType, Offering, compute_allocatable
from dovetail.model.frozen import FrozenDict
from dovetail.model.karpenter.nodepool import NodePool
from dovetail.model.kube.pod import Pod, PodPhase
from dovetail.model.kube.requirements import Requirement
from dovetail.model.kube.resources import Resources
from dovetail.model.node import Node
from dovetail.model.plan import Plan, PlannedNode, UnschedulableReason
from dovetail.model.snapshot import ClusterSnapshot

PodLike = Pod | str


def _key(pod: PodLike) -> str:
    if isinstance(pod, Pod):
        return pod.key
    return pod if "/" in pod else f"default/{pod}"


# --- Reading a plan -----------------------------------------------------------------------


def placements(plan: Plan) -> dict[str, str]:
    """Return pod key → name of its planned or existing node."""
    nodes = {pod.key: node.name for node in plan.nodes for pod in node.pods}
    nodes.update({pod.key: taken.node for taken in plan.existing for pod in taken.pods})
    return nodes


def node_of(plan: Plan, pod: PodLike) -> str | None:
    """Return the name of a pod's node, new or existing, or None."""
    return placements(plan).get(_key(pod))


def new_node_of(plan: Plan, pod: PodLike) -> PlannedNode:
    """Return the planned node of a pod; fail if there is none."""
    key = _key(pod)
    for node in plan.nodes:
        if any(placed_pod.key == key for placed_pod in node.pods):
            return node
    raise AssertionError(f"{key} gets no new node; unplaced: {reasons(plan)}")


def placed(plan: Plan) -> list[str]:
    """Return the names of placed pods, sorted."""
    return sorted(key.partition("/")[2] for key in placements(plan))


def unplaced(plan: Plan) -> list[str]:
    """Return the names of unschedulable pods, sorted."""
    return sorted(entry.pod.name for entry in plan.unschedulable)


def unplaced_pods(plan: Plan) -> list[Pod]:
    return [entry.pod for entry in plan.unschedulable]


def reasons(plan: Plan) -> dict[str, list[str]]:
    """Return pod name → constraints of its unschedulable reasons."""
    return {
        entry.pod.name: [str(reason.constraint) for reason in entry.reasons] for entry in plan.unschedulable
    }


def reasons_of(plan: Plan, pod: PodLike) -> tuple[UnschedulableReason, ...]:
    """Return the unschedulable reasons of a pod; fail if it is placed."""
    for entry in plan.unschedulable:
        if entry.pod.key == _key(pod):
            return entry.reasons
    raise AssertionError(f"{_key(pod)} is placed, on {node_of(plan, pod)}")


def pods_per_node(plan: Plan) -> list[int]:
    """Return the number of placed pods of each node, smallest first."""
    counts = [len(node.pods) for node in plan.nodes] + [len(placement.pods) for placement in plan.existing]
    return sorted(counts)


def type_names(plan: Plan) -> list[str]:
    """Return the expected instance types of new nodes, sorted."""
    return sorted(node.instance_type.name for node in plan.nodes)


def domains_of(
    plan: Plan, key: str, pods: Iterable[PodLike] | None = None, snapshot: ClusterSnapshot | None = None
) -> Counter[str]:
    """Return the number of (these) placed pods per value of a node label.

    Labels of existing nodes are read from ``snapshot``; without it only pods on
    new nodes are counts.
    """
    selected = None if pods is None else {_key(pod) for pod in pods}
    counts: Counter[str] = Counter()
    labels = {node.name: expected_labels(node) for node in plan.nodes}
    if snapshot is not None:
        labels |= {node.name: dict(node.labels) for node in snapshot.nodes}
    for pod, node in placements(plan).items():
        if (selected is None or pod in selected) and key in labels.get(node, {}):
            counts[labels[node][key]] += 1
    return counts


def zones_of(
    plan: Plan, pods: Iterable[PodLike] | None = None, snapshot: ClusterSnapshot | None = None
) -> Counter[str]:
    return domains_of(plan, label_keys.ZONE, pods, snapshot)


def capacity_types_of(plan: Plan, pods: Iterable[PodLike] | None = None) -> Counter[str]:
    return domains_of(plan, label_keys.CAPACITY_TYPE, pods)


def running_per(snapshot: ClusterSnapshot, key: str, **labels: str) -> Counter[str]:
    """Return the number of bound pods with these labels per value of a node label."""
    counts: Counter[str] = Counter()
    for node in snapshot.nodes:
        for pod in node.pods:
            if all(pod.labels.get(name) == value for name, value in labels.items()):
                counts[node.labels.get(key, "")] += 1
    return counts


def skew(counts: Counter[str]) -> list[int]:
    """Return the counts without domains, smallest first."""
    return sorted(counts.values())


def bound(pod: Pod, node: str) -> Pod:
    """Return the pod bound to ``node``; a terminal pod stays terminal."""
    phase = pod.phase if pod.is_terminal else PodPhase.RUNNING
    return msgspec.structs.replace(pod, node_name=node, phase=phase)


# --- Applying a plan ------------------------------------------------------------------------


def expected_labels(node: PlannedNode) -> dict[str, str]:
    """Return the labels of a planned node with its first type and offering."""
    return labels_if(node, node.instance_type, node.offering)


def labels_if(node: PlannedNode, instance_type: InstanceType, offering: Offering) -> dict[str, str]:
    """Return the labels of a planned node with this type and offering."""
    labels = {label_keys.OS: "linux"}
    for key, requirement in instance_type.requirements.items():
        values = _possible(requirement, node.requirements.get(key))
        if values:
            labels[key] = "linux" if key == label_keys.OS and "linux" in values else values[0]
    labels.pop(label_keys.CAPACITY_RESERVATION_ID, None)
    for key, requirement in node.requirements.items():
        if key not in instance_type.requirements and not requirement.complement and requirement.values:
            labels.setdefault(key, min(requirement.values))
    labels.update(node.labels)
    labels.update(_labels_of(offering))
    labels[label_keys.INSTANCE_TYPE] = instance_type.name
    labels[label_keys.NODEPOOL] = node.nodepool
    labels[label_keys.HOSTNAME] = node.name
    return labels


def _labels_of(offering: Offering) -> dict[str, str]:
    labels = {
        label_keys.ZONE: offering.zone,
        label_keys.CAPACITY_TYPE: offering.capacity_type,
        label_keys.ZONE_ID: offering.zone_id,
        label_keys.CAPACITY_RESERVATION_ID: offering.reservation_id,
    }
    return {key: value for key, value in labels.items() if value}


def _possible(offered: Requirement, required: Requirement | None) -> Sequence[str]:
    both = offered if required is None else offered.intersection(required)
    return () if both.complement else sorted(both.values)


def as_node(planned: PlannedNode, pool: NodePool, name: str, *, in_flight: bool = False) -> Node:
    """Return the node that a planned one becomes, with its pods bound.

    An in-flight node is launched but not registered: only its claim has labels
    and capacity.
    """
    offering, instance_type = planned.offering, planned.instance_type
    capacity = Resources({**instance_type.capacity, **(offering.capacity_override or {})})
    overhead = Resources({**instance_type.overhead, **(offering.overhead_override or {})})
    allocatable = compute_allocatable(capacity, overhead)
    labels = expected_labels(planned) | {label_keys.HOSTNAME: name}
    if in_flight:
        del labels[label_keys.HOSTNAME]
    key, value = pool.template.node_class.label
    nothing = Resources()
    return Node(
        name=name,
        claim=planned.name,
        labels=FrozenDict({**labels, key: value}),
        taints=(*planned.taints, *(planned.startup_taints if in_flight else ())),
        startup_taints=planned.startup_taints,
        capacity=nothing if in_flight else capacity,
        allocatable=nothing if in_flight else allocatable,
        claim_capacity=capacity,
        claim_allocatable=allocatable,
        registered=not in_flight,
        initialized=not in_flight,
        provider_id=f"fake:///{name}",
        pods=tuple(bound(pod, name) for pod in planned.pods),
    )


def settled(
    snapshot: ClusterSnapshot, plan: Plan, pending: Iterable[Pod] = (), *, in_flight: bool = False
) -> ClusterSnapshot:
    """Return the cluster after ``plan``, with ``pending`` as its pending pods.

    New nodes get new names, as from a cloud. Reserved instances reduce the capacity
    of their reservation.
    """
    taken = {placement.node: placement.pods for placement in plan.existing}
    moved = set(placements(plan))
    nodes = []
    for node in snapshot.nodes:
        stay = [pod for pod in node.pods if not (node.deleting and pod.key in moved)]
        more = [bound(pod, node.name) for pod in taken.get(node.name, ())]
        nodes.append(msgspec.structs.replace(node, pods=tuple([*stay, *more])))
    pools = {pool.name: pool for pool in snapshot.nodepools}
    for number, planned in enumerate(plan.nodes, start=len(nodes)):
        name = f"ip-{number}"
        nodes.append(as_node(planned, pools[planned.nodepool], name, in_flight=in_flight))
    return msgspec.structs.replace(
        snapshot,
        nodes=tuple(nodes),
        pending_pods=tuple(pending),
        instance_types=_remaining_capacity(snapshot, plan),
    )


def _remaining_capacity(snapshot: ClusterSnapshot, plan: Plan) -> FrozenDict[str, tuple[InstanceType, ...]]:
    launched = Counter(node.offering.reservation_id for node in plan.nodes if node.offering.reservation_id)
    if not launched:
        return snapshot.instance_types

    def left(offering: Offering) -> Offering:
        if offering.reservation_id not in launched:
            return offering
        remaining = offering.reservation_capacity - launched[offering.reservation_id]
        return msgspec.structs.replace(offering, reservation_capacity=remaining, available=remaining > 0)

    return FrozenDict(
        {
            pool: tuple(
                msgspec.structs.replace(instance_type, offerings=tuple(map(left, instance_type.offerings)))
                for instance_type in instance_types
            )
            for pool, instance_types in snapshot.instance_types.items()
        }
    )
