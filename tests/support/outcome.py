"""Reading a plan, and turning it into the world of the next pass."""

from collections import Counter
from collections.abc import Iterable, Sequence

import msgspec

from dovetail.model import labels as label_keys
from dovetail.model.cloud.instance_type import InstanceType, Offering
from dovetail.model.cloud.instance_type import allocatable as allocatable_of
from dovetail.model.frozen import FrozenDict
from dovetail.model.karpenter.nodepool import NodePool
from dovetail.model.kube.pod import Phase, Pod
from dovetail.model.kube.requirements import Requirement
from dovetail.model.kube.resources import Resources
from dovetail.model.node import Node
from dovetail.model.plan import Plan, PlannedNode, Refusal
from dovetail.model.snapshot import ClusterSnapshot

PodLike = Pod | str


def _key(pod: PodLike) -> str:
    if isinstance(pod, Pod):
        return pod.key
    return pod if "/" in pod else f"default/{pod}"


# --- Reading a plan -----------------------------------------------------------------------


def placements(plan: Plan) -> dict[str, str]:
    """Pod key → name of the planned or existing node that takes it."""
    found = {pod.key: node.name for node in plan.nodes for pod in node.pods}
    found.update({pod.key: taken.node for taken in plan.existing for pod in taken.pods})
    return found


def node_of(plan: Plan, pod: PodLike) -> str | None:
    """The node a pod gets, new or existing; None when it gets none."""
    return placements(plan).get(_key(pod))


def new_node_of(plan: Plan, pod: PodLike) -> PlannedNode:
    """The planned node that takes a pod; fails when there is none."""
    wanted = _key(pod)
    for node in plan.nodes:
        if any(one.key == wanted for one in node.pods):
            return node
    raise AssertionError(f"{wanted} gets no new node; unplaced: {reasons(plan)}")


def placed(plan: Plan) -> list[str]:
    """Names of the pods that get a node, sorted."""
    return sorted(key.partition("/")[2] for key in placements(plan))


def unplaced(plan: Plan) -> list[str]:
    """Names of the pods that get none, sorted."""
    return sorted(one.pod.name for one in plan.unplaced)


def unplaced_pods(plan: Plan) -> list[Pod]:
    return [one.pod for one in plan.unplaced]


def reasons(plan: Plan) -> dict[str, list[str]]:
    """Pod name → constraints that ruled it out."""
    return {one.pod.name: [str(why.constraint) for why in one.refusals] for one in plan.unplaced}


def refusals_of(plan: Plan, pod: PodLike) -> tuple[Refusal, ...]:
    for one in plan.unplaced:
        if one.pod.key == _key(pod):
            return one.refusals
    raise AssertionError(f"{_key(pod)} is placed, on {node_of(plan, pod)}")


def pods_per_node(plan: Plan) -> list[int]:
    """How many pods each node takes, new and existing, fewest first."""
    taken = [len(node.pods) for node in plan.nodes] + [len(one.pods) for one in plan.existing]
    return sorted(taken)


def type_names(plan: Plan) -> list[str]:
    """The instance type each new node is expected to get, sorted."""
    return sorted(node.instance_type.name for node in plan.nodes)


def domains_of(
    plan: Plan,
    key: str,
    pods: Iterable[PodLike] | None = None,
    snapshot: ClusterSnapshot | None = None,
) -> Counter[str]:
    """How many (of these) placed pods each value of a node label gets.

    Existing nodes' labels are read from ``snapshot``; without it only pods on
    new nodes are counted.
    """
    wanted = None if pods is None else {_key(pod) for pod in pods}
    counted: Counter[str] = Counter()
    labels = {node.name: expected_labels(node) for node in plan.nodes}
    if snapshot is not None:
        labels |= {node.name: dict(node.labels) for node in snapshot.nodes}
    for pod, node in placements(plan).items():
        if (wanted is None or pod in wanted) and key in labels.get(node, {}):
            counted[labels[node][key]] += 1
    return counted


def zones_of(
    plan: Plan, pods: Iterable[PodLike] | None = None, snapshot: ClusterSnapshot | None = None
) -> Counter[str]:
    return domains_of(plan, label_keys.ZONE, pods, snapshot)


def capacity_types_of(plan: Plan, pods: Iterable[PodLike] | None = None) -> Counter[str]:
    return domains_of(plan, label_keys.CAPACITY_TYPE, pods)


def running_per(snapshot: ClusterSnapshot, key: str, **labels: str) -> Counter[str]:
    """How many bound pods with these labels each value of a node label has."""
    counted: Counter[str] = Counter()
    for node in snapshot.nodes:
        for pod in node.pods:
            if all(pod.labels.get(name) == value for name, value in labels.items()):
                counted[node.labels.get(key, "")] += 1
    return counted


def skew(counts: Counter[str]) -> list[int]:
    """The counts alone, smallest first: for "1, 1, 2 in some order"."""
    return sorted(counts.values())


