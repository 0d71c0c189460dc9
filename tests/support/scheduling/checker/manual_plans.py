"""Manually written plans, as input of the checker."""

from collections.abc import Iterable, Sequence

from dovetail.model import labels as label_keys
from dovetail.model.cloud.instance_type import InstanceType
from dovetail.model.frozen import FrozenDict
from dovetail.model.kube.pod import Pod
from dovetail.model.kube.requirements import Requirement
from dovetail.model.kube.resources import NO_RESOURCES, Resources, sum_resources
from dovetail.model.plan import ExistingPlacement, Plan, PlannedNode, UnschedulablePod
from dovetail.model.snapshot import ClusterSnapshot
from tests.support.scheduling.checker.plan_checker import check
from tests.support.scheduling.instance_types import ON_DEMAND, Z1

APP = {"app": "web"}


def planned(
    snapshot: ClusterSnapshot,
    name: str,
    pods: Sequence[Pod],
    *,
    types: Sequence[str] = ("small",),
    zone: str = Z1,
    capacity_type: str = ON_DEMAND,
    pool: str = "default",
    daemons: Resources = NO_RESOURCES,
    more: Iterable[Requirement] = (),
) -> PlannedNode:
    """Return a valid planned node with one zone and one capacity type."""
    owner = next(candidate for candidate in snapshot.nodepools if candidate.name == pool)
    instance_types = [_instance_type(snapshot, pool, type_name) for type_name in types]
    offering = next(
        offering
        for offering in instance_types[0].offerings
        if (offering.zone, offering.capacity_type) == (zone, capacity_type)
    )
    narrowed = [
        Requirement.one_of(label_keys.ZONE, zone),
        Requirement.one_of(label_keys.CAPACITY_TYPE, capacity_type),
        Requirement.one_of(label_keys.INSTANCE_TYPE, *types),
    ]
    if offering.reservation_id:
        narrowed.append(Requirement.one_of(label_keys.CAPACITY_RESERVATION_ID, offering.reservation_id))
    key, value = owner.template.node_class.label
    labels = {**owner.template.labels, label_keys.NODEPOOL: pool, key: value}
    return PlannedNode(
        name=name,
        nodepool=pool,
        instance_types=instance_types,
        offering=offering,
        pods=list(pods),
        requirements=owner.requirements().intersection([*narrowed, *more]),
        requested=sum_resources(pod.spec.requests for pod in pods) + daemons,
        daemon_requests=daemons,
        labels=FrozenDict(labels),
        taints=owner.template.taints,
        startup_taints=owner.template.startup_taints,
        reservation_ids=(offering.reservation_id,) if offering.reservation_id else (),
    )


def _instance_type(snapshot: ClusterSnapshot, pool: str, name: str) -> InstanceType:
    return next(
        instance_type for instance_type in snapshot.instance_types[pool] if instance_type.name == name
    )


def a_plan(
    *nodes: PlannedNode, existing: Iterable[tuple[str, Sequence[Pod]]] = (), unplaced: Iterable[Pod] = ()
) -> Plan:
    return Plan(
        nodes=tuple(nodes),
        existing=tuple(ExistingPlacement(node, list(pods)) for node, pods in existing),
        unschedulable=tuple(UnschedulablePod(pod, ()) for pod in unplaced),
    )


def rules(snapshot: ClusterSnapshot, plan: Plan) -> set[str]:
    """Return the rules that a plan violates."""
    return {violation.rule for violation in check(snapshot, plan)}


def on(snapshot: ClusterSnapshot, *zones: str, types: Sequence[str] = ("small",)) -> Plan:
    """Return a plan with one new node per zone, each with the next pending pod."""
    return a_plan(
        *(
            planned(snapshot, f"n{i}", [pod], zone=zone, types=types)
            for i, (pod, zone) in enumerate(zip(snapshot.pending_pods, zones, strict=True))
        )
    )


def one_node(snapshot: ClusterSnapshot, **fields: object) -> Plan:
    """Return a plan with all pending pods on one new node."""
    return a_plan(planned(snapshot, "n0", snapshot.pending_pods, **fields))  # type: ignore[arg-type]
