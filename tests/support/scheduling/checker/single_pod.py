"""Search for an empty new node that an unschedulable pod fits, by brute force.

Part of the checker: shares no code with the solver. Covers only pods without
inter-pod rules, and NodePools without limits and minValues.
"""

from collections.abc import Iterator, Mapping
from itertools import product

from dovetail.model import labels as label_keys
from dovetail.model.cloud.instance_type import InstanceType, Offering
from dovetail.model.frozen import FrozenDict
from dovetail.model.karpenter.nodepool import NodePool
from dovetail.model.kube.pod import NodeSelectorTerm, Pod, PodSpec
from dovetail.model.kube.requirements import Requirement, Requirements
from dovetail.model.kube.resources import sum_resources
from dovetail.model.snapshot import ClusterSnapshot
from tests.support.scheduling.checker.inter_pod import has_inter_pod_rules
from tests.support.scheduling.checker.nodes import (
    Values,
    allocatable_of,
    is_offering_allowed,
    may_match,
    offering_labels,
    tolerates,
)
from tests.support.scheduling.checker.volumes import Storage


def find_fitting_type(snapshot: ClusterSnapshot, pod: Pod) -> str | None:
    """Return NodePool and type whose empty node fits the pod, or None.

    None also if the pod is not covered.
    """
    spec = pod.spec
    if has_inter_pod_rules(spec) or spec.needs_devices or _has_anti_affinity(snapshot):
        return None
    if any(label_keys.is_restricted(key) for key in _label_keys(spec)):
        return None
    storage = Storage(snapshot)
    if not storage.is_usable(pod):
        return None
    for pool in snapshot.nodepools:
        if not _is_simple(pool) or not tolerates(spec.tolerations, pool.template.taints):
            continue
        for instance_type in snapshot.instance_types.get(pool.name, ()):
            for required in _requirement_sets(pod, storage):
                if _has_offering(snapshot, pool, instance_type, pod, required):
                    return f"{pool.name}/{instance_type.name}"
    return None


def _has_anti_affinity(snapshot: ClusterSnapshot) -> bool:
    running = [pod for node in snapshot.nodes for pod in node.pods]
    return any(pod.spec.anti_affinity for pod in [*snapshot.pending_pods, *running])


def _label_keys(spec: PodSpec) -> set[str]:
    keys = {expression.key for term in spec.node_terms for expression in term.expressions}
    return keys | set(spec.node_selector)


def _is_simple(pool: NodePool) -> bool:
    has_min_values = any(requirement.min_values for requirement in pool.template.requirements)
    is_usable = pool.ready and not pool.deleting and pool.replicas is None
    return is_usable and pool.limits is None and not has_min_values


def _requirement_sets(pod: Pod, storage: Storage) -> Iterator[Requirements]:
    """Yield the selector combined with one affinity term and one term per volume."""
    fixed = Requirements.from_labels(pod.spec.node_selector)
    free = (NodeSelectorTerm(),)
    for terms in product(pod.spec.node_terms or free, *storage.node_terms_of(pod)):
        yield fixed.intersection(
            Requirement.from_spec(expression) for term in terms for expression in term.expressions
        )


def _has_offering(
    snapshot: ClusterSnapshot, pool: NodePool, instance_type: InstanceType, pod: Pod, required: Requirements
) -> bool:
    if any(
        not requirement.complement and not requirement.values and requirement.must_exist
        for requirement in required.values()
    ):
        return False  # Contradicts itself.
    offered = pool.requirements()
    if any(
        not _is_compatible(requirement, instance_type.requirements.get(key))
        for key, requirement in offered.items()
    ):
        return False
    side = offered.intersection(instance_type.requirements.values())
    for offering in instance_type.offerings:
        if not offering.available or not is_offering_allowed(offering, side):
            continue
        labels = {key: value for key, value in offering_labels(offering).items() if value}
        node = Requirements({**side, **Requirements.from_labels(labels)})
        if not offering.reservation_id:
            node = node.without(label_keys.CAPACITY_RESERVATION_ID)
        if all(_satisfies(node.get(key), requirement) for key, requirement in required.items()) and _fits(
            snapshot, pool, instance_type, offering, pod, node.intersection(required.values())
        ):
            return True
    return False


def _is_compatible(required: Requirement, offered: Requirement | None) -> bool:
    return offered is None or _satisfies(offered, required)


def _satisfies(node: Requirement | None, required: Requirement) -> bool:
    if node is None:
        return required.allows_absence
    both = node.intersection(required)
    if both.complement or both.values:
        return True
    return node.allows_absence and required.allows_absence


def _fits(
    snapshot: ClusterSnapshot,
    pool: NodePool,
    instance_type: InstanceType,
    offering: Offering,
    pod: Pod,
    node: Requirements,
) -> bool:
    labels: Mapping[str, Values] = FrozenDict(
        {
            key: frozenset(requirement.values)
            for key, requirement in node.items()
            if requirement.values and not requirement.complement
        }
    )
    daemons = [
        daemon_set
        for daemon_set in snapshot.daemon_sets
        if tolerates(daemon_set.pod.spec.tolerations, pool.template.taints)
        and _may_run(daemon_set.pod.spec, labels, node)
    ]
    used = sum_resources((daemon.newest_pod or daemon.pod).spec.requests for daemon in daemons)
    used_ports = [port for daemon in daemons for port in daemon.pod.spec.host_ports]
    conflict = any(port.conflicts_with(used_port) for port in pod.spec.host_ports for used_port in used_ports)
    return not conflict and pod.spec.requests.fits_in(allocatable_of(instance_type, offering) - used)


def _may_run(spec: PodSpec, labels: Mapping[str, Values], node: Requirements) -> bool:
    """Return True if a DaemonSet may run; it may if its labels are undecided."""
    undecided = any(key in node and key not in labels for key in _label_keys(spec))
    return undecided or may_match(spec, labels)
