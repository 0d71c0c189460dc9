"""Snapshot -> demand of the lower bound."""

from collections import Counter
from itertools import groupby

import numpy as np

from bench.bound import FleetDemand
from dovetail.model import labels as label_keys
from dovetail.model.cloud.instance_type import InstanceType, Offering
from dovetail.model.karpenter.nodepool import NodePool
from dovetail.model.kube.pod import Pod
from dovetail.model.kube.requirements import Requirements
from dovetail.model.kube.resources import CPU, MEMORY, PODS
from dovetail.model.snapshot import ClusterSnapshot

Selector = tuple[tuple[str, str], ...]
"""Labels and values of a node selector."""
_RESOURCES = (CPU, MEMORY, PODS)


def reduce_snapshot(snapshot: ClusterSnapshot) -> FleetDemand:
    """Return the demand of a snapshot.

    Rules between pods and limits are left out, which can only lower the bound. One
    exception: pods with self anti-affinity on hostname take one slot of a node each, and
    a node has one. Node selectors are extra resources: pods request 1 of the resource of
    their selector, and types have enough of it for all pods, or none.
    """
    counts = Counter(_class_key(pod) for pod in snapshot.pending_pods)
    classes = sorted(counts)
    selectors = sorted({selector for _, selector in classes if selector})
    daemon_requests = np.array([_size(daemon_set.pod)[:-1] for daemon_set in snapshot.daemon_sets]).reshape(
        -1, 3
    )
    enough = len(snapshot.pending_pods)
    alloc, price = [], []
    for pool in snapshot.nodepools:
        for instance_type in snapshot.instance_types[pool.name]:
            room = np.array(
                [instance_type.allocatable.get(name, 0) for name in _RESOURCES]
            ) - daemon_requests.sum(axis=0)
            for offerings in _usable_offerings(pool, instance_type):
                if (room > 0).all():
                    admitted = [_admits(pool, instance_type, offerings, s) * enough for s in selectors]
                    alloc.append([*room.tolist(), 1, *admitted])
                    price.append(offerings[0].price)
    sizes = np.array(
        [[*size, *(selector == own for own in selectors)] for size, selector in classes], dtype=np.float64
    )
    room = np.array(alloc, dtype=np.float64)
    requested = (sizes > 0).any(axis=0)
    return FleetDemand(
        sizes[:, requested],
        np.array([counts[key] for key in classes], dtype=np.float64),
        room[:, requested],
        np.array(price),
    )


def _class_key(pod: Pod) -> tuple[tuple[int, ...], Selector]:
    return _size(pod), tuple(sorted(pod.spec.node_selector.items()))


def _size(pod: Pod) -> tuple[int, ...]:
    return (*(pod.spec.requests.get(name, 0) for name in _RESOURCES), int(_has_self_anti_affinity(pod)))


def _has_self_anti_affinity(pod: Pod) -> bool:
    """Return True if the pod has anti-affinity to itself on hostname."""
    return any(
        term.topology_key == label_keys.HOSTNAME
        and term.selector is not None
        and term.selector.matches(pod.labels)
        for term in pod.spec.anti_affinity
    )


def _usable_offerings(pool: NodePool, instance_type: InstanceType) -> list[list[Offering]]:
    """Return the offerings that the pool allows, those of one price together."""
    requirements = pool.requirements()
    if instance_type.requirements.find_disjoint_key(requirements) is not None:
        return []
    usable = [
        offering
        for offering in instance_type.offerings
        if offering.available and offering.requirements().find_disjoint_key(requirements) is None
    ]
    usable.sort(key=lambda offering: offering.price)
    return [list(group) for _, group in groupby(usable, key=lambda offering: offering.price)]


def _admits(
    pool: NodePool,
    instance_type: InstanceType,
    offerings: list[Offering],
    selector: tuple[tuple[str, str], ...],
) -> bool:
    """Return True if one of the offerings matches a node selector."""
    wanted = Requirements.from_labels(dict(selector))
    return (
        pool.requirements().find_disjoint_key(wanted) is None
        and instance_type.requirements.find_disjoint_key(wanted) is None
        and any(offering.requirements().find_disjoint_key(wanted) is None for offering in offerings)
    )
