"""Column generation: how often to use which pattern, if nodes were divisible."""

from dataclasses import dataclass

import numpy as np

from dovetail.core.scheduling.arrays.types import Floats, Ints
from dovetail.core.scheduling.fleet.kernel import value_bound
from dovetail.core.scheduling.fleet.lp_relaxation import FluidRelaxation
from dovetail.core.scheduling.fleet.lp_solver import INFINITE, LinearProgram
from dovetail.core.scheduling.fleet.patterns import (
    Patterns,
    generate_patterns,
    patterns_with_each_class,
    resource_weightings,
    split_fluid_fleet,
)
from dovetail.core.scheduling.fleet.problem import FleetProblem

# A class may stay unserved at a price a little above its value in the fluid
# relaxation. That keeps values from oscillating while few patterns exist. Where no
# pattern is that cheap, the price is raised in later rounds (after this share).
_UNSERVED_MARKUP, _UNSERVED_RAISE, _RAISE_FROM = 0.05, 1.03, 0.3
# Types searched for new patterns.
_MAX_CANDIDATES = 16
# Skip types whose bound on value per price is below.
_MIN_YIELD = 0.985
# Stop when no pattern has a higher yield, or when the cost is this close to the bound.
_CONVERGED = 1.003
_NEAR_BOUND = 1.003
# Only patterns with a reduced cost below zero can improve the fleet.
_MIN_IMPROVEMENT = 1 + 1e-6
# On small nodes it matters which few pods share a node: seed patterns with every class.
_SMALL_NODE_PODS = 15
_SMALL_TYPES_PER_ROUND = 4
# Primal simplex is faster after new patterns. With few classes the vertices of dual simplex
# give slightly cheaper fleets (0.1 %).
_FEW_CLASSES = 24


@dataclass(frozen=True, slots=True)
class FractionalFleet:
    """A fractional fleet: pattern i is used ``multiplicity[i]`` times."""

    types: Ints
    counts: Floats
    multiplicity: Floats
    values: Floats
    """[K]: marginal cost of one more pod of each class (dual values)."""
    weights: Floats
    """[T, R]: weights of the resources on a node of each type that a pattern has."""
    candidate_types: Ints
    """Types whose pods may be worth their price, best first."""
    node_price: float
    """Mean price of a node."""


class ColumnGeneration:
    """Column generation that can be continued: patterns and the basis are kept."""

    def __init__(self, problem: FleetProblem, relaxation: FluidRelaxation) -> None:
        self._problem = problem
        self._bound = relaxation.bound
        self._master = _Master(problem, relaxation)
        self._weightings = resource_weightings(problem.sizes.shape[1])
        self._values = relaxation.values * (1 + _UNSERVED_MARKUP / 2)
        self._candidate_types = _candidate_types(problem, self._values, self._weightings)
        self._rounds = 0
        self._master.add(split_fluid_fleet(problem, relaxation, self._values, self._weightings), 0.0)

    def run(self, rounds: int) -> FractionalFleet:
        """Return a good fractional fleet after at most ``rounds`` rounds in total.

        Each round takes pod values from the linear program over all patterns, and adds
        patterns whose pods are worth more than the node costs.
        """
        problem, master = self._problem, self._master
        for round_number in range(self._rounds, rounds):
            patterns = self._add_patterns(round_number)
            if round_number >= _RAISE_FROM * rounds and not master.raise_unserved_price():
                if patterns.yields.max() < _CONVERGED:
                    break
            self._values = master.solve()
            if master.cost < self._bound * _NEAR_BOUND:
                break
        self._rounds = rounds
        master.solve()
        used = np.unique(master.types)
        weights = np.zeros((len(problem.price), problem.sizes.shape[1]))
        weights[used] = _best_weightings(problem, self._values, self._weightings, used)
        return FractionalFleet(
            master.types,
            master.counts,
            master.multiplicity,
            self._values,
            weights,
            self._candidate_types,
            node_price=master.cost / max(1.0, float(master.multiplicity.sum())),
        )

    def _add_patterns(self, round_number: int) -> Patterns:
        """Add the best patterns at the present pod values; return those of all candidate types."""
        problem, values, weightings = self._problem, self._values, self._weightings
        patterns = generate_patterns(
            problem, values, problem.counts, self._candidate_types, weightings, _MIN_YIELD
        )
        self._master.add(patterns, _MIN_IMPROVEMENT)
        small = _small_types(patterns, round_number)
        if len(small):
            weights = _best_weightings(problem, values, weightings, small)
            seeded = patterns_with_each_class(problem, values, problem.counts, small, weights)
            self._master.add(seeded, _MIN_IMPROVEMENT)
        return patterns


