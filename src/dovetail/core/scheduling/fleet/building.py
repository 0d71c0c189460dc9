"""A fleet in the making: whole nodes, and the pods that still wait."""

import numpy as np

from dovetail.core.scheduling.fleet.columns import Mix
from dovetail.core.scheduling.fleet.demand import Floats, Ints
from dovetail.core.scheduling.fleet.patterns import balances, promising
from dovetail.core.scheduling.fleet.problem import Problem

_NEARLY_ONE = 1 - 1e-6
_GOOD = 0.98


class Fleet:
    """Nodes bought so far, as rows of equal ones, and what is left to house."""

    def __init__(self, problem: Problem, left: Floats) -> None:
        self.problem = problem
        self.left = left.copy()
        self.types: list[int] = []
        self.counts: list[Floats] = []
        self.copies: list[int] = []

    @property
    def cost(self) -> float:
        return float(self.problem.price[self.types] @ np.array(self.copies, dtype=np.float64))

    def buy(self, type_index: int, counts: Floats, copies: int) -> None:
        self.types.append(type_index)
        self.counts.append(counts)
        self.copies.append(copies)
        self.left -= counts * copies

    def fits_left(self, counts: Floats) -> int:
        """How many nodes with these pods the waiting pods can fill."""
        some = counts > 0
        if not some.any():
            return 0
        return int(np.floor((self.left[some] / counts[some]).min()))


def take_whole(fleet: Fleet, mix: Mix) -> None:
    """Buy the whole part of a fractional mix."""
    for row in np.flatnonzero(mix.often >= _NEARLY_ONE).tolist():
        wanted = int(np.floor(mix.often[row] + 1e-6))
        copies = min(wanted, fleet.fits_left(mix.counts[row]))
        if copies:
            fleet.buy(int(mix.types[row]), mix.counts[row], copies)


def take_most_of(fleet: Fleet, mix: Mix) -> None:
    """Buy patterns of which the mix has a fair part, most wanted first.

    What is missing by then for a pattern may leave a hole in it, if a small one.
    """
    part = mix.often - np.floor(mix.often + 1e-6)
    for row in np.argsort(-part, kind="stable").tolist():
        if part[row] < 0.3:
            return
        counts = np.minimum(mix.counts[row], fleet.left)
        kind = int(mix.types[row])
        if counts @ mix.values >= _GOOD * fleet.problem.price[kind]:
            fleet.buy(kind, counts, 1)


def finish(fleet: Fleet, values: Floats, hopeful: Ints) -> None:
    """House all that wait, node by node, best value for money first."""
    problem = fleet.problem
    ways = balances(problem.sizes.shape[1])
    everything = np.arange(len(problem.price))
    while fleet.left.any():
        waiting = float(fleet.left @ values)
        few = waiting < 4 * problem.price[hopeful].max()
        found = promising(problem, values, fleet.left, everything if few else hopeful, ways, 0.9)
        best = int(np.argmax(found.yields))
        alone = _one_for_all(fleet)
        if alone is not None and problem.price[alone] * found.yields[best] <= waiting * 1.000001:
            fleet.buy(alone, fleet.left.copy(), 1)
            return
        copies = fleet.fits_left(found.counts[best])
        fleet.buy(int(found.types[best]), found.counts[best], copies)


def _one_for_all(fleet: Fleet) -> int | None:
    """The cheapest type that holds everything that waits, if there is one."""
    problem = fleet.problem
    fits = (fleet.left @ problem.sizes <= problem.alloc).all(axis=1)
    fits &= (fleet.left <= problem.most).all(axis=1)
    if not fits.any():
        return None
    return int(np.where(fits, problem.price, np.inf).argmin())
