"""Column generation: which patterns, how often, were nodes divisible."""

from dataclasses import dataclass

import numpy as np

from dovetail.core.scheduling.fleet.demand import Floats, Ints
from dovetail.core.scheduling.fleet.even_split import dealt
from dovetail.core.scheduling.fleet.lp_relaxation import Worth
from dovetail.core.scheduling.fleet.lp_solver import INFINITE, Programme
from dovetail.core.scheduling.fleet.patterns import (
    Patterns,
    around_each_class,
    balances,
    most_value,
    promising,
)
from dovetail.core.scheduling.fleet.problem import Problem

# A class may stay unserved at a price a little above what the fluid relaxation says a
# pod is worth: that keeps values from swinging while few patterns are known. Where no
# pattern comes that cheap the price rises, in later rounds.
_ABOVE, _RISE, _RISING_FROM = 0.05, 1.03, 0.3
_TYPES_TRIED = 16
_HOPEFUL = 0.985
_CONVERGED = 1.003
_CLOSE = 1.003
_BETTER = 1 + 1e-6
# On small nodes it matters which few pods meet; there every class has its turn.
_FEW_PODS = 15
_SMALL_TYPES = 4


@dataclass(frozen=True, slots=True)
class Mix:
    """A fractional fleet: pattern i of the pool ``often[i]`` times."""

    types: Ints
    counts: Floats
    often: Floats
    values: Floats
    """[K]: what one more pod of each class would cost."""
    weights: Floats
    """[T, R]: how the resources of a node of each type weigh against each other."""
    hopeful: Ints
    """Types that may yield their price, best first."""
    node_price: float
    """Of a node, in the mean."""


def generate(problem: Problem, worth: Worth, rounds: int) -> Mix:
    """Find a good mix of patterns in a fixed number of rounds.

    Each round prices pods by the linear programme over the patterns known,
    and looks for nodes whose pods are worth more than they cost.
    """
    master = _Master(problem, worth)
    ways = balances(problem.sizes.shape[1])
    values = worth.values * (1 + _ABOVE / 2)
    hopeful = _hopeful_types(problem, values, ways)
    master.add(dealt(problem, worth, values, ways), 0.0)
    for turn in range(rounds):
        found = promising(problem, values, problem.counts, hopeful, ways, _HOPEFUL)
        master.add(found, _BETTER)
        small = _small_types(found, turn)
        if len(small):
            weights = _weights(problem, values, ways, small)
            master.add(around_each_class(problem, values, problem.counts, small, weights), _BETTER)
        if turn >= _RISING_FROM * rounds and not master.raise_unserved():
            if found.yields.max() < _CONVERGED:
                break
        values = master.solve()
        if master.cost < worth.bound * _CLOSE:
            break
    master.solve()
    weights = _weights(problem, values, ways, np.arange(len(problem.price)))
    node_price = master.cost / max(1.0, float(master.often.sum()))
    return Mix(master.types, master.counts, master.often, values, weights, hopeful, node_price)


class _Master:
    """The linear programme over all patterns found: each class must be covered."""

    def __init__(self, problem: Problem, worth: Worth) -> None:
        self._problem = problem
        self._least_values = worth.values * 0.5
        kinds = len(problem.counts)
        self._programme = Programme(problem.counts, np.full(kinds, INFINITE))
        self._price_unserved = worth.values * (1 + _ABOVE)
        self._unserved = problem.counts
        self._programme.add_dense_columns(self._price_unserved, np.eye(kinds))
        self._seen: set[tuple[int, bytes]] = set()
        self.types: Ints = np.zeros(0, np.int64)
        self.counts: Floats = np.zeros((0, kinds))
        self.often: Floats = np.zeros(0)
        self.cost = INFINITE

    def add(self, found: Patterns, least_yield: float) -> None:
        """Take in what is new and good enough."""
        fresh = []
        for row in np.flatnonzero(found.yields > least_yield).tolist():
            key = (int(found.types[row]), found.counts[row].tobytes())
            if key not in self._seen:
                self._seen.add(key)
                fresh.append(row)
        if fresh:
            types, counts = found.types[fresh], found.counts[fresh]
            self.types = np.concatenate([self.types, types])
            self.counts = np.concatenate([self.counts, counts])
            self._programme.add_dense_columns(self._problem.price[types], counts)

    def raise_unserved(self) -> bool:
        """Make it dearer to leave pods unserved; tells whether any are."""
        short = np.flatnonzero(self._unserved > 0)
        self._price_unserved[short] *= _RISE
        self._programme.change_costs(short, self._price_unserved[short])
        return bool(len(short))

    def solve(self) -> Floats:
        """Find the cheapest mix; returns what a pod of each class is worth in it."""
        solved = self._programme.solve()
        self.cost = solved.objective
        self._unserved, self.often = np.split(solved.values, [len(self._problem.counts)])
        return np.maximum(solved.duals, self._least_values)


def _hopeful_types(problem: Problem, values: Floats, ways: Floats) -> Ints:
    """Return the types with the highest bound on their yield, best first."""
    bound = most_value(values, problem.share, problem.most, ways).min(axis=1) / problem.price
    order: Ints = np.argsort(-bound, kind="stable")[:_TYPES_TRIED]
    return order


def _small_types(found: Patterns, turn: int) -> Ints:
    """Return some types with few pods a node, others each turn."""
    few = np.flatnonzero(found.counts.sum(axis=1) <= _FEW_PODS)
    best_first = few[np.argsort(-found.yields[few], kind="stable")]
    kinds = list(dict.fromkeys(found.types[best_first].tolist()))
    some = min(_SMALL_TYPES, len(kinds))
    chosen = [kinds[(turn * _SMALL_TYPES + i) % len(kinds)] for i in range(some)]
    return np.array(chosen, dtype=np.int64)


def _weights(problem: Problem, values: Floats, ways: Floats, types: Ints) -> Floats:
    """Return for each type the weighing of resources that bounds its value best."""
    bound = most_value(values, problem.share[types], problem.most[types], ways)
    weights: Floats = ways[bound.argmin(axis=1)]
    return weights
