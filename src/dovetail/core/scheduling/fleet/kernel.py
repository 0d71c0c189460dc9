"""Inner loops of the fleet search: fill nodes, swap pods, bound their value.

They take most of the time of a plan with many classes. ``_kernel.c`` has the same loops
in C, and is used where it was built; results are equal to the last bit.
"""

import numpy as np

from dovetail.core.scheduling.arrays.types import Floats, Ints
from dovetail.core.scheduling.fleet.native import kernel as _kernel
from dovetail.core.scheduling.fleet.problem import FleetProblem, whole_pods

# Above, the K × K swaps cost more than they bring.
_MAX_SWAPPED_CLASSES = 96
# Relative gain below which a swap does not count.
_EPSILON = 1e-9
# Share of the fitting pods of a class that ``fill`` adds at once.
_BULK_SHARE = 0.5
# Load of a pod as share of a node, so that quotients and sums stay finite.
_MIN_LOAD, _MAX_LOAD = 1e-15, 1e15


def is_compiled() -> bool:
    """Return True if the compiled kernel is used."""
    return _kernel is not None


def fill(problem: FleetProblem, values: Floats, free: Floats, limits: Floats, weights: Floats) -> Floats:
    """Fill nodes with the most valuable pods per resource; return pods added [N, K].

    Row i is a node with ``free[i]`` resources (reduced in place) that takes at most
    ``limits[i]`` more pods of each class. A resource is priced by ``weights[i]``
    divided by what is left of it, so that all resources run out together. Half of
    the pods that fit are added at once.
    """
    # [R, K]: resources per unit of value.
    per_value = (problem.sizes / values[:, None]).T.copy()
    if _kernel is None:
        return _fill(problem.sizes, per_value, free, limits, weights)
    counts = np.zeros(limits.shape)
    shape = (*limits.shape, free.shape[1])
    _kernel.fill(
        shape, _rows(problem.sizes), per_value, free, _rows(limits), _rows(weights), _BULK_SHARE, counts
    )
    return counts


def swap_pods(
    problem: FleetProblem, values: Floats, limits: Floats, counts: Floats, free: Floats, rounds: int
) -> None:
    """Improve nodes in place: replace a pod by a more valuable one that fits."""
    if len(values) > _MAX_SWAPPED_CLASSES or not len(counts):
        return
    min_gain = _EPSILON * float(values.max())
    if _kernel is None:
        _swap_pods(problem.sizes, values, min_gain, limits, counts, free, rounds)
        return
    shape = (*counts.shape, free.shape[1])
    _kernel.swap(shape, _rows(problem.sizes), _rows(values), min_gain, _rows(limits), counts, free, rounds)


class SingleNodes:
    """The cheapest single node for all pods of a row, for many rows of one problem."""

    def __init__(self, problem: FleetProblem) -> None:
        self._problem = problem
        if _kernel is not None:
            self._caps = problem.max_pods.max(axis=0)
            self._order = problem.price.argsort(kind="stable")
            self._admits = problem.admits.astype(np.int64).ravel()

    def find(self, counts: Floats) -> tuple[Ints, Floats]:
        """Return the same as ``FleetProblem.cheapest_single_node``."""
        problem = self._problem
        if _kernel is None:
            return problem.cheapest_single_node(counts)
        types, cost = np.empty(len(counts), dtype=np.int64), np.empty(len(counts))
        _kernel.single_nodes(
            (*counts.shape, *problem.alloc.shape[::-1], len(problem.admits)),
            _rows(counts),
            self._caps,
            _rows(problem.sizes),
            _rows(problem.alloc),
            problem.price,
            self._order,
            problem.admission,
            self._admits,
            types,
            cost,
        )
        return types, cost


def value_bound(values: Floats, share: Floats, max_pods: Floats, weightings: Floats) -> Floats:
    """Return [T, L]: upper bound of the value on each type, per weighting [L, R].

    A weighting reduces all resources to one. The fractional knapsack that remains
    is solved by taking the pods with the highest value per load first.
    """
    if _kernel is None:
        return _value_bound(values, share, max_pods, weightings)
    bound = np.zeros((len(share), len(weightings)))
    shape = (*share.shape, len(weightings))
    _kernel.value_bound(shape, _rows(values), _rows(share), _rows(max_pods), weightings, bound)
    return bound


def _rows(array: Floats) -> Floats:
    """Return the array in the memory layout that the compiled kernel reads."""
    return np.ascontiguousarray(array)


