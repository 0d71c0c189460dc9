"""Ways to fill one node: pods that go together and are worth its price."""

from dataclasses import dataclass

import numpy as np

from dovetail.core.scheduling.fleet.demand import Floats, Ints
from dovetail.core.scheduling.fleet.problem import Problem, total_value, whole_pods

_MOST_SWAPPED_CLASSES = 96
_HARDLY = 1e-9
_AT_ONCE = 0.5
_WORTH_POLISHING = 0.96


@dataclass(frozen=True, slots=True)
class Patterns:
    """Filled nodes: row i is a node of type ``types[i]`` with ``counts[i]`` pods."""

    types: Ints
    counts: Floats
    yields: Floats
    """Value of the pods per dollar of the node."""


def balances(resources: int) -> Floats:
    """Return [L, R] ways to weigh resources against each other, each adding up to one.

    Two resources bind as a rule, cpu and memory; the rest count little, or,
    one at a time, a lot.
    """
    if resources == 1:
        return np.ones((1, 1))
    rest = 0.03 if resources > 2 else 0.0
    ways = []
    for first in (0.2, 0.35, 0.5, 0.6, 0.7, 0.85):
        way = np.full(resources, rest / max(1, resources - 2))
        way[0], way[1] = first * (1 - rest), (1 - first) * (1 - rest)
        ways.append(way)
    for other in range(2, resources):
        way = np.full(resources, 0.4 / (resources - 1))
        way[other] = 0.6
        ways.append(way)
    return np.array(ways)


def most_value(values: Floats, share: Floats, most: Floats, ways: Floats) -> Floats:
    """Return [T, L]: above what no node of type t can hold, by each way of weighing.

    Each way turns the resources into one; the knapsack with divisible pods
    that is left is solved by taking the densest pods first.
    """
    load = share @ ways.T  # [T, K, L]
    load = np.clip(load.transpose(0, 2, 1), 1e-15, 1e15)
    order = np.argsort(-(values / load), axis=2)
    size = np.take_along_axis(load, order, axis=2)
    limit = np.take_along_axis(np.broadcast_to(most[:, None, :], load.shape), order, axis=2)
    offered = size * limit
    before = np.cumsum(offered, axis=2) - offered
    taken = np.clip(1.0 - before, 0.0, offered) / size
    bound: Floats = (taken * values[order]).sum(axis=2)
    return bound


def fill(problem: Problem, values: Floats, free: Floats, limits: Floats, weights: Floats) -> Floats:
    """Fill nodes with the pods of most value for the room that they take.

    Row i is a node with ``free[i]`` room, which is used up in place, that takes
    at most ``limits[i]`` more pods of each class. Room is priced by
    ``weights[i]`` and by its scarcity: what is nearly used up becomes dear, so
    that all resources run out together. Half of what would fit is taken at
    once. Returns the pods added [N, K].
    """
    sizes, columns = problem.sizes, problem.sizes.T.copy()
    per_value = columns / values
    counts = np.zeros_like(limits)
    live = np.arange(len(free))
    room, left, open_to = free.copy(), limits.copy(), limits >= 1
    while len(live):
        # Room only shrinks: what does not fit now never will.
        for r, size in enumerate(columns):
            open_to &= room[:, r, None] >= size
        cost = (weights[live] / np.maximum(room, 1.0)) @ per_value
        cost[~open_to] = np.inf
        best = cost.argmin(axis=1)
        row = np.arange(len(live))
        going = open_to[row, best]
        fitting = whole_pods(room, sizes[best])
        taken = np.minimum(np.maximum(1.0, np.floor(fitting * _AT_ONCE)), left[row, best])
        taken[~going] = 0.0
        counts[live, best] += taken
        left[row, best] -= taken
        open_to[row, best] &= left[row, best] >= 1
        room -= taken[:, None] * sizes[best]
        if not going.all():
            free[live] = room
            live, room, left, open_to = live[going], room[going], left[going], open_to[going]
    return counts


def exchange(
    problem: Problem, values: Floats, limits: Floats, counts: Floats, free: Floats, rounds: int
) -> None:
    """Improve nodes in place: one pod leaves, a more valuable one takes its room."""
    kinds = len(values)
    if kinds > _MOST_SWAPPED_CLASSES:
        return
    gain = values[None, :] - values[:, None]
    leaves, comes = np.nonzero(gain > _HARDLY * values.max())
    if not len(leaves):
        return
    order = np.argsort(-gain[leaves, comes], kind="stable")
    leaves, comes = leaves[order], comes[order]
    more = problem.sizes[comes] - problem.sizes[leaves]
    rows = np.arange(len(counts))
    for _ in range(rounds):
        possible = (counts > 0)[rows][:, leaves] & (counts < limits)[rows][:, comes]
        for r in range(more.shape[1]):
            possible &= more[:, r] <= free[rows, r, None]
        first = possible.argmax(axis=1)
        better = possible[np.arange(len(rows)), first] if len(leaves) else np.zeros(0, np.bool_)
        rows, first = rows[better], first[better]
        if not len(rows):
            return
        counts[rows, leaves[first]] -= 1
        counts[rows, comes[first]] += 1
        free[rows] -= more[first]


def promising(
    problem: Problem, values: Floats, left: Floats, types: Ints, ways: Floats, least: float
) -> Patterns:
    """Return patterns of the given types, two each, for pods that are left.

    Types whose best conceivable yield is below ``least`` are passed over.
    """
    most = np.minimum(problem.most[types], left)
    bound = most_value(values, problem.share[types], most, ways)
    good = bound.min(axis=1) >= least * problem.price[types]
    if not good.any():
        good[:] = True
    tried = min(2, len(ways))
    way = np.argsort(bound[good], axis=1, kind="stable")[:, :tried]
    rows = np.repeat(types[good], tried)
    start = np.zeros((len(rows), len(values)))
    return complete(problem, values, left, rows, start, ways[way.ravel()])


def around_each_class(
    problem: Problem, values: Floats, left: Floats, types: Ints, weights: Floats
) -> Patterns:
    """Return for each of the types and each class the best node found that has such a pod."""
    kinds = len(values)
    rows, first = np.nonzero(np.minimum(problem.most[types], left) >= 1)
    start = np.zeros((len(rows), kinds))
    start[np.arange(len(rows)), first] = 1.0
    return complete(problem, values, left, types[rows], start, weights[rows])


def complete(
    problem: Problem,
    values: Floats,
    left: Floats,
    types: Ints,
    start: Floats,
    weights: Floats,
) -> Patterns:
    """Fill nodes that hold some pods already, and polish those that come out well."""
    free = problem.alloc[types] - start @ problem.sizes
    limits = np.minimum(problem.most[types], left)
    counts = start + fill(problem, values, free, limits - start, weights)
    yields = total_value(counts, values) / problem.price[types]
    close = np.flatnonzero(yields >= _WORTH_POLISHING * yields.max())
    types, counts, free = types[close], counts[close], free[close]
    exchange(problem, values, limits[close], counts, free, 3)
    return Patterns(types, counts, total_value(counts, values) / problem.price[types])
