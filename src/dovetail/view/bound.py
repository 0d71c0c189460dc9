"""Lower bound of the bill: no fleet of the NodePools' offerings can be cheaper.

Values of a core and of a byte prove a bound if no offering has resources of more
value than its price: then every fleet costs at least the value of all requests.
The best values are searched, but each pair of feasible values proves its bound.
"""

from collections.abc import Iterable, Mapping
from typing import Final

import numpy as np
from numpy.typing import NDArray

from dovetail.model.cloud.instance_type import InstanceType
from dovetail.model.karpenter.nodepool import NodePool
from dovetail.model.kube.resources import CPU, MEMORY
from dovetail.model.node import Node
from dovetail.state.cluster.cache import ClusterCache

_ROUNDS: Final = 60
"""Of the search; each leaves two thirds of the interval."""

Floats = NDArray[np.float64]


def compute_lower_bound(cache: ClusterCache, types: Mapping[str, tuple[InstanceType, ...]]) -> float | None:
    """Return a lower bound of the price of NodePools' nodes; None: unknown.

    Pods may move to free resources of other nodes. DaemonSet pods do not count.
    """
    offerings = np.array(
        [row for pool in cache.pools() for row in _list_offerings(pool, types.get(pool.name, ()))]
    )
    if not offerings.size:
        return None
    requested = np.zeros(2)
    for node in cache.joined_nodes():
        requested += _sum_requests(node) if node.pool else -_get_free(node)
    for pod in cache.unbound_pods():
        if not pod.is_terminal and not pod.deleting and not pod.is_owned_by_daemon_set:
            requested += (pod.spec.requests.get(CPU, 0), pod.spec.requests.get(MEMORY, 0))
    return _maximize(np.maximum(requested, 0.0), offerings)


def _list_offerings(pool: NodePool, types: Iterable[InstanceType]) -> Iterable[tuple[float, float, float]]:
    """Return allocatable CPU and memory, and the lowest price, of each type of a NodePool."""
    requirements = pool.requirements()
    for instance_type in types:
        if requirements.find_disjoint_key(instance_type.requirements) is not None:
            continue
        prices = [
            offering.price
            for offering in instance_type.offerings
            if offering.price == offering.price  # NaN: without a price.
            and requirements.find_disjoint_key(offering.requirements()) is None
        ]
        room = instance_type.allocatable
        if prices and room.get(CPU, 0) > 0 and room.get(MEMORY, 0) > 0:
            yield room[CPU], room[MEMORY], min(prices)


def _maximize(requested: Floats, offerings: Floats) -> float:
    """Return the value of ``requested`` at the best feasible values.

    Found by ternary search.

    For a value of CPU, the highest feasible one of memory follows; the bound is
    concave in the value of CPU.
    """
    cpu, memory, price = offerings.T

    def bound(value: float) -> float:
        return float(requested[0] * value + requested[1] * ((price - value * cpu) / memory).min())

    low, high = 0.0, float((price / cpu).min())
    for _ in range(_ROUNDS):
        third = (high - low) / 3
        if bound(low + third) < bound(high - third):
            low += third
        else:
            high -= third
    return max(0.0, bound((low + high) / 2))


def _sum_requests(node: Node) -> Floats:
    pods = [pod for pod in node.pods if not pod.is_terminal and not pod.is_owned_by_daemon_set]
    return np.array(
        [
            float(sum(pod.spec.requests.get(CPU, 0) for pod in pods)),
            float(sum(pod.spec.requests.get(MEMORY, 0) for pod in pods)),
        ]
    )


def _get_free(node: Node) -> Floats:
    free = node.available()
    return np.array([float(max(0, free.get(CPU, 0))), float(max(0, free.get(MEMORY, 0)))])
