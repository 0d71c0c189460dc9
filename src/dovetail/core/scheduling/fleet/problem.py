"""Fleet problem: a demand without resources, classes and types that cannot matter."""

from dataclasses import dataclass

import numpy as np

from dovetail.core.scheduling.arrays.types import Bools, Floats, Ints
from dovetail.core.scheduling.fleet.native import kernel as _kernel

# Types compared in one array operation.
_CHUNK = 64
# Share of a pod in a resource that a type lacks: finite, so that sums stay finite.
_MIN_ALLOC, _MAX_SHARE = 1e-3, 1e6


DEFAULT_EFFORT = 8


@dataclass(frozen=True, slots=True)
class Demand:
    """Pods to place, as classes of identical pods, and the available instance types.

    Amounts are whole numbers below 2**53 in float64, so sums, differences and
    floored quotients are exact.
    """

    sizes: Floats
    """[K, R]: requests of one pod of each class."""
    counts: Ints
    """[K]: number of pods of each class."""
    alloc: Floats
    """[T, R]: allocatable for pods on a node of each type."""
    price: Floats
    """[T]: USD per hour of a node, with its node cost."""
    max_per_node: Ints | None = None
    """[K]: maximum number of pods of a class on one node; None: any number."""
    effort: int = DEFAULT_EFFORT
    """Rounds of column generation: a count, not a time, so equal input gives equal output."""
    admission: Ints | None = None
    """[T]: row of ``admits`` for each type; None: every type admits every class."""
    admits: Bools | None = None
    """[admissions, K]: True where rules allow pods of the class."""
    fewer_nodes_tolerance: float = 0.0
    """Share by which a fleet of half the nodes may be more expensive than the cheapest."""


@dataclass(frozen=True, slots=True)
class Bundle:
    """Nodes of one type that hold the same pods."""

    type_index: int
    counts: Ints
    """[K]: pods of each class on one node."""
    copies: int


@dataclass(frozen=True, slots=True)
class FleetProblem:
    """Classes with pods, the resources they request, and the useful types."""

    sizes: Floats
    counts: Floats
    """[K]: whole numbers; float64 because all arithmetic with them is."""
    alloc: Floats
    price: Floats
    types: Ints
    """[T]: index of each type in the demand."""
    max_pods: Floats
    """[T, K]: maximum number of pods of a class on a node of the type."""
    share: Floats
    """[T, K, R]: share of a node's resource that one pod takes."""
    admission: Ints
    """[T]: row of ``admits`` for each type."""
    admits: Bools
    """[admissions, K]: classes that rules allow on these types."""

    def restrict_to(self, classes: Ints, counts: Floats) -> "FleetProblem":
        """Return the problem with only some classes, and ``counts`` pods of each."""
        max_pods = np.minimum(self.max_pods[:, classes], counts)
        return FleetProblem(
            self.sizes[classes],
            counts,
            self.alloc,
            self.price,
            self.types,
            max_pods,
            self.share[:, classes],
            self.admission,
            self.admits[:, classes],
        )

    def holds(self, counts: Floats) -> Bools:
        """Return [N, T]: True where a node holds the pods of a row of ``counts`` [N, K].

        The maximum per node is not checked.
        """
        holds = fits_in(counts @ self.sizes, self.alloc)
        if not self.admits.all():
            present = counts > 0
            for number, admitted in enumerate(self.admits):
                of_admission = np.flatnonzero(self.admission == number)
                not_admitted: Bools = np.asarray(present[:, ~admitted].any(axis=1))
                holds[:, of_admission] &= ~not_admitted[:, None]
        return holds

    def cheapest_types(self, counts: Floats) -> Ints:
        """Return [N]: the cheapest type that holds each row of ``counts`` [N, K]."""
        best: Ints = np.where(self.holds(counts), self.price, np.inf).argmin(axis=1)
        return best

    def cheapest_single_node(self, counts: Floats) -> tuple[Ints, Floats]:
        """Return the cheapest type that holds each row of ``counts``, and its price.

        ``counts`` is [N, K], both results are [N]. The price is infinite where no single
        node holds so many pods.
        """
        fits = self.holds(counts)
        # Where the resources fit, only the maximum per node can forbid it. It is the same on
        # all types.
        fits &= (counts <= self.max_pods.max(axis=0)).all(axis=1)[:, None]
        price = np.where(fits, self.price, np.inf)
        return price.argmin(axis=1), price.min(axis=1)


def total_value(counts: Floats, values: Floats) -> Floats:
    """Return [N]: total value of the pods in each row of ``counts`` [N, K].

    Not ``@``: for matrices of this size BLAS starts threads that spin longer than
    the product takes, and sum in another order.
    """
    total: Floats = np.einsum("nk,k->n", counts, values)
    return total