def _fill(sizes: Floats, per_value: Floats, free: Floats, limits: Floats, weights: Floats) -> Floats:
    counts = np.zeros_like(limits)
    classes = np.flatnonzero((limits >= 1).any(axis=0))
    if not len(classes):
        return counts
    sizes, per_value = sizes[classes], per_value[:, classes]
    active = row = np.arange(len(free))
    room, unplaced = free.copy(), limits[:, classes]
    # Added to the cost: infinite where no pod of the class can be added any more.
    blocked = np.where(unplaced >= 1, 0.0, np.inf)
    _block(blocked, row, sizes, room)
    while True:
        # Not ``@``: sums must have the order that the compiled kernel has.
        price = weights[active] / np.maximum(room, 1.0)
        cost = price[:, 0, None] * per_value[0]
        for r in range(1, len(per_value)):
            cost += price[:, r, None] * per_value[r]
        cost += blocked
        best = cost.argmin(axis=1)
        going = (cost[row, best] < np.inf).nonzero()[0]
        if len(going) < len(active):
            free[active] = room
            if not len(going):
                return counts
            active, room, row, best = active[going], room[going], row[: len(going)], best[going]
            unplaced, blocked = unplaced[going], blocked[going]
        fitting = whole_pods(room, sizes[best])
        added = np.minimum(np.maximum(1.0, np.floor(fitting * _BULK_SHARE)), unplaced[row, best])
        added[fitting < 1] = 0.0
        counts[active, classes[best]] += added
        unplaced[row, best] -= added
        room -= added[:, None] * sizes[best]
        used_up = (unplaced[row, best] < 1).nonzero()[0]
        blocked[used_up, best[used_up]] = np.inf
        # Comparing all classes is expensive: only where the best one turned out not to fit.
        _block(blocked, (fitting < 1).nonzero()[0], sizes, room)


def _block(blocked: Floats, rows: Ints, sizes: Floats, room: Floats) -> None:
    """Set ``blocked`` [N, K] to infinity, in place, where a pod does not fit."""
    if len(rows):
        too_large = np.zeros((len(rows), len(sizes)), dtype=np.bool_)
        for r in range(sizes.shape[1]):
            too_large |= sizes[:, r] > room[rows, r, None]
        blocked[rows] = np.where(too_large, np.inf, blocked[rows])


def _swap_pods(
    sizes: Floats, values: Floats, min_gain: float, limits: Floats, counts: Floats, free: Floats, rounds: int
) -> None:
    # [K, K]: gain of replacing a pod of class i by one of class j; best swaps first.
    gain = values[None, :] - values[:, None]
    removed, added_class = np.nonzero(gain > min_gain)
    if not len(removed):
        return
    order = np.argsort(-gain[removed, added_class], kind="stable")
    removed, added_class = removed[order], added_class[order]
    more = sizes[added_class] - sizes[removed]
    rows = np.arange(len(counts))
    for _ in range(rounds):
        possible = (counts > 0)[rows][:, removed] & (counts < limits)[rows][:, added_class]
        for r in range(more.shape[1]):
            possible &= more[:, r] <= free[rows, r, None]
        first = possible.argmax(axis=1)
        improved = possible[np.arange(len(rows)), first]
        rows, first = rows[improved], first[improved]
        if not len(rows):
            return
        counts[rows, removed[first]] -= 1
        counts[rows, added_class[first]] += 1
        free[rows] -= more[first]


def _value_bound(values: Floats, share: Floats, max_pods: Floats, weightings: Floats) -> Floats:
    # [T, L, K]; not ``@``, as in ``_fill``.
    load = share[:, None, :, 0] * weightings[:, 0, None]
    for r in range(1, share.shape[2]):
        load += share[:, None, :, r] * weightings[:, r, None]
    load = np.clip(load, _MIN_LOAD, _MAX_LOAD)
    # Classes sorted by value per load.
    order = np.argsort(-(values / load), axis=2, kind="stable")
    size = np.take_along_axis(load, order, axis=2)
    limit = np.take_along_axis(np.broadcast_to(max_pods[:, None, :], load.shape), order, axis=2)
    offered = size * limit
    before = np.zeros_like(offered)
    np.cumsum(offered[:, :, :-1], axis=2, out=before[:, :, 1:])
    added = np.clip(1.0 - before, 0.0, offered) / size
    bound: Floats = np.cumsum(added * values[order], axis=2)[:, :, -1]
    return bound
