"""The optimum itself, where the work is small or all pods are the same."""

import numpy as np

from dovetail.core.scheduling.fleet.demand import Floats, Ints
from dovetail.core.scheduling.fleet.problem import Problem
from dovetail.core.scheduling.fleet.rounding import Fleet

_MOST_STATES = 400
_LONGEST_TABLE = 1024
# Of two fleets at one price the one with fewer nodes wins; far below any real price.
_PER_NODE = 1e-10


def pack_identical(problem: Problem) -> Fleet:
    """Pack pods of one class: which nodes, when all that counts is how many they hold.

    Far from the end the type with the cheapest place for a pod is right; the
    last stretch, a few of the largest nodes long, is worked out exactly.
    """
    fleet = Fleet(problem, problem.counts)
    holds, types = _places(problem)
    price = problem.price[types] + _PER_NODE
    waiting = int(problem.counts[0])
    table = max(_LONGEST_TABLE, 2 * int(holds.max()))
    best = int(np.argmin(price / holds))
    bulk = max(0, waiting - table) // int(holds[best])
    if bulk:
        fleet.buy(int(types[best]), np.array([float(holds[best])]), bulk)
        waiting -= bulk * int(holds[best])
    cheapest, choice = np.zeros(waiting + 1), np.zeros(waiting + 1, dtype=np.int64)
    for pods in range(1, waiting + 1):
        total = price + cheapest[np.maximum(pods - holds, 0)]
        choice[pods] = at = int(total.argmin())
        cheapest[pods] = total[at]
    while waiting > 0:
        at = int(choice[waiting])
        taken = min(waiting, int(holds[at]))
        fleet.buy(int(types[at]), np.array([float(taken)]), 1)
        waiting -= taken
    return fleet


def _places(problem: Problem) -> tuple[Ints, Ints]:
    """Return how many pods useful types hold, and the types; more pods, higher price."""
    holds = problem.most[:, 0].astype(np.int64)
    order = np.lexsort((np.arange(len(holds)), problem.price, -holds))
    cheaper = np.minimum.accumulate(problem.price[order])
    first = np.concatenate([[True], problem.price[order][1:] < cheaper[:-1]])
    kept = order[first & (holds[order] >= 1)][::-1]
    return holds[kept], kept


def is_small(counts: Floats) -> bool:
    """Tell whether there are few enough ways to take some of the pods."""
    return bool(np.log1p(counts).sum() <= np.log(_MOST_STATES))


def pack_small(problem: Problem, counts: Floats) -> Fleet:
    """Pack few pods at the least price there is.

    A state is how many pods of each class are still waiting. The best way on
    from a state buys a node for some of them, among them one of its first
    class, and goes on from what remains.
    """
    fleet = Fleet(problem, counts)
    present = np.flatnonzero(counts)
    radix = counts[present].astype(np.int64) + 1
    states = np.indices(tuple(radix)).reshape(len(radix), -1).T.astype(np.float64)
    types, price = problem.of_classes(present, counts[present]).one_node(states)
    price = price + _PER_NODE
    cheapest, choice = np.zeros(len(states)), np.zeros(len(states), dtype=np.int64)
    buyable = np.flatnonzero(np.isfinite(price))
    for state in range(1, len(states)):
        pods = states[state]
        first = int(np.flatnonzero(pods)[0])
        options = buyable[buyable <= state]
        part = states[options]
        options = options[(part <= pods).all(axis=1) & (part[:, first] >= 1)]
        total = price[options] + cheapest[state - options]
        at = int(total.argmin())
        choice[state], cheapest[state] = options[at], total[at]
    state = len(states) - 1
    while state:
        bought = int(choice[state])
        node = np.zeros(len(counts))
        node[present] = states[bought]
        fleet.buy(int(types[bought]), node, 1)
        state -= bought
    return fleet
