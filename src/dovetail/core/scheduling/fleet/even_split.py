"""Pods dealt out evenly over equal nodes, so that every node is full of everything."""

import numpy as np

from dovetail.core.scheduling.fleet.demand import Floats, Ints
from dovetail.core.scheduling.fleet.lp_relaxation import Worth
from dovetail.core.scheduling.fleet.patterns import (
    Patterns,
    exchange,
    fill,
    most_value,
)
from dovetail.core.scheduling.fleet.problem import Problem, total_value, whole_pods

_NODES_DEALT = 16


def dealt(problem: Problem, worth: Worth, values: Floats, ways: Floats) -> Patterns:
    """Return patterns that realise the fluid optimum on a few nodes of each of its types."""
    rows: list[Ints] = []
    counts: list[Floats] = []
    most = problem.most[worth.types]
    way = most_value(values, problem.share[worth.types], most, ways).argmin(axis=1)
    for at, kind in enumerate(worth.types.tolist()):
        nodes = min(_NODES_DEALT, max(1, int(worth.nodes[at])))
        weights = ways[way[at]]
        quota = np.floor(worth.per_node[at] * nodes + 0.5)
        pods, free = deal(problem, kind, quota, nodes, weights)
        limits = np.broadcast_to(problem.most[kind], pods.shape) - pods
        pods += fill(problem, values, free, limits, np.tile(weights, (nodes, 1)))
        limits = np.broadcast_to(problem.most[kind], pods.shape)
        exchange(problem, values, limits, pods, free, 3)
        rows.append(np.full(nodes, kind))
        counts.append(pods)
    types, pods = np.concatenate(rows), np.concatenate(counts)
    return Patterns(types, pods, total_value(pods, values) / problem.price[types])


def deal(
    problem: Problem, kind: int, quota: Floats, nodes: int, weights: Floats
) -> tuple[Floats, Floats]:
    """Deal ``quota[k]`` pods of each class over nodes of one type, largest pods first.

    The odd pods of a class go where most is left of what they need. What does
    not fit stays out. Returns counts [N, K] and free room [N, R].
    """
    alloc, share = problem.alloc[kind], problem.share[kind]
    free = np.tile(alloc, (nodes, 1))
    counts = np.zeros((nodes, len(quota)))
    pull = share * weights / np.maximum(alloc, 1.0)
    dealt_classes = np.flatnonzero((quota >= 1) & (problem.most[kind] >= 1))
    for k in dealt_classes[np.argsort(-share[dealt_classes].max(axis=1), kind="stable")].tolist():
        room = np.minimum(whole_pods(free, problem.sizes[k]), problem.most[kind, k])
        each, odd = divmod(quota[k], nodes)
        given = np.full(nodes, each)
        given[np.argsort(-(free @ pull[k]), kind="stable")[: int(odd)]] += 1
        given = np.minimum(given, room)
        counts[:, k] = given
        free -= given[:, None] * problem.sizes[k]
    return counts, free