def bound(pod: Pod, node: str) -> Pod:
    """The same pod, running on ``node`` (a terminal one stays terminal)."""
    phase = pod.phase if pod.terminal else Phase.RUNNING
    return msgspec.structs.replace(pod, node_name=node, phase=phase)


# --- The next pass ------------------------------------------------------------------------


def expected_labels(node: PlannedNode) -> dict[str, str]:
    """The labels a planned node will carry if it gets its first type and its offering."""
    return labels_if(node, node.instance_type, node.offering)


def labels_if(node: PlannedNode, kind: InstanceType, offering: Offering) -> dict[str, str]:
    """The labels a planned node would carry as this type, bought this way."""
    labels = {label_keys.OS: "linux"}
    for key, one in kind.requirements.items():
        values = _possible(one, node.requirements.get(key))
        if values:
            labels[key] = "linux" if key == label_keys.OS and "linux" in values else values[0]
    labels.pop(label_keys.CAPACITY_RESERVATION_ID, None)
    for key, one in node.requirements.items():
        if key not in kind.requirements and not one.complement and one.values:
            labels.setdefault(key, min(one.values))
    labels.update(node.labels)
    labels.update(_labels_of(offering))
    labels[label_keys.INSTANCE_TYPE] = kind.name
    labels[label_keys.NODEPOOL] = node.nodepool
    labels[label_keys.HOSTNAME] = node.name
    return labels


def _labels_of(offering: Offering) -> dict[str, str]:
    known = {
        label_keys.ZONE: offering.zone,
        label_keys.CAPACITY_TYPE: offering.capacity_type,
        label_keys.ZONE_ID: offering.zone_id,
        label_keys.CAPACITY_RESERVATION_ID: offering.reservation_id,
    }
    return {key: value for key, value in known.items() if value}


def _possible(offered: Requirement, asked: Requirement | None) -> Sequence[str]:
    both = offered if asked is None else offered.intersection(asked)
    return () if both.complement else sorted(both.values)


def as_node(planned: PlannedNode, pool: NodePool, name: str, *, in_flight: bool = False) -> Node:
    """The node that a planned one becomes, with its pods bound.

    In flight: launched, not registered; only the claim knows labels and size.
    """
    offering, kind = planned.offering, planned.instance_type
    capacity = Resources({**kind.capacity, **(offering.capacity_override or {})})
    overhead = Resources({**kind.overhead, **(offering.overhead_override or {})})
    promised = allocatable_of(capacity, overhead)
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
        allocatable=nothing if in_flight else promised,
        claim_capacity=capacity,
        claim_allocatable=promised,
        registered=not in_flight,
        initialized=not in_flight,
        provider_id=f"fake:///{name}",
        pods=tuple(bound(pod, name) for pod in planned.pods),
    )


def settled(
    snapshot: ClusterSnapshot, plan: Plan, pending: Iterable[Pod] = (), *, in_flight: bool = False
) -> ClusterSnapshot:
    """The world after ``plan`` came true, with ``pending`` the pods that wait now.

    New nodes get names of their own, as a cloud gives them; reserved
    instances are taken off their reservation.
    """
    taken = {one.node: one.pods for one in plan.existing}
    moved = set(placements(plan))
    nodes = []
    for node in snapshot.nodes:
        stay = [pod for pod in node.pods if not (node.deleting and pod.key in moved)]
        more = [bound(pod, node.name) for pod in taken.get(node.name, ())]
        nodes.append(msgspec.structs.replace(node, pods=tuple([*stay, *more])))
    pools = {pool.name: pool for pool in snapshot.node_pools}
    for number, planned in enumerate(plan.nodes, start=len(nodes)):
        name = f"ip-{number}"
        nodes.append(as_node(planned, pools[planned.nodepool], name, in_flight=in_flight))
    return msgspec.structs.replace(
        snapshot,
        nodes=tuple(nodes),
        pending=tuple(pending),
        instance_types=_after_purchases(snapshot, plan),
    )


def _after_purchases(
    snapshot: ClusterSnapshot, plan: Plan
) -> FrozenDict[str, tuple[InstanceType, ...]]:
    bought = Counter(
        node.offering.reservation_id for node in plan.nodes if node.offering.reservation_id
    )
    if not bought:
        return snapshot.instance_types

    def left(offering: Offering) -> Offering:
        if offering.reservation_id not in bought:
            return offering
        remaining = offering.reservation_capacity - bought[offering.reservation_id]
        return msgspec.structs.replace(
            offering, reservation_capacity=remaining, available=remaining > 0
        )

    return FrozenDict(
        {
            pool: tuple(
                msgspec.structs.replace(kind, offerings=tuple(map(left, kind.offerings)))
                for kind in kinds
            )
            for pool, kinds in snapshot.instance_types.items()
        }
    )