def whole_pods(room: Floats, size: Floats) -> Floats:
    """Return how many pods fit: minimum of floor(room / size); exact."""
    quotient = np.where(size > 0, room / np.maximum(size, 1.0), np.inf)
    fitting: Floats = np.floor(quotient.min(axis=-1))
    return fitting


def compile_demand(demand: Demand) -> tuple[FleetProblem, Ints]:
    """Return the problem, and the indexes of its classes in the demand."""
    present = np.flatnonzero(demand.counts > 0)
    sizes = demand.sizes[present]
    requested = (sizes > 0).any(axis=0)
    sizes, counts = sizes[:, requested], demand.counts[present].astype(np.float64)
    caps = counts
    if demand.max_per_node is not None:
        caps = np.minimum(counts, np.maximum(demand.max_per_node[present], 0))
    may_share_one_node = bool((caps == counts).all())
    admission = np.zeros(len(demand.price), dtype=np.int64)
    admits = np.ones((1, len(present)), dtype=np.bool_)
    if demand.admission is not None and demand.admits is not None:
        admission, admits = demand.admission, demand.admits[:, present]
    alloc = np.asarray(demand.alloc[:, requested], dtype=np.float64)
    kept = useful_types(counts @ sizes, alloc, demand.price, admission, admits, may_share_one_node)
    alloc, admission = alloc[kept], admission[kept]
    max_pods = np.clip(whole_pods(alloc[:, None, :], sizes[None, :, :]), 0.0, caps) * admits[admission]
    unplaceable = np.flatnonzero(max_pods.max(axis=0, initial=0.0) < 1)
    if len(unplaceable):
        raise ValueError(f"class {present[unplaceable[0]]} fits on no type")
    usable = (max_pods >= 1).any(axis=1)
    kept, alloc, max_pods, admission = kept[usable], alloc[usable], max_pods[usable], admission[usable]
    share = np.minimum(sizes[None] / np.maximum(alloc[:, None], _MIN_ALLOC), _MAX_SHARE)
    price = np.asarray(demand.price[kept], dtype=np.float64)
    problem = FleetProblem(sizes, counts, alloc, price, kept, max_pods, share, admission, admits)
    return problem, present


def useful_types(
    total: Floats, alloc: Floats, price: Floats, admission: Ints, admits: Bools, may_share_one_node: bool
) -> Ints:
    """Return the types that no other type dominates at the same or a lower price.

    A type dominates another if it has at least as much room and admits at least the
    same classes. Room beyond the whole demand has no value, so it is cut off first. Of
    the types larger than the demand only the cheapest stays; and no more expensive type
    at all, if ``may_share_one_node``.
    """
    usable = np.flatnonzero(np.isfinite(price) & (alloc > 0).any(axis=1))
    admits_all: Bools = np.asarray(admits.all(axis=1))
    holds_all = (total <= alloc[usable]).all(axis=1) & admits_all[admission[usable]]
    if may_share_one_node and holds_all.any():
        usable = usable[price[usable] <= price[usable][holds_all].min()]
    room = np.minimum(alloc[usable], total)
    order = np.lexsort((usable, alloc[usable].sum(axis=1), -room.sum(axis=1), price[usable]))
    # [admissions, admissions]: True where the second admits all classes of the first.
    includes: Bools = np.asarray((~admits[:, None] | admits[None]).all(axis=2))
    return np.sort(usable[order[_pareto_front(room[order], admission[usable[order]], includes)]])


def _pareto_front(room: Floats, admission: Ints, includes: Bools) -> Ints:
    """Return the rows of ``room`` (cheapest first) that no earlier row dominates."""
    if _kernel is not None:
        kept = np.empty(len(room), dtype=np.int64)
        room, admission = np.ascontiguousarray(room, np.float64), np.ascontiguousarray(admission, np.int64)
        shape = (*room.shape, len(includes))
        count = _kernel.pareto_front(shape, room, admission, includes.astype(np.int64).ravel(), kept)
        return kept[:count]
    front: Ints = np.zeros(0, dtype=np.int64)
    for start in range(0, len(room), _CHUNK):
        block = np.arange(start, min(start + _CHUNK, len(room)))
        dominated = fits_in(room[block], room[front]) & includes[admission[block][:, None], admission[front]]
        block = block[~dominated.any(axis=1)]
        within = fits_in(room[block], room[block]) & includes[admission[block][:, None], admission[block]]
        block = block[~np.tril(within, k=-1).any(axis=1)]
        front = np.concatenate([front, block])
    return front


def fits_in(loads: Floats, room: Floats) -> Bools:
    """Return [i, j]: True if ``loads[i]`` fits in ``room[j]``."""
    fits = np.ones((len(loads), len(room)), dtype=np.bool_)
    for resource in range(loads.shape[1]):
        fits &= loads[:, resource, None] <= room[None, :, resource]
    return fits
