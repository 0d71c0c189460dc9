"""A cluster reduced to what a lower bound needs."""

from collections import Counter

import numpy as np

from bench.bound import Work
from dovetail.model import labels as label_keys
from dovetail.model.cloud.instance_type import InstanceType
from dovetail.model.karpenter.nodepool import NodePool
from dovetail.model.kube.pod import Pod
from dovetail.model.kube.resources import CPU, MEMORY, PODS
from dovetail.model.snapshot import ClusterSnapshot

_RESOURCES = (CPU, MEMORY, PODS)


def work_of(snapshot: ClusterSnapshot) -> Work:
    """Reduce a cluster with one pool to sizes, counts, room and prices.

    Rules between pods are left out, which can only lower the bound, but one:
    pods that keep all of each other off their host take one slot of a node
    each, and a node has one.
    """
    (pool,) = snapshot.node_pools
    counts = Counter(_size(pod) for pod in snapshot.pending)
    kinds = sorted(counts)
    daemons = np.array([_size(one.pod)[:-1] for one in snapshot.daemon_sets]).reshape(-1, 3)
    alloc, price = [], []
    for one in snapshot.instance_types[pool.name]:
        cheapest = _price(pool, one)
        room = np.array([one.allocatable.get(name, 0) for name in _RESOURCES]) - daemons.sum(axis=0)
        if cheapest is not None and (room > 0).all():
            alloc.append([*room.tolist(), 1])
            price.append(cheapest)
    sizes, room = np.array(kinds, dtype=np.float64), np.array(alloc, dtype=np.float64)
    asked = (sizes > 0).any(axis=0)
    return Work(
        sizes[:, asked],
        np.array([counts[kind] for kind in kinds], dtype=np.float64),
        room[:, asked],
        np.array(price),
    )


def _size(pod: Pod) -> tuple[int, ...]:
    return (*(pod.spec.requests.get(name, 0) for name in _RESOURCES), int(_keeps_apart(pod)))


def _keeps_apart(pod: Pod) -> bool:
    """Tell whether the pod shares a host with no pod like itself."""
    return any(
        term.topology_key == label_keys.HOSTNAME
        and term.selector is not None
        and term.selector.matches(pod.labels)
        for term in pod.spec.anti_affinity
    )


def _price(pool: NodePool, kind: InstanceType) -> float | None:
    """Return the cheapest way in which the pool may buy a type, if there is one."""
    wanted = pool.requirements()
    if kind.requirements.clash(wanted) is not None:
        return None
    prices = [
        offering.price
        for offering in kind.offerings
        if offering.available and offering.requirements().clash(wanted) is None
    ]
    return min(prices, default=None)
