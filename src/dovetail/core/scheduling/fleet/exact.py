"""Exact optimum for very small demands and for a single class."""

import numpy as np

from dovetail.core.scheduling.arrays.types import Bools, Floats, Ints
from dovetail.core.scheduling.fleet.kernel import SingleNodes
from dovetail.core.scheduling.fleet.problem import FleetProblem
from dovetail.core.scheduling.fleet.rounding import Fleet

# Combinations of pods in the table of ``pack_small``.
_MAX_STATES = 400
# Pods in the table of ``pack_identical``.
_MAX_TABLE = 1024
# USD per node, far below any real price: of equal fleets the one with fewer nodes wins.
_NODE_EPSILON = 1e-10


def pack_identical(problem: FleetProblem) -> Fleet:
    """Pack pods of one class: only the number of pods per node matters.

    Most pods go to the type with the lowest price per pod. The last part, a few of
    the largest nodes long, is solved by dynamic programming over the pods left.
    """
    fleet = Fleet(problem, problem.counts)
    pods_per_node, types = _pods_per_type(problem)
    price = problem.price[types] + _NODE_EPSILON
    unplaced = int(problem.counts[0])
    table = max(_MAX_TABLE, 2 * int(pods_per_node.max()))
    best = int(np.argmin(price / pods_per_node))
    bulk_nodes = max(0, unplaced - table) // int(pods_per_node[best])
    if bulk_nodes:
        fleet.add_nodes(int(types[best]), np.array([float(pods_per_node[best])]), bulk_nodes)
        unplaced -= bulk_nodes * int(pods_per_node[best])
    cheapest, choice = np.zeros(unplaced + 1), np.zeros(unplaced + 1, dtype=np.int64)
    # cheapest[n]: price of the best fleet for n pods; choice[n]: its last node.
    for pods in range(1, unplaced + 1):
        total = price + cheapest[np.maximum(pods - pods_per_node, 0)]
        choice[pods] = at = int(total.argmin())
        cheapest[pods] = total[at]
    while unplaced > 0:
        at = int(choice[unplaced])
        added = min(unplaced, int(pods_per_node[at]))
        fleet.add_nodes(int(types[at]), np.array([float(added)]), 1)
        unplaced -= added
    return fleet


def _pods_per_type(problem: FleetProblem) -> tuple[Ints, Ints]:
    """Return pods per node and types, without dominated types; ascending in both."""
    pods_per_node = problem.max_pods[:, 0].astype(np.int64)
    order = np.lexsort((np.arange(len(pods_per_node)), problem.price, -pods_per_node))
    cheaper = np.minimum.accumulate(problem.price[order])
    first = np.concatenate([[True], problem.price[order][1:] < cheaper[:-1]])
    kept = order[first & (pods_per_node[order] >= 1)][::-1]
    return pods_per_node[kept], kept


def is_small(counts: Floats) -> bool:
    """Return True if the table of ``pack_small`` is small enough."""
    return bool(np.log1p(counts).sum() <= np.log(_MAX_STATES))


def pack_small(problem: FleetProblem, counts: Floats) -> Fleet:
    """Pack few pods at the lowest possible price, by dynamic programming.

    A state is the number of unplaced pods of each class. From each state the best
    step adds a node with some of them, at least one of the first unplaced class.
    """
    fleet = Fleet(problem, counts)
    present = np.flatnonzero(counts)
    radix = counts[present].astype(np.int64) + 1
    # [states, K]: mixed-radix numbers, so removing option o from state s gives s - o.
    states = np.indices(tuple(radix)).reshape(len(radix), -1).T.astype(np.float64)
    types, price = SingleNodes(problem.restrict_to(present, counts[present])).find(states)
    price = price + _NODE_EPSILON
    cheapest, choice = np.zeros(len(states)), np.zeros(len(states), dtype=np.int64)
    is_option = _find_options(states) & np.isfinite(price)
    for state in range(1, len(states)):
        options = is_option[state].nonzero()[0]
        total = price[options] + cheapest[state - options]
        at = int(total.argmin())
        choice[state], cheapest[state] = options[at], total[at]
    state = len(states) - 1
    while state:
        chosen_state = int(choice[state])
        node = np.zeros(len(counts))
        node[present] = states[chosen_state]
        fleet.add_nodes(int(types[chosen_state]), node, 1)
        state -= chosen_state
    return fleet


def _find_options(states: Floats) -> Bools:
    """Return [S, S]: nodes (as states) with part of each state's pods, one of the first class among them."""
    first_class = (states > 0).argmax(axis=1)
    is_option: Bools = states.T[first_class] >= 1
    for pods in states.T:
        is_option &= pods <= pods[:, None]
    return is_option
