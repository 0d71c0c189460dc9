"""Rounding: from a fractional fleet to whole nodes."""

import numpy as np

from dovetail.core.scheduling.arrays.types import Floats, Ints
from dovetail.core.scheduling.fleet.beam_search import beam_search
from dovetail.core.scheduling.fleet.column_generation import FractionalFleet
from dovetail.core.scheduling.fleet.kernel import fill
from dovetail.core.scheduling.fleet.patterns import generate_patterns, resource_weightings
from dovetail.core.scheduling.fleet.problem import FleetProblem
from dovetail.errors import DovetailError

# Value per price below which a refilled node is not added.
_MIN_YIELD = 0.985
# Fractional parts that are rounded up; small ones only while many pods are unplaced.
_LARGE_FRACTION, _SMALL_FRACTION = 0.5, 0.1
# Value of unplaced pods, in mean node prices, that is left to the beam search.
_BEAM_NODES = 6.0


class FleetSearchError(DovetailError):
    """The fleet search cannot go on. Always an error in the search itself."""


class Fleet:
    """Nodes chosen so far, as rows of equal nodes, and the unplaced pods [K]."""

    def __init__(self, problem: FleetProblem, unplaced: Floats) -> None:
        self.problem = problem
        self.unplaced = unplaced.copy()
        self.types: list[int] = []
        self.counts: list[Floats] = []
        self.copies: list[int] = []

    @property
    def cost(self) -> float:
        return float(self.problem.price[self.types] @ np.array(self.copies, dtype=np.float64))

    @property
    def node_count(self) -> int:
        return sum(self.copies)

    def add_nodes(self, type_index: int, counts: Floats, copies: int) -> None:
        self.types.append(type_index)
        self.counts.append(counts)
        self.copies.append(copies)
        self.unplaced -= counts * copies

    def reprice(self, problem: FleetProblem) -> "Fleet":
        """Return the same nodes in a problem that differs in nothing but prices."""
        fleet = Fleet(problem, problem.counts)
        for type_index, counts, copies in zip(self.types, self.counts, self.copies, strict=True):
            fleet.add_nodes(type_index, counts, copies)
        return fleet

    def max_copies(self, counts: Floats) -> int:
        """Return how many nodes with these pods [K] the unplaced pods can fill."""
        present = counts > 0
        if not present.any():
            return 0
        return int(np.floor((self.unplaced[present] / counts[present]).min()))


def add_whole_nodes(fleet: Fleet, mix: FractionalFleet) -> None:
    """Add the whole part of a fractional fleet, then patterns with a large fraction.

    Patterns may overlap. Where a class has run out, the node is filled with other
    pods and added if it is still worth its price. What a few nodes can hold is left
    to the beam search, which is better at it.
    """
    whole = np.floor(mix.multiplicity + 1e-6)
    fraction = mix.multiplicity - whole
    for row in np.argsort(-mix.multiplicity, kind="stable").tolist():
        _add_up_to(fleet, mix, row, int(whole[row]))
    beam_value = _BEAM_NODES * mix.node_price
    for row in np.argsort(-fraction, kind="stable").tolist():
        if fraction[row] < _LARGE_FRACTION and (
            fraction[row] < _SMALL_FRACTION or fleet.unplaced @ mix.values < beam_value
        ):
            return
        _add_up_to(fleet, mix, row, 1)


def _add_up_to(fleet: Fleet, mix: FractionalFleet, row: int, copies_wanted: int) -> None:
    type_index, counts = int(mix.types[row]), mix.counts[row]
    problem, weights = fleet.problem, mix.weights[type_index]
    while copies_wanted > 0:
        copies = min(copies_wanted, fleet.max_copies(counts))
        if not copies:
            counts = np.minimum(counts, fleet.unplaced)
            free = problem.alloc[type_index] - counts @ problem.sizes
            limits = np.minimum(fleet.unplaced, problem.max_pods[type_index]) - counts
            counts = counts + fill(problem, mix.values, free[None], limits[None], weights[None])[0]
            if counts @ mix.values < _MIN_YIELD * problem.price[type_index]:
                return
            copies = min(copies_wanted, fleet.max_copies(counts))
        fleet.add_nodes(type_index, counts, copies)
        copies_wanted -= copies


def add_remaining_nodes(fleet: Fleet, mix: FractionalFleet) -> None:
    """Place all remaining pods: best yield first, the last few nodes by beam search.

    Raises ``FleetSearchError`` when a round adds no node: the next would not, either.
    """
    problem, values = fleet.problem, mix.values
    weightings = resource_weightings(problem.sizes.shape[1])
    types = mix.candidate_types
    while fleet.unplaced @ values > _BEAM_NODES * mix.node_price:
        if not _holds_any(problem, types, fleet.unplaced):
            # Rules divide the types, and the candidates suit other classes only.
            types = np.arange(len(problem.price))
            types = types[(problem.max_pods[:, fleet.unplaced > 0] >= 1).any(axis=1)]
        patterns = generate_patterns(problem, values, fleet.unplaced, types, weightings, 0.9)
        best = int(np.argmax(patterns.yields))
        copies = fleet.max_copies(patterns.counts[best])
        if not copies:
            waiting = int(fleet.unplaced.sum())
            raise FleetSearchError(f"no instance type takes any of {waiting} pods, although each fits on one")
        fleet.add_nodes(int(patterns.types[best]), patterns.counts[best], copies)
    for type_index, counts in beam_search(problem, fleet.unplaced, values):
        fleet.add_nodes(type_index, counts, 1)


def _holds_any(problem: FleetProblem, types: Ints, unplaced: Floats) -> bool:
    """Return True if one of the types holds a pod of a class with unplaced pods [K]."""
    return bool((problem.max_pods[types][:, unplaced > 0] >= 1).any())


def pack_by_class(problem: FleetProblem) -> Fleet:
    """Return a fleet with separate nodes for each class: what any other must beat."""
    with np.errstate(divide="ignore"):
        nodes = np.ceil(problem.counts / problem.max_pods)
    best = (nodes * problem.price[:, None]).argmin(axis=0)
    fleet = Fleet(problem, problem.counts)
    for k, type_index in enumerate(best.tolist()):
        max_pods = float(problem.max_pods[type_index, k])
        counts = np.zeros(len(problem.counts))
        counts[k] = max_pods
        copies, remainder = divmod(float(problem.counts[k]), max_pods)
        fleet.add_nodes(type_index, counts, int(copies))
        if remainder:
            counts = np.zeros(len(problem.counts))
            counts[k] = remainder
            fleet.add_nodes(type_index, counts, 1)
    return fleet
