"""A fleet in the making: whole nodes, and the pods that still wait."""

import numpy as np

from dovetail.core.scheduling.fleet.beam_search import last_nodes
from dovetail.core.scheduling.fleet.column_generation import Mix
from dovetail.core.scheduling.fleet.demand import Floats
from dovetail.core.scheduling.fleet.patterns import balances, fill, promising
from dovetail.core.scheduling.fleet.problem import Problem

_GOOD = 0.985
_FAIR_PART, _SMALL_PART = 0.5, 0.1
_LAST_NODES = 6.0


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


def take(fleet: Fleet, mix: Mix) -> None:
    """Buy the whole part of a fractional mix, then patterns it has a fair part of.

    Patterns of a mix may overlap: where a class has run out the node is filled
    with what is left, and bought if that still is worth the price. What few
    nodes can hold is left to the search for the last ones, which is better at it.
    """
    whole = np.floor(mix.often + 1e-6)
    part = mix.often - whole
    for row in np.argsort(-mix.often, kind="stable").tolist():
        _buy_up_to(fleet, mix, row, int(whole[row]))
    few = _LAST_NODES * mix.node_price
    for row in np.argsort(-part, kind="stable").tolist():
        if part[row] < _FAIR_PART and (part[row] < _SMALL_PART or fleet.left @ mix.values < few):
            return
        _buy_up_to(fleet, mix, row, 1)


def _buy_up_to(fleet: Fleet, mix: Mix, row: int, wanted: int) -> None:
    kind, counts = int(mix.types[row]), mix.counts[row]
    problem, weights = fleet.problem, mix.weights[kind]
    while wanted > 0:
        copies = min(wanted, fleet.fits_left(counts))
        if not copies:
            counts = np.minimum(counts, fleet.left)
            free = problem.alloc[kind] - counts @ problem.sizes
            limits = np.minimum(fleet.left, problem.most[kind]) - counts
            counts = counts + fill(problem, mix.values, free[None], limits[None], weights[None])[0]
            if counts @ mix.values < _GOOD * problem.price[kind]:
                return
            copies = min(wanted, fleet.fits_left(counts))
        fleet.buy(kind, counts, copies)
        wanted -= copies


def finish(fleet: Fleet, mix: Mix) -> None:
    """House all that wait, node by node, best value for money first.

    The last few nodes are chosen together.
    """
    problem, values = fleet.problem, mix.values
    ways = balances(problem.sizes.shape[1])
    while fleet.left @ values > _LAST_NODES * mix.node_price:
        found = promising(problem, values, fleet.left, mix.hopeful, ways, 0.9)
        best = int(np.argmax(found.yields))
        copies = fleet.fits_left(found.counts[best])
        fleet.buy(int(found.types[best]), found.counts[best], copies)
    for kind, counts in last_nodes(problem, fleet.left, values):
        fleet.buy(kind, counts, 1)


def buy_apart(problem: Problem) -> Fleet:
    """Give each class nodes of its own, of its best type: what any fleet must beat."""
    with np.errstate(divide="ignore"):
        nodes = np.ceil(problem.counts / problem.most)
    best = (nodes * problem.price[:, None]).argmin(axis=0)
    fleet = Fleet(problem, problem.counts)
    for k, kind in enumerate(best.tolist()):
        most = float(problem.most[kind, k])
        one = np.zeros(len(problem.counts))
        one[k] = most
        copies, rest = divmod(float(problem.counts[k]), most)
        fleet.buy(kind, one, int(copies))
        if rest:
            one = np.zeros(len(problem.counts))
            one[k] = rest
            fleet.buy(kind, one, 1)
    return fleet
