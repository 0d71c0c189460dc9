"""Patterns: sets of pods that fill one node and are worth its price."""

from dataclasses import dataclass

import numpy as np

from dovetail.core.scheduling.arrays.types import Floats, Ints
from dovetail.core.scheduling.fleet.kernel import fill, swap_pods, value_bound
from dovetail.core.scheduling.fleet.lp_relaxation import FluidRelaxation
from dovetail.core.scheduling.fleet.problem import FleetProblem, total_value, whole_pods

# Only patterns with at least this share of the best yield are improved by swaps.
_SWAP_THRESHOLD = 0.96
# Nodes per type of an even split: enough for distinct patterns.
_MAX_EVEN_NODES = 16


@dataclass(frozen=True, slots=True)
class Patterns:
    """Filled nodes: row i is a node of type ``types[i]`` with ``counts[i]`` pods."""

    types: Ints
    counts: Floats
    yields: Floats
    """[N]: value of the pods divided by the price of the node."""


def resource_weightings(resources: int) -> Floats:
    """Return [L, R] weightings of resources; each row sums to one.

    Usually CPU and memory, the first two resources, run out first. The others get
    little weight, or one of them at a time a lot.
    """
    if resources == 1:
        return np.ones((1, 1))
    rest = 0.03 if resources > 2 else 0.0
    weightings = []
    for first in (0.2, 0.35, 0.5, 0.6, 0.7, 0.85):
        weighting = np.full(resources, rest / max(1, resources - 2))
        weighting[0], weighting[1] = first * (1 - rest), (1 - first) * (1 - rest)
        weightings.append(weighting)
    for other in range(2, resources):
        weighting = np.full(resources, 0.4 / (resources - 1))
        weighting[other] = 0.6
        weightings.append(weighting)
    return np.array(weightings)


def generate_patterns(
    problem: FleetProblem, values: Floats, unplaced: Floats, types: Ints, weightings: Floats, min_yield: float
) -> Patterns:
    """Return two patterns for each of the given types, from unplaced pods [K].

    Types whose upper bound of the yield is below ``min_yield`` are skipped.
    """
    max_pods = np.minimum(problem.max_pods[types], unplaced)
    bound = value_bound(values, problem.share[types], max_pods, weightings)
    good = bound.min(axis=1) >= min_yield * problem.price[types]
    if not good.any():
        good[:] = True
    tried = min(2, len(weightings))
    weighting = np.argsort(bound[good], axis=1, kind="stable")[:, :tried]
    rows = np.repeat(types[good], tried)
    start = np.zeros((len(rows), len(values)))
    return complete_patterns(problem, values, unplaced, rows, start, weightings[weighting.ravel()])


def patterns_with_each_class(
    problem: FleetProblem, values: Floats, unplaced: Floats, types: Ints, weights: Floats
) -> Patterns:
    """Return, for each type and class, the best pattern found with such a pod."""
    class_count = len(values)
    rows, first = np.nonzero(np.minimum(problem.max_pods[types], unplaced) >= 1)
    start = np.zeros((len(rows), class_count))
    start[np.arange(len(rows)), first] = 1.0
    return complete_patterns(problem, values, unplaced, types[rows], start, weights[rows])


def complete_patterns(
    problem: FleetProblem, values: Floats, unplaced: Floats, types: Ints, start: Floats, weights: Floats
) -> Patterns:
    """Fill nodes that already hold ``start`` [N, K] pods; improve the good ones by swaps."""
    free = problem.alloc[types] - start @ problem.sizes
    limits = np.minimum(problem.max_pods[types], unplaced)
    counts = start + fill(problem, values, free, limits - start, weights)
    yields = total_value(counts, values) / problem.price[types]
    good = np.flatnonzero(yields >= _SWAP_THRESHOLD * yields.max())
    types, counts, free = types[good], counts[good], free[good]
    swap_pods(problem, values, limits[good], counts, free, 3)
    return Patterns(types, counts, total_value(counts, values) / problem.price[types])


def split_fluid_fleet(
    problem: FleetProblem, relaxation: FluidRelaxation, values: Floats, weightings: Floats
) -> Patterns:
    """Return patterns for a few nodes of each type of the fluid optimum."""
    rows: list[Ints] = []
    counts: list[Floats] = []
    max_pods = problem.max_pods[relaxation.types]
    weighting = value_bound(values, problem.share[relaxation.types], max_pods, weightings).argmin(axis=1)
    for at, type_index in enumerate(relaxation.types.tolist()):
        nodes = min(_MAX_EVEN_NODES, max(1, int(relaxation.nodes[at])))
        weights = weightings[weighting[at]]
        quota = np.floor(relaxation.per_node[at] * nodes + 0.5)
        pods, free = _split_evenly(problem, type_index, quota, nodes, weights)
        limits = np.broadcast_to(problem.max_pods[type_index], pods.shape) - pods
        pods += fill(problem, values, free, limits, np.tile(weights, (nodes, 1)))
        limits = np.broadcast_to(problem.max_pods[type_index], pods.shape)
        swap_pods(problem, values, limits, pods, free, 3)
        rows.append(np.full(nodes, type_index))
        counts.append(pods)
    types, pods = np.concatenate(rows), np.concatenate(counts)
    return Patterns(types, pods, total_value(pods, values) / problem.price[types])


def _split_evenly(
    problem: FleetProblem, type_index: int, quota: Floats, nodes: int, weights: Floats
) -> tuple[Floats, Floats]:
    """Distribute ``quota`` [K] pods over ``nodes`` nodes of one type, largest first.

    The remainder of a class goes to the nodes with most of what it needs. Pods that
    do not fit are left out. Return counts [N, K] and free resources [N, R].
    """
    alloc, share = problem.alloc[type_index], problem.share[type_index]
    free = np.tile(alloc, (nodes, 1))
    counts = np.zeros((nodes, len(quota)))
    # [K, R]: how much each class needs of each resource.
    need_weight = share * weights / np.maximum(alloc, 1.0)
    classes = np.flatnonzero((quota >= 1) & (problem.max_pods[type_index] >= 1))
    for k in classes[np.argsort(-share[classes].max(axis=1), kind="stable")].tolist():
        room = np.minimum(whole_pods(free, problem.sizes[k]), problem.max_pods[type_index, k])
        each, remainder = divmod(quota[k], nodes)
        added = np.full(nodes, each)
        added[np.argsort(-(free @ need_weight[k]), kind="stable")[: int(remainder)]] += 1
        added = np.minimum(added, room)
        counts[:, k] = added
        free -= added[:, None] * problem.sizes[k]
    return counts, free
