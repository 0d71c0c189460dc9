"""Snapshot -> demand of the lower bound."""

from collections import Counter

import numpy as np

from bench.bound import FleetDemand
from dovetail.model import labels as label_keys
from dovetail.model.cloud.instance_type import InstanceType
from dovetail.model.karpenter.nodepool import NodePool
from dovetail.model.kube.pod import Pod
from dovetail.model.kube.resources import CPU, MEMORY, PODS
from dovetail.model.snapshot import ClusterSnapshot

_RESOURCES = (CPU, MEMORY, PODS)


def reduce_snapshot(snapshot: ClusterSnapshot) -> FleetDemand:
    """Return the demand of a snapshot with one NodePool.

    Rules between pods are left out, which can only lower the bound. One exception: pods
    with self anti-affinity on hostname take one slot of a node each, and a node has one.
    """
    (pool,) = snapshot.nodepools
    counts = Counter(_size(pod) for pod in snapshot.pending_pods)
    classes = sorted(counts)
    daemon_requests = np.array([_size(daemon_set.pod)[:-1] for daemon_set in snapshot.daemon_sets]).reshape(
        -1, 3
    )
    alloc, price = [], []
    for instance_type in snapshot.instance_types[pool.name]:
        price_of_type = _cheapest_price(pool, instance_type)
        room = np.array(
            [instance_type.allocatable.get(name, 0) for name in _RESOURCES]
        ) - daemon_requests.sum(axis=0)
        if price_of_type is not None and (room > 0).all():
            alloc.append([*room.tolist(), 1])
            price.append(price_of_type)
    sizes, room = np.array(classes, dtype=np.float64), np.array(alloc, dtype=np.float64)
    requested = (sizes > 0).any(axis=0)
    return FleetDemand(
        sizes[:, requested],
        np.array([counts[instance_type] for instance_type in classes], dtype=np.float64),
        room[:, requested],
        np.array(price),
    )


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


def _cheapest_price(pool: NodePool, instance_type: InstanceType) -> float | None:
    """Return the price of the cheapest offering that the pool allows, if any."""
    requirements = pool.requirements()
    if instance_type.requirements.find_disjoint_key(requirements) is not None:
        return None
    prices = [
        offering.price
        for offering in instance_type.offerings
        if offering.available and offering.requirements().find_disjoint_key(requirements) is None
    ]
    return min(prices, default=None)
