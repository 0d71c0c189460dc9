"""Fleet problem: a demand without resources, classes and types that cannot matter."""

from dataclasses import dataclass

import numpy as np

from dovetail.core.scheduling.arrays.types import Bools, Floats, Ints

# Types compared in one array operation.
_CHUNK = 64
_EPSILON = 1e-9
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
    """[T]: USD per hour of a node, with the node cost of the settings."""
    max_per_node: Ints | None = None
    """[K]: maximum number of pods of a class on one node; None: any number."""
    effort: int = DEFAULT_EFFORT
    """Rounds of column generation: a count, not a time, so equal input gives equal output."""


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

    def restrict_to(self, classes: Ints, counts: Floats) -> "FleetProblem":
        """Return the problem with only some classes, and ``counts`` pods of each."""
        max_pods = np.minimum(self.max_pods[:, classes], counts)
        share = self.share[:, classes]
        return FleetProblem(self.sizes[classes], counts, self.alloc, self.price, self.types, max_pods, share)

    def cheapest_types(self, used: Floats) -> Ints:
        """Return [N]: the cheapest type with room for each row of ``used`` [N, R]."""
        best: Ints = np.where(fits_in(used, self.alloc), self.price, np.inf).argmin(axis=1)
        return best

    def cheapest_single_node(self, counts: Floats) -> tuple[Ints, Floats]:
        """Return the cheapest type that holds each row of ``counts``, and its price.

        ``counts`` is [N, K], both results are [N]. The price is infinite where no single
        node holds so many pods.
        """
        fits = fits_in(counts @ self.sizes, self.alloc)
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
    kept = _useful_types(counts @ sizes, demand.alloc[:, requested], demand.price, may_share_one_node)
    alloc = demand.alloc[kept][:, requested]
    max_pods = np.clip(whole_pods(alloc[:, None, :], sizes[None, :, :]), 0.0, caps)
    unplaceable = np.flatnonzero(max_pods.max(axis=0, initial=0.0) < 1)
    if len(unplaceable):
        raise ValueError(f"class {present[unplaceable[0]]} fits on no type")
    usable = (max_pods >= 1).any(axis=1)
    kept, alloc, max_pods = kept[usable], alloc[usable], max_pods[usable]
    share = np.minimum(sizes[None] / np.maximum(alloc[:, None], _MIN_ALLOC), _MAX_SHARE)
    problem = FleetProblem(sizes, counts, alloc, demand.price[kept], kept, max_pods, share)
    return problem, present


def _useful_types(total: Floats, alloc: Floats, price: Floats, may_share_one_node: bool) -> Ints:
    """Return the types that no other type dominates at the same or a lower price.

    Room beyond the whole demand has no value, so it is cut off first. Of the types
    larger than the demand only the cheapest stays; and no more expensive type at
    all, if ``may_share_one_node``.
    """
    usable = np.flatnonzero(np.isfinite(price) & (alloc > 0).any(axis=1))
    holds_all = (total <= alloc[usable]).all(axis=1)
    if may_share_one_node and holds_all.any():
        usable = usable[price[usable] <= price[usable][holds_all].min()]
    room = np.minimum(alloc[usable], total)
    order = np.lexsort((usable, alloc[usable].sum(axis=1), -room.sum(axis=1), price[usable]))
    return np.sort(usable[order[_pareto_front(room[order])]])


def _pareto_front(room: Floats) -> Ints:
    """Return the rows of ``room`` (cheapest first) that no earlier row dominates."""
    front = np.zeros((0, room.shape[1]))
    kept: list[int] = []
    for start in range(0, len(room), _CHUNK):
        block = room[start : start + _CHUNK]
        kept_rows = np.flatnonzero(~fits_in(block, front).any(axis=1))
        within = fits_in(block[kept_rows], block[kept_rows])
        kept_rows = kept_rows[~np.tril(within, k=-1).any(axis=1)]
        kept.extend((start + kept_rows).tolist())
        front = np.concatenate([front, block[kept_rows]])
    return np.array(kept, dtype=np.int64)


def fits_in(loads: Floats, room: Floats) -> Bools:
    """Return [i, j]: True if ``loads[i]`` fits in ``room[j]``."""
    fits = np.ones((len(loads), len(room)), dtype=np.bool_)
    for resource in range(loads.shape[1]):
        fits &= loads[:, resource, None] <= room[None, :, resource]
    return fits


def best_value_types(room: Floats, price: Floats, holds: Bools) -> Ints:
    """Return the types that offer some mix of resources at the lowest price.

    A type is dropped if another offers more of everything per dollar and ``holds``
    [T, K] every class that it holds.
    """
    per_dollar = room / price[:, None]
    dominated = fits_in(per_dollar, per_dollar * (1 + _EPSILON))
    missing_classes = np.einsum("ik,jk->ij", holds.astype(np.float64), (~holds).astype(np.float64))
    dominated &= missing_classes == 0
    # Of two types that dominate each other the first stays.
    first = np.tri(len(per_dollar), k=-1, dtype=np.bool_)
    dominated &= ~dominated.T | first
    np.fill_diagonal(dominated, val=False)
    kept: Ints = np.flatnonzero(~dominated.any(axis=1))
    return kept
