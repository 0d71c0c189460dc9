"""Would an empty new node take this pod? Brute force, for pods that were refused.

Part of the checker: shares no code with the solver. Speaks only of pods
without rules about other pods, and of NodePools without limits or minValues.
"""

from collections.abc import Iterator, Mapping
from itertools import product

from dovetail.model import labels as label_keys
from dovetail.model.cloud.instance_type import InstanceType, Offering
from dovetail.model.frozen import FrozenDict
from dovetail.model.karpenter.nodepool import NodePool
from dovetail.model.kube.pod import NodeTerm, Pod, PodSpec
from dovetail.model.kube.requirements import Requirement, Requirements
from dovetail.model.kube.resources import total
from dovetail.model.snapshot import ClusterSnapshot
from tests.support.hosts import (
    Values,
    may_hold,
    offering_allowed,
    offering_labels,
    room_of,
    tolerates,
)
from tests.support.neighbours import is_bound_by_neighbours
from tests.support.volumes import Storage


def could_have_been_placed_alone(snapshot: ClusterSnapshot, pod: Pod) -> str | None:
    """Name a NodePool and type whose empty node would take the pod, or None.

    None also where this simple question does not apply.
    """
    spec = pod.spec
    if is_bound_by_neighbours(spec) or spec.needs_devices or _somebody_avoids(snapshot):
        return None
    if any(label_keys.is_restricted(key) for key in _asked_keys(spec)):
        return None
    storage = Storage(snapshot)
    if not storage.usable(pod):
        return None
    for pool in snapshot.node_pools:
        if not _simple(pool) or not tolerates(spec.tolerations, pool.template.taints):
            continue
        for kind in snapshot.instance_types.get(pool.name, ()):
            for wanted in _demands(pod, storage):
                if _some_offering_serves(snapshot, pool, kind, pod, wanted):
                    return f"{pool.name}/{kind.name}"
    return None


def _somebody_avoids(snapshot: ClusterSnapshot) -> bool:
    running = [pod for node in snapshot.nodes for pod in node.pods]
    return any(pod.spec.anti_affinity for pod in [*snapshot.pending, *running])


def _asked_keys(spec: PodSpec) -> set[str]:
    asked = {one.key for term in spec.node_terms for one in term.expressions}
    return asked | set(spec.node_selector)


def _simple(pool: NodePool) -> bool:
    floors = any(one.min_values for one in pool.template.requirements)
    usable = pool.ready and not pool.deleting and pool.replicas is None
    return usable and pool.limits is None and not floors


def _demands(pod: Pod, storage: Storage) -> Iterator[Requirements]:
    """Every way to meet the pod's selector, one affinity term and one term per volume."""
    fixed = Requirements.of_labels(pod.spec.node_selector)
    free = (NodeTerm(),)
    for terms in product(pod.spec.node_terms or free, *storage.demands(pod)):
        yield fixed.and_also(Requirement.of(one) for term in terms for one in term.expressions)


def _some_offering_serves(
    snapshot: ClusterSnapshot, pool: NodePool, kind: InstanceType, pod: Pod, wanted: Requirements
) -> bool:
    if any(one.complement is False and not one.values and one.present for one in wanted.values()):
        return False  # Contradicts itself.
    offered = pool.requirements()
    if any(not _together(one, kind.requirements.get(key)) for key, one in offered.items()):
        return False
    side = offered.and_also(kind.requirements.values())
    for offering in kind.offerings:
        if not offering.available or not offering_allowed(offering, side):
            continue
        labels = {key: value for key, value in offering_labels(offering).items() if value}
        node = Requirements({**side, **Requirements.of_labels(labels)})
        if not offering.reservation_id:
            node = node.without(label_keys.CAPACITY_RESERVATION_ID)
        if all(_serves(node.get(key), one) for key, one in wanted.items()) and _fits(
            snapshot, pool, kind, offering, pod, node.and_also(wanted.values())
        ):
            return True
    return False


def _together(asked: Requirement, offered: Requirement | None) -> bool:
    return offered is None or _serves(offered, asked)


def _serves(node: Requirement | None, wanted: Requirement) -> bool:
    if node is None:
        return wanted.tolerates_absence
    both = node.intersection(wanted)
    if both.complement or both.values:
        return True
    return node.tolerates_absence and wanted.tolerates_absence


def _fits(
    snapshot: ClusterSnapshot,
    pool: NodePool,
    kind: InstanceType,
    offering: Offering,
    pod: Pod,
    node: Requirements,
) -> bool:
    labels: Mapping[str, Values] = FrozenDict(
        {
            key: frozenset(one.values)
            for key, one in node.items()
            if one.values and not one.complement
        }
    )
    daemons = [
        one
        for one in snapshot.daemon_sets
        if tolerates(one.pod.spec.tolerations, pool.template.taints)
        and _may_come(one.pod.spec, labels, node)
    ]
    taken = total((one.newest or one.pod).spec.requests for one in daemons)
    ports = [port for one in daemons for port in one.pod.spec.host_ports]
    clash = any(mine.clashes(held) for mine in pod.spec.host_ports for held in ports)
    return not clash and pod.spec.requests.fits_in(room_of(kind, offering) - taken)


def _may_come(spec: PodSpec, labels: Mapping[str, Values], node: Requirements) -> bool:
    """Assume that a DaemonSet comes whenever its labels are not settled."""
    unsettled = any(key in node and key not in labels for key in _asked_keys(spec))
    return unsettled or may_hold(spec, labels)
