"""Plans written by hand, to try the checker on."""

from collections.abc import Iterable, Sequence

from dovetail.model import labels as label_keys
from dovetail.model.cloud.instance_type import InstanceType
from dovetail.model.frozen import FrozenDict
from dovetail.model.kube.pod import Pod
from dovetail.model.kube.requirements import Requirement
from dovetail.model.kube.resources import NOTHING, Resources, total
from dovetail.model.plan import ExistingPlacement, Plan, PlannedNode, Unplaced
from dovetail.model.snapshot import ClusterSnapshot
from tests.support.catalog import ON_DEMAND, Z1


def planned(
    snapshot: ClusterSnapshot,
    name: str,
    pods: Sequence[Pod],
    *,
    types: Sequence[str] = ("small",),
    zone: str = Z1,
    capacity_type: str = ON_DEMAND,
    pool: str = "default",
    daemons: Resources = NOTHING,
    more: Iterable[Requirement] = (),
) -> PlannedNode:
    """A node as a careful solver would plan it; one zone, one capacity type."""
    owner = next(one for one in snapshot.node_pools if one.name == pool)
    kinds = [_kind(snapshot, pool, one) for one in types]
    offering = next(
        one for one in kinds[0].offerings if one.zone == zone and one.capacity_type == capacity_type
    )
    narrowed = [
        Requirement.one_of(label_keys.ZONE, zone),
        Requirement.one_of(label_keys.CAPACITY_TYPE, capacity_type),
        Requirement.one_of(label_keys.INSTANCE_TYPE, *types),
    ]
    if offering.reservation_id:
        narrowed.append(
            Requirement.one_of(label_keys.CAPACITY_RESERVATION_ID, offering.reservation_id)
        )
    key, value = owner.template.node_class.label
    labels = {**owner.template.labels, label_keys.NODEPOOL: pool, key: value}
    return PlannedNode(
        name=name,
        nodepool=pool,
        instance_types=kinds,
        offering=offering,
        pods=list(pods),
        requirements=owner.requirements().and_also([*narrowed, *more]),
        requested=total(pod.spec.requests for pod in pods) + daemons,
        daemon_requests=daemons,
        labels=FrozenDict(labels),
        taints=owner.template.taints,
        startup_taints=owner.template.startup_taints,
        reservation_ids=(offering.reservation_id,) if offering.reservation_id else (),
    )


def _kind(snapshot: ClusterSnapshot, pool: str, name: str) -> InstanceType:
    return next(kind for kind in snapshot.instance_types[pool] if kind.name == name)


def a_plan(
    *nodes: PlannedNode,
    existing: Iterable[tuple[str, Sequence[Pod]]] = (),
    unplaced: Iterable[Pod] = (),
) -> Plan:
    return Plan(
        nodes=tuple(nodes),
        existing=tuple(ExistingPlacement(node, list(pods)) for node, pods in existing),
        unplaced=tuple(Unplaced(pod, ()) for pod in unplaced),
    )
