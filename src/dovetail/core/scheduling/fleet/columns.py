"""Column generation: which patterns, how often, were nodes divisible."""

from dataclasses import dataclass, field

import numpy as np

from dovetail.core.scheduling.fleet.demand import Floats, Ints
from dovetail.core.scheduling.fleet.fluid import Worth
from dovetail.core.scheduling.fleet.linear import INFINITE, Programme, Solved
from dovetail.core.scheduling.fleet.patterns import (
    Patterns,
    balances,
    most_value,
    promising,
)
from dovetail.core.scheduling.fleet.problem import Problem
from dovetail.core.scheduling.fleet.spreading import dealt

# A class may stay unserved at a price a little above what the fluid relaxation says a
# pod is worth: that keeps values from swinging while few patterns are known. Where no
# pattern comes that cheap the price rises from round to round.
_ABOVE, _RISE = 0.05, 1.03
_TYPES_TRIED = 25
_PATIENCE = 3
_CONVERGED = 1.003


@dataclass(slots=True)
class Pool:
    """The patterns found so far, each once."""

    types: Ints
    counts: Floats
    _seen: set[tuple[int, bytes]] = field(default_factory=set)

    def add(self, found: Patterns, least_yield: float) -> tuple[Ints, Floats]:
        """Keep what is new and good enough; returns its types and counts."""
        fresh = []
        for row in np.flatnonzero(found.yields > least_yield).tolist():
            key = (int(found.types[row]), found.counts[row].tobytes())
            if key not in self._seen:
                self._seen.add(key)
                fresh.append(row)
        types, counts = found.types[fresh], found.counts[fresh]
        self.types = np.concatenate([self.types, types])
        self.counts = np.concatenate([self.counts, counts])
        return types, counts


@dataclass(frozen=True, slots=True)
class Mix:
    """A fractional fleet: pattern i of the pool ``often[i]`` times."""

    types: Ints
    counts: Floats
    often: Floats
    values: Floats
    """[K]: what one more pod of each class would cost."""
    weights: Floats
    """[len(types), R]: how resources of each pattern's type weigh against each other."""
    hopeful: Ints
    """Types that may yield their price, best first."""


def generate(problem: Problem, worth: Worth, rounds: int) -> Mix:
    """Find a good mix of patterns in a fixed number of rounds.

    Each round prices pods by the linear programme over the patterns known,
    and looks for nodes whose pods are worth more than they cost.
    """
    kinds = len(problem.counts)
    master = Programme(problem.counts, np.full(kinds, INFINITE))
    unserved = worth.values * (1 + _ABOVE)
    master.add_dense_columns(unserved, np.eye(kinds))
    pool = Pool(np.zeros(0, np.int64), np.zeros((0, kinds)))
    ways = balances(problem.sizes.shape[1])
    values = worth.values * (1 + _ABOVE / 2)
    hopeful = hopeful_types(problem, values, ways)
    solved: Solved | None = None
    seeds = dealt(problem, worth, values, ways)
    types, counts = pool.add(seeds, 0.5)
    master.add_dense_columns(problem.price[types], counts)
    for turn in range(rounds):
        found = promising(problem, values, problem.counts, hopeful, ways, 0.985)
        types, counts = pool.add(found, 1 + 1e-6)
        if len(types):
            master.add_dense_columns(problem.price[types], counts)
        short = np.flatnonzero(solved.values[:kinds] > 0) if solved else np.zeros(0, np.int64)
        if turn >= _PATIENCE:
            unserved[short] *= _RISE
            master.change_costs(short, unserved[short])
            if found.yields.max() < _CONVERGED and not len(short):
                break
        solved = master.solve()
        values = np.maximum(solved.duals, worth.values * 0.5)
    often = solved.values[kinds:] if solved else np.zeros(0)
    types, counts = pool.types[: len(often)], pool.counts[: len(often)]
    way = most_value(values, problem.share, problem.most, ways).argmin(axis=1)
    return Mix(types, counts, often, values, ways[way[types]], hopeful)


def hopeful_types(problem: Problem, values: Floats, ways: Floats) -> Ints:
    """Return the types with the highest bound on their yield, best first."""
    bound = most_value(values, problem.share, problem.most, ways).min(axis=1) / problem.price
    order: Ints = np.argsort(-bound, kind="stable")[:_TYPES_TRIED]
    return order
