"""Beam search: choose a few nodes together."""

from dataclasses import dataclass

import numpy as np

from dovetail.core.scheduling.arrays.types import Floats, Ints
from dovetail.core.scheduling.fleet.kernel import SingleNodes, fill, value_bound
from dovetail.core.scheduling.fleet.patterns import resource_weightings
from dovetail.core.scheduling.fleet.problem import FleetProblem, total_value

# Partial fleets kept per step.
_BEAM_WIDTH = 3
# Types tried for each next node.
_MAX_TYPES = 24
# USD per hour: smaller differences are ignored.
_EPSILON = 1e-9
# (type, pods [K]) of each node.
Nodes = tuple[tuple[int, Floats], ...]


@dataclass(frozen=True, slots=True)
class _PartialFleet:
    """Some nodes chosen, some pods unplaced."""

    cost: float
    unplaced: Floats
    nodes: Nodes


@dataclass(frozen=True, slots=True)
class _Children:
    """Partial fleets of a beam, each with one more node; one row per child."""

    parents: list[_PartialFleet]
    parent: Ints
    types: Ints
    pods: Floats
    unplaced: Floats
    cost: Floats

    def pick(self, row: int) -> _PartialFleet:
        """Return one row as a partial fleet."""
        node = (int(self.types[row]), self.pods[row])
        nodes = (*self.parents[int(self.parent[row])].nodes, node)
        return _PartialFleet(float(self.cost[row]), self.unplaced[row], nodes)


def beam_search(problem: FleetProblem, unplaced: Floats, values: Floats) -> Nodes:
    """Return cheap nodes that hold all unplaced pods [K].

    Partial fleets are compared by their cost plus the value of their unplaced
    pods. Each is also completed with a single node, if one holds all of them.
    """
    classes = np.flatnonzero(unplaced)
    if not len(classes):
        return ()
    part = problem.restrict_to(classes, unplaced[classes])
    nodes = _search(part, values[classes])
    return tuple((type_index, _expand_counts(counts, classes, len(unplaced))) for type_index, counts in nodes)


def _expand_counts(counts: Floats, classes: Ints, class_count: int) -> Floats:
    """Return counts of some classes as counts [K] of all classes."""
    all_counts = np.zeros(class_count)
    all_counts[classes] = counts
    return all_counts


def _search(problem: FleetProblem, values: Floats) -> Nodes:
    types, weights = _candidate_types(problem, values)
    single_nodes = SingleNodes(problem)
    beam = [_PartialFleet(0.0, problem.counts, ())]
    last, price = _complete_with_one_node(single_nodes, problem.counts[None], np.zeros(1))
    best: Nodes = ((int(last[0]), problem.counts),)
    cheapest = float(price[0])
    while beam:
        children = _expand(problem, values, beam, types, weights)
        last, price = _complete_with_one_node(single_nodes, children.unplaced, children.cost)
        row = int(price.argmin()) if len(price) else 0
        if len(price) and price[row] < cheapest - _EPSILON:
            done, cheapest = children.pick(row), float(price[row])
            more = ((int(last[row]), done.unplaced),) if done.unplaced.any() else ()
            best = (*done.nodes, *more)
        beam = _select_beam(children, values, cheapest)
    return best


def _candidate_types(problem: FleetProblem, values: Floats) -> tuple[Ints, Floats]:
    """Return the types with the best bounds, and two weightings to fill each with."""
    weightings = resource_weightings(problem.sizes.shape[1])
    bound = value_bound(values, problem.share, problem.max_pods, weightings)
    gain = bound.min(axis=1) / problem.price
    chosen = np.argsort(-gain, kind="stable")[:_MAX_TYPES]
    # Keep a type for every class, also for those that fit on few types.
    cheapest_holder = np.where(problem.max_pods >= 1, problem.price[:, None], np.inf).argmin(axis=0)
    chosen = np.union1d(chosen, cheapest_holder)
    tried = min(2, len(weightings))
    weighting = np.argsort(bound[chosen], axis=1, kind="stable")[:, :tried].ravel()
    return np.repeat(chosen, tried), weightings[weighting]


def _expand(
    problem: FleetProblem, values: Floats, beam: list[_PartialFleet], types: Ints, weights: Floats
) -> _Children:
    """Add one node of each type to each partial fleet of the beam."""
    # One row per (partial fleet, type): [beam × types].
    parent = np.repeat(np.arange(len(beam)), len(types))
    node_types = np.tile(types, len(beam))
    unplaced = np.array([partial.unplaced for partial in beam])[parent]
    limits = np.minimum(problem.max_pods[node_types], unplaced)
    room = problem.alloc[node_types]
    pods = fill(problem, values, room, limits, np.tile(weights, (len(beam), 1)))
    cost = np.array([partial.cost for partial in beam])[parent] + problem.price[node_types]
    used = np.flatnonzero(pods.any(axis=1))
    unplaced = unplaced[used] - pods[used]
    return _Children(beam, parent[used], node_types[used], pods[used], unplaced, cost[used])


def _complete_with_one_node(single_nodes: SingleNodes, unplaced: Floats, cost: Floats) -> tuple[Ints, Floats]:
    """Complete each fleet with at most one more node; return its type and the total cost."""
    last, price = single_nodes.find(unplaced)
    return last, cost + np.where(unplaced.any(axis=1), price, 0.0)


def _select_beam(children: _Children, values: Floats, cheapest: float) -> list[_PartialFleet]:
    """Return the partial fleets with the lowest estimates, without duplicates."""
    estimate = children.cost + total_value(children.unplaced, values)
    chosen: list[_PartialFleet] = []
    seen: set[bytes] = set()
    for row in np.argsort(estimate, kind="stable").tolist():
        if len(chosen) == _BEAM_WIDTH or estimate[row] >= cheapest - _EPSILON:
            break
        key = children.unplaced[row].tobytes()
        if key not in seen and children.unplaced[row].any():
            seen.add(key)
            chosen.append(children.pick(row))
    return chosen
