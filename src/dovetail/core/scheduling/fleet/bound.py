"""Lower bound of the cost of any fleet, proven by prices of resources.

Divide the price of each type over its resources by weights that sum to one. Then the pods
on a node use at most all of its price. So a pod costs at least its part of the cheapest type
that admits it, and a fleet at least the sum over its pods. Every choice of weights proves a
bound. The best ones are the dual values of the fluid relaxation, here of groups of similar
classes; weights that are not optimal make the bound lower, never wrong.

The price of a burstable type includes some CPU, and more has a surcharge: it is constant up to
one load, and linear above. So pods at prices of resources never cost more than their node if
they do not at two loads: a full node, and one that is full but for CPU beyond what is included.
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
class Surcharge:
    """Price of one resource beyond the amount that the price of a node includes."""

    resource: int
    """Its column in the sizes of a demand."""
    included: Floats
    """[T]"""
    price: Floats
    """[T]: USD per hour and unit beyond it; 0: the node's price includes all."""

    def of_node(self, loads: Floats) -> Floats:
        """Return the surcharges of nodes by their loads [..., T]."""
        return self.price * np.maximum(0.0, loads - self.included)


@dataclass(frozen=True, slots=True)
class FleetBound:
    """A proven lower bound."""

    price: float
    """USD per hour."""
    placeable: Bools
    """[K]: False for classes that fit on no type; they count nothing."""


def bound_fleet(demand: Demand, surcharge: Surcharge | None = None) -> FleetBound:
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
    if surcharge is None or not requested[surcharge.resource]:
        surcharge = Surcharge(0, np.zeros(len(price)), np.zeros(len(price)))
    sizes, alloc = sizes[:, requested], alloc[:, requested]
    # A type with a surcharge is cheaper than another at some loads, and more expensive at others.
    is_charged = surcharge.price > 0
    plain = np.flatnonzero(~is_charged)
    useful = useful_types(
        counts @ sizes, alloc[plain], price[plain], admission[plain], admits, may_share_one_node=False
    )
    kept = np.union1d(plain[useful], np.flatnonzero(is_charged))
    types = Demand(sizes, counts, alloc[kept], price[kept], admission=admission[kept], admits=admits)
    surcharge = Surcharge(
        int(requested[: surcharge.resource].sum()), surcharge.included[kept], surcharge.price[kept]
    )
    values, cheapest = _pod_values(types, surcharge, fits[np.ix_(classes, kept)])
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


def _pod_values(types: Demand, surcharge: Surcharge, fits: Bools) -> tuple[Floats, Floats]:
    """Return [K]: what a pod costs at least, and the price of its cheapest node."""
    prices = _find_resource_prices(types, surcharge, fits)
    values, cheapest = np.empty(len(types.sizes)), np.empty(len(types.sizes))
    step = max(1, _CHUNK_ELEMENTS // max(1, len(prices)))
    for start in range(0, len(types.sizes), step):
        rows = slice(start, start + step)
        sizes = types.sizes[rows]
        cost = np.einsum("kr,tr->kt", sizes, prices)
        values[rows] = np.where(fits[rows], cost, np.inf).min(axis=1)
        alone = types.price + surcharge.of_node(sizes[:, surcharge.resource, None])
        cheapest[rows] = np.where(fits[rows], alone, np.inf).min(axis=1)
    return values, cheapest


def _find_resource_prices(types: Demand, surcharge: Surcharge, fits: Bools) -> Floats:
    """Return [T, R]: prices of resources at which no load of a node is worth more than it costs."""
    number, charged = len(types.price), np.flatnonzero(surcharge.price > 0)
    # [L]: loads that decide: full nodes, then those with a surcharge without it.
    of_type = np.concatenate([np.arange(number), charged])
    loads, price = types.alloc[of_type], types.price[of_type]
    room = types.alloc[:, surcharge.resource]
    loads[number:, surcharge.resource] = np.minimum(room, surcharge.included)[charged]
    price[:number] += surcharge.of_node(room)
    groups = _group_classes(types, fits)
    first = np.unique(groups, return_index=True)[1]
    known, resource_prices = _solve_relaxation(types, loads, price, of_type, groups)
    # A type gets resource prices of the program at which it is worth least, of a load that
    # holds all its classes: so it lowers no pod's value.
    worth = np.einsum("sr,lr->ls", resource_prices, loads) / price[:, None]
    worth[charged] = np.maximum(worth[charged], worth[number:])
    of_group = fits[first].T.astype(np.float64)  # [T, groups]
    holds = _fits(types.sizes[first], loads[known]) & fits[np.ix_(first, of_type[known])]
    lacking = np.einsum("tg,gs->ts", of_group, 1.0 - holds)
    best = np.where(lacking == 0, worth[:number], np.inf).argmin(axis=1)
    is_own = np.isin(known, np.setdiff1d(np.arange(number), charged))
    best[known[is_own]] = np.flatnonzero(is_own)
    total = worth[np.arange(number), best][:, None]
    full = np.where(types.alloc > 0, types.alloc, np.inf)
    uniform = types.price[:, None] / full / types.alloc.shape[1]
    prices: Floats = np.where(total > 0, resource_prices[best] / np.where(total > 0, total, 1.0), uniform)
    return prices


def _solve_relaxation(
    types: Demand, loads: Floats, price: Floats, of_type: Ints, groups: Ints
) -> tuple[Ints, Floats]:
    """Return the loads in the fluid relaxation of groups [S], and their resource prices [S, R]."""
    number, first = int(groups.max()) + 1, np.unique(groups, return_index=True)[1]
    counts = np.bincount(groups, weights=types.counts.astype(np.float64), minlength=number)
    sizes = np.zeros((number, types.sizes.shape[1]))
    np.add.at(sizes, groups, types.sizes * types.counts[:, None])
    grouped = Demand(
        sizes / counts[:, None],
        counts.astype(np.int64),
        loads,
        price,
        admission=None if types.admission is None else types.admission[of_type],
        admits=None if types.admits is None else types.admits[:, first],
    )
    problem, _ = compile_demand(grouped)
    relaxation = FluidProgram(problem).solve(problem.price)
    # The program may have added slots for classes; all other resources come first.
    resource_prices = relaxation.resource_prices[:, : types.sizes.shape[1]]
    return problem.types[relaxation.program_types], resource_prices


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
