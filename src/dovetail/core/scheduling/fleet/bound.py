"""Lower bound of the cost of any fleet, proven by prices of resources.

Divide the price of each type over its resources by weights that sum to one. Then the pods
on a node use at most all of its price. So a pod costs at least its part of the cheapest type
that admits it, and a fleet at least the sum over its pods. Every choice of weights proves a
bound. The best ones are the dual values of the fluid relaxation, here of groups of similar
classes; weights that are not optimal make the bound lower, never wrong.
"""

from dataclasses import dataclass

import numpy as np

from dovetail.core.scheduling.arrays.types import Bools, Floats, Ints
from dovetail.core.scheduling.fleet.lp_relaxation import FluidProgram
from dovetail.core.scheduling.fleet.problem import Demand, compile_demand, useful_types

# Up to so many classes the relaxation is solved for the classes themselves.
_FEW_CLASSES = 64
# Steps of the proportions of resources that are alike; coarser while there are more groups.
_STEPS, _MAX_GROUPS = (8, 4, 2, 1), 160
# Elements of [classes, types] arrays in one operation: some 30 MiB.
_CHUNK_ELEMENTS = 1 << 22
# Prices of zero would need weights without limit.
_MIN_PRICE = 1e-9
# Rounding errors of sums must not lift a bound above the optimum.
_SAFETY = 1 - 1e-9


@dataclass(frozen=True, slots=True)
class FleetBound:
    """A proven lower bound."""

    price: float
    """USD per hour."""
    placeable: Bools
    """[K]: False for classes that fit on no type; they count nothing."""


def bound_fleet(demand: Demand) -> FleetBound:
    """Return a lower bound of the cost of every fleet for a demand.

    Maxima per node are not used; a class of them can have a resource of its own.
    """
    admission, admits = _admissions(demand)
    alloc, price = demand.alloc, np.maximum(demand.price, _MIN_PRICE)
    fits = _fits(demand.sizes, alloc) & admits[admission].T  # [K, T]
    placeable: Bools = np.asarray(fits.any(axis=1)) & (demand.counts > 0)
    if not placeable.any():
        return FleetBound(0.0, placeable)
    classes = np.flatnonzero(placeable)
    sizes, counts, admits = demand.sizes[classes], demand.counts[classes], admits[:, classes]
    requested = np.asarray((sizes > 0).any(axis=0))
    sizes, alloc = sizes[:, requested], alloc[:, requested]
    kept = useful_types(counts @ sizes, alloc, price, admission, admits, may_share_one_node=False)
    alloc, price, admission = alloc[kept], price[kept], admission[kept]
    fits = fits[np.ix_(classes, kept)]
    weights = _find_weights(Demand(sizes, counts, alloc, price, admission=admission, admits=admits), fits)
    values, cheapest = _pod_values(sizes, alloc, price, weights, fits)
    # One node at least: that of the pod whose cheapest node is the most expensive.
    bound = max(float(counts @ values), float(cheapest.max()))
    return FleetBound(bound * _SAFETY, placeable)


def _admissions(demand: Demand) -> tuple[Ints, Bools]:
    if demand.admission is None or demand.admits is None:
        none = np.zeros(len(demand.price), dtype=np.int64)
        return none, np.ones((1, len(demand.counts)), dtype=np.bool_)
    return demand.admission, demand.admits


def _fits(sizes: Floats, alloc: Floats) -> Bools:
    """Return [K, T]: True where one pod fits on an empty node."""
    fits = np.ones((len(sizes), len(alloc)), dtype=np.bool_)
    for resource in range(sizes.shape[1]):
        fits &= sizes[:, resource, None] <= alloc[None, :, resource]
    return fits


def _pod_values(
    sizes: Floats, alloc: Floats, price: Floats, weights: Floats, fits: Bools
) -> tuple[Floats, Floats]:
    """Return [K]: what a pod costs at least, and the price of its cheapest type."""
    unit = np.divide(weights * price[:, None], alloc, out=np.zeros_like(alloc), where=alloc > 0)  # [T, R]
    values, cheapest = np.empty(len(sizes)), np.empty(len(sizes))
    step = max(1, _CHUNK_ELEMENTS // max(1, len(price)))
    for start in range(0, len(sizes), step):
        rows = slice(start, start + step)
        cost = np.einsum("kr,tr->kt", sizes[rows], unit)
        values[rows] = np.where(fits[rows], cost, np.inf).min(axis=1)
        cheapest[rows] = np.where(fits[rows], price, np.inf).min(axis=1)
    return values, cheapest


def _find_weights(demand: Demand, fits: Bools) -> Floats:
    """Return [T, R]: the part of each resource in the price of a type."""
    groups = _group_classes(demand, fits)
    number, first = int(groups.max()) + 1, np.unique(groups, return_index=True)[1]
    counts = np.bincount(groups, weights=demand.counts.astype(np.float64), minlength=number)
    sizes = np.zeros((number, demand.sizes.shape[1]))
    np.add.at(sizes, groups, demand.sizes * demand.counts[:, None])
    admits = None if demand.admits is None else demand.admits[:, first]
    grouped = Demand(
        sizes / counts[:, None],
        counts.astype(np.int64),
        demand.alloc,
        demand.price,
        admission=demand.admission,
        admits=admits,
    )
    problem, _ = compile_demand(grouped)
    relaxation = FluidProgram(problem).solve(problem.price)
    known = problem.types[relaxation.program_types]
    # The program may have added slots for classes; all other resources come first.
    resource_prices = relaxation.resource_prices[:, : demand.sizes.shape[1]]
    # A type outside the program gets the resource prices of the one at which it is worth
    # least, of those that hold all its classes: so it lowers no pod's value.
    worth = np.einsum("sr,tr->ts", resource_prices, demand.alloc)
    of_group = fits[first].T.astype(np.float64)  # [T, groups]
    lacking = np.einsum("tg,sg->ts", of_group, 1.0 - of_group[known])
    best = np.where(lacking == 0, worth, np.inf).argmin(axis=1)
    best[known] = np.arange(len(known))
    weights = resource_prices[best] * demand.alloc
    total = weights.sum(axis=1, keepdims=True)
    uniform = np.full_like(weights, 1 / weights.shape[1])
    shares: Floats = np.where(total > 0, weights / np.where(total > 0, total, 1.0), uniform)
    return shares


def _group_classes(demand: Demand, fits: Bools) -> Ints:
    """Return [K]: the group of each class; those of a group fit on the same types."""
    if len(demand.sizes) <= _FEW_CLASSES:
        return np.arange(len(demand.sizes))
    total = demand.counts @ demand.sizes
    part = demand.sizes / np.where(total > 0, total, 1.0)
    part = part / np.maximum(part.sum(axis=1, keepdims=True), 1e-300)
    _, of_types = np.unique(np.packbits(fits, axis=1), axis=0, return_inverse=True)
    groups: Ints = np.zeros(len(part), dtype=np.int64)
    for steps in _STEPS:
        keys = np.column_stack([of_types.ravel(), np.rint(part * steps).astype(np.int64)])
        if demand.admits is not None:
            keys = np.column_stack([keys, demand.admits.T])
        _, groups = np.unique(keys, axis=0, return_inverse=True)
        groups = groups.ravel()
        if groups.max() < _MAX_GROUPS:
            break
    return groups