class _Master:
    """Master problem: a linear program over all patterns that covers each class.

    Columns: first one "unserved" column per class, then one per pattern.
    """

    def __init__(self, problem: FleetProblem, relaxation: FluidRelaxation) -> None:
        self._problem = problem
        self._min_values = relaxation.values * 0.5
        class_count = len(problem.counts)
        unbounded = np.full(class_count, INFINITE)
        self._program = LinearProgram(problem.counts, unbounded, primal=class_count > _FEW_CLASSES)
        self._price_unserved = relaxation.values * (1 + _UNSERVED_MARKUP)
        self._unserved = problem.counts
        self._program.add_dense_columns(self._price_unserved, np.eye(class_count))
        self._seen: set[tuple[int, bytes]] = set()
        self.types: Ints = np.zeros(0, np.int64)
        self.counts: Floats = np.zeros((0, class_count))
        self.multiplicity: Floats = np.zeros(0)
        self.cost = INFINITE

    def add(self, patterns: Patterns, min_yield: float) -> None:
        """Add patterns that are new and have more than ``min_yield``."""
        new_rows = []
        for row in np.flatnonzero(patterns.yields > min_yield).tolist():
            key = (int(patterns.types[row]), patterns.counts[row].tobytes())
            if key not in self._seen:
                self._seen.add(key)
                new_rows.append(row)
        if new_rows:
            types, counts = patterns.types[new_rows], patterns.counts[new_rows]
            self.types = np.concatenate([self.types, types])
            self.counts = np.concatenate([self.counts, counts])
            self._program.add_dense_columns(self._problem.price[types], counts)

    def raise_unserved_price(self) -> bool:
        """Raise the price of unserved pods; return True if there are any."""
        unserved = np.flatnonzero(self._unserved > 0)
        self._price_unserved[unserved] *= _UNSERVED_RAISE
        self._program.change_costs(unserved, self._price_unserved[unserved])
        return bool(len(unserved))

    def solve(self) -> Floats:
        """Solve the program; return the pod values [K]."""
        solution = self._program.solve()
        self.cost = solution.objective
        self._unserved, self.multiplicity = np.split(solution.values, [len(self._problem.counts)])
        return np.maximum(solution.duals, self._min_values)


def _candidate_types(problem: FleetProblem, values: Floats, weightings: Floats) -> Ints:
    """Return the types with the highest bound on their yield, best first."""
    bound = value_bound(values, problem.share, problem.max_pods, weightings).min(axis=1) / problem.price
    order: Ints = np.argsort(-bound, kind="stable")[:_MAX_CANDIDATES]
    return order


def _small_types(patterns: Patterns, round_number: int) -> Ints:
    """Return some types with few pods per node, different ones in each round."""
    few = np.flatnonzero(patterns.counts.sum(axis=1) <= _SMALL_NODE_PODS)
    best_first = few[np.argsort(-patterns.yields[few], kind="stable")]
    types = list(dict.fromkeys(patterns.types[best_first].tolist()))
    number = min(_SMALL_TYPES_PER_ROUND, len(types))
    chosen = [types[(round_number * _SMALL_TYPES_PER_ROUND + i) % len(types)] for i in range(number)]
    return np.array(chosen, dtype=np.int64)


def _best_weightings(problem: FleetProblem, values: Floats, weightings: Floats, types: Ints) -> Floats:
    """Return [types, R]: the weighting that bounds the value of each type best."""
    bound = value_bound(values, problem.share[types], problem.max_pods[types], weightings)
    weights: Floats = weightings[bound.argmin(axis=1)]
    return weights
