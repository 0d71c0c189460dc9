"""Column generation: which patterns, how often, were nodes divisible."""

from dataclasses import dataclass, field

import numpy as np

from dovetail.core.scheduling.fleet.demand import Floats, Ints
from dovetail.core.scheduling.fleet.fluid import Worth
from dovetail.core.scheduling.fleet.linear import INFINITE, Programme, Solved
from dovetail.core.scheduling.fleet.patterns import Patterns, balances, most_value, promising
from dovetail.core.scheduling.fleet.problem import Problem

# How far pods' values may leave those of the fluid relaxation. A narrow band keeps
# them from swinging between rounds; the optimum lies a few percent above.
_ABOVE, _BELOW = 0.08, 0.03
_TYPES_TRIED = 25
_CONVERGED = 1.003
_LAST_ROUNDS = 4
"""Rounds without credit for pods placed twice, so that the solution is a real one."""


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
    hopeful: Ints
    """Types that may yield their price, best first."""


def generate(problem: Problem, worth: Worth, rounds: int) -> Mix:
    """Find a good mix of patterns in a fixed number of rounds.

    Each round prices pods by the linear programme over the patterns known,
    and looks for nodes whose pods are worth more than they cost.
    """
    kinds = len(problem.counts)
    master = Programme(problem.counts, np.full(kinds, INFINITE))
    each = np.eye(kinds)
    master.add_dense_columns(worth.values * (1 + _ABOVE), each)
    master.add_dense_columns(worth.values * (_BELOW - 1), -each)
    pool = Pool(np.zeros(0, np.int64), np.zeros((0, kinds)))
    ways = balances(problem.sizes.shape[1])
    values = worth.values * (1 + _ABOVE / 2)
    hopeful = hopeful_types(problem, values, ways)
    solved: Solved | None = None
    surplus_until = rounds - _LAST_ROUNDS
    for turn in range(rounds):
        found = promising(problem, values, problem.counts, hopeful, ways, 0.985)
        types, counts = pool.add(found, 1 + 1e-6)
        if len(types):
            master.add_dense_columns(problem.price[types], counts)
        if turn < surplus_until and found.yields.max() < _CONVERGED:
            surplus_until = turn
        if turn == surplus_until:
            master.forbid(np.arange(kinds, 2 * kinds))
        elif turn > surplus_until and found.yields.max() < _CONVERGED:
            break
        solved = master.solve()
        values = np.maximum(solved.duals, worth.values * 0.5)
    often = solved.values[2 * kinds :] if solved else np.zeros(0)
    return Mix(pool.types[: len(often)], pool.counts[: len(often)], often, values, hopeful)


def hopeful_types(problem: Problem, values: Floats, ways: Floats) -> Ints:
    """Return the types with the highest bound on their yield, best first."""
    bound = most_value(values, problem.share, problem.most, ways).min(axis=1) / problem.price
    order: Ints = np.argsort(-bound, kind="stable")[:_TYPES_TRIED]
    return order
