"""A demand made ready for search: only what can matter is left in it."""

from dataclasses import dataclass

import numpy as np

from dovetail.core.scheduling.fleet.demand import Bools, Demand, Floats, Ints

_BLOCK = 64
_SAME_DIRECTION = 1e-9
# A pod's share of what a type has none of: finite, so that sums stay numbers.
_NO_ROOM, _NEVER = 1e-3, 1e6


@dataclass(frozen=True, slots=True)
class Problem:
    """Classes with pods, the resources they ask for, and the types worth buying."""

    sizes: Floats
    counts: Floats
    """[K] whole numbers; float64 because all arithmetic with them is."""
    alloc: Floats
    price: Floats
    types: Ints
    """[T]: position of each type in the demand."""
    most: Floats
    """[T, K]: how many pods of a class a node of the type holds at most."""
    share: Floats
    """[T, K, R]: the part of a node that one pod takes."""

    def of_classes(self, classes: Ints, counts: Floats) -> "Problem":
        """Return the same problem with only some classes, and as many pods as given."""
        most = np.minimum(self.most[:, classes], counts)
        share = self.share[:, classes]
        return Problem(self.sizes[classes], counts, self.alloc, self.price, self.types, most, share)

    def cheapest_holding(self, used: Floats) -> Ints:
        """Return for each row of ``used`` [N, R] the cheapest type with that much room."""
        best: Ints = np.where(covered(used, self.alloc), self.price, np.inf).argmin(axis=1)
        return best

    def one_node(self, counts: Floats) -> tuple[Ints, Floats]:
        """Return for each row of ``counts`` [N, K] the cheapest type that holds it, and its price.

        The price is infinite where no single node holds so many pods.
        """
        fits = covered(counts @ self.sizes, self.alloc)
        # Where the pods fit, only a cap can forbid them, and that is the same on all types.
        fits &= (counts <= self.most.max(axis=0)).all(axis=1)[:, None]
        price = np.where(fits, self.price, np.inf)
        return price.argmin(axis=1), price.min(axis=1)


def total_value(counts: Floats, values: Floats) -> Floats:
    """Return what the pods of each row of ``counts`` [N, K] are worth.

    Not ``@``: on matrices of this size BLAS wakes its threads, which then spin
    for longer than the product takes, and add up in an order of their own.
    """
    worth: Floats = np.einsum("nk,k->n", counts, values)
    return worth


def whole_pods(room: Floats, size: Floats) -> Floats:
    """Return how many pods fit: the least of floor(room / size); exact.

    ``room`` [..., R] and ``size`` [..., R] broadcast; a request of zero always fits.
    """
    quotient = np.where(size > 0, room / np.maximum(size, 1.0), np.inf)
    fitting: Floats = np.floor(quotient.min(axis=-1))
    return fitting


def compile_demand(demand: Demand) -> tuple[Problem, Ints]:
    """Return the problem and the positions of its classes in the demand.

    Raises ``ValueError`` when a class fits on no type.
    """
    present = np.flatnonzero(demand.counts > 0)
    sizes = demand.sizes[present]
    asked = (sizes > 0).any(axis=0)
    sizes, counts = sizes[:, asked], demand.counts[present].astype(np.float64)
    caps = counts
    if demand.max_per_node is not None:
        caps = np.minimum(counts, np.maximum(demand.max_per_node[present], 0))
    together = bool((caps == counts).all())
    kept = _worth_buying(counts @ sizes, demand.alloc[:, asked], demand.price, together)
    alloc = demand.alloc[kept][:, asked]
    most = np.clip(whole_pods(alloc[:, None, :], sizes[None, :, :]), 0.0, caps)
    homeless = np.flatnonzero(most.max(axis=0, initial=0.0) < 1)
    if len(homeless):
        raise ValueError(f"class {present[homeless[0]]} fits on no type")
    useful = (most >= 1).any(axis=1)
    kept, alloc, most = kept[useful], alloc[useful], most[useful]
    share = np.minimum(sizes[None] / np.maximum(alloc[:, None], _NO_ROOM), _NEVER)
    problem = Problem(sizes, counts, alloc, demand.price[kept], kept, most, share)
    return problem, present


def _worth_buying(total: Floats, alloc: Floats, price: Floats, together: bool) -> Ints:
    """Drop types that another one replaces at no greater price, whatever they hold.

    Room beyond the whole demand is worth nothing, so it is cut off first: of
    the types that are larger than the work only the cheapest stays, and none
    dearer than that when all pods may go ``together``.
    """
    useful = np.flatnonzero(np.isfinite(price) & (alloc > 0).any(axis=1))
    holds_all = (total <= alloc[useful]).all(axis=1)
    if together and holds_all.any():
        useful = useful[price[useful] <= price[useful][holds_all].min()]
    room = np.minimum(alloc[useful], total)
    order = np.lexsort((useful, alloc[useful].sum(axis=1), -room.sum(axis=1), price[useful]))
    return np.sort(useful[order[_undominated(room[order])]])


def _undominated(room: Floats) -> Ints:
    """Return the rows, cheapest first, that no earlier row covers."""
    front = np.zeros((0, room.shape[1]))
    kept: list[int] = []
    for start in range(0, len(room), _BLOCK):
        block = room[start : start + _BLOCK]
        alive = np.flatnonzero(~covered(block, front).any(axis=1))
        within = covered(block[alive], block[alive])
        alive = alive[~np.tril(within, k=-1).any(axis=1)]
        kept.extend((start + alive).tolist())
        front = np.concatenate([front, block[alive]])
    return np.array(kept, dtype=np.int64)


def covered(rows: Floats, others: Floats) -> Bools:
    """Return [i, j]: whether ``others[j]`` has at least the room of ``rows[i]``."""
    covered = np.ones((len(rows), len(others)), dtype=np.bool_)
    for resource in range(rows.shape[1]):
        covered &= rows[:, resource, None] <= others[None, :, resource]
    return covered


def best_value(room: Floats, price: Floats, holds: Bools) -> Ints:
    """Return the types that give some mix of resources most cheaply, were pods divisible.

    A type goes when another gives more of everything per dollar and ``holds``
    [T, K] every class that it holds.
    """
    per_dollar = room / price[:, None]
    beaten = covered(per_dollar, per_dollar * (1 + _SAME_DIRECTION))
    misses = np.einsum("ik,jk->ij", holds.astype(np.float64), (~holds).astype(np.float64))
    beaten &= misses == 0
    # Of two that beat each other the first stays.
    first = np.tri(len(per_dollar), k=-1, dtype=np.bool_)
    beaten &= ~beaten.T | first
    np.fill_diagonal(beaten, val=False)
    kept: Ints = np.flatnonzero(~beaten.any(axis=1))
    return kept
