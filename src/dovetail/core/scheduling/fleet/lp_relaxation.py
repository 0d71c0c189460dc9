"""What pods are worth, were they divisible."""

from dataclasses import dataclass

import numpy as np

from dovetail.core.scheduling.fleet.demand import Floats, Ints
from dovetail.core.scheduling.fleet.lp_solver import INFINITE, Programme
from dovetail.core.scheduling.fleet.problem import Problem, best_value

_SLOT_ROWS = 12
_SMALLEST_VALUE = 1e-4
_HARDLY = 1e-7


@dataclass(frozen=True, slots=True)
class Worth:
    """The optimum of the fluid relaxation."""

    bound: float
    """No fleet costs less."""
    values: Floats
    """[K]: what housing one more pod of a class costs; above zero."""
    types: Ints
    """Types that the relaxation buys."""
    nodes: Floats
    """How many of each, in fractions."""
    per_node: Floats
    """[len(types), K]: pods of each class on a node of each of them, in the mean."""


def fluid_worth(problem: Problem) -> Worth:
    """Solve the relaxation in which nodes and pods may be split.

    Pods of class k go to type t only where a whole one fits. Beside the
    resources each class that is capped per node has a row of its own: its
    slots.
    """
    sizes, alloc = _with_slots(problem)
    types = best_value(alloc, problem.price, problem.most >= 1)
    alloc = alloc[types]
    kinds, resources = sizes.shape
    # Everything is scaled by the total demand: bytes and millicores in one matrix
    # would be beyond what a simplex can tell apart.
    total = problem.counts @ sizes
    part = sizes * (problem.counts / np.where(total > 0, total, 1.0)[:, None]).T
    room = alloc / np.where(total > 0, total, 1.0)
    holder, held = np.nonzero(problem.most[types] >= 1)
    rows = kinds + len(types) * resources
    lower = np.concatenate([np.ones(kinds), np.full(rows - kinds, -INFINITE)])
    upper = np.concatenate([np.full(kinds, INFINITE), np.zeros(rows - kinds)])
    programme = Programme(lower, upper)
    columns = np.arange(resources)
    index = np.column_stack([held, kinds + holder[:, None] * resources + columns])
    entry = np.column_stack([np.ones(len(held)), part[held]])
    starts = np.arange(len(held)) * (resources + 1)
    programme.add_columns(np.zeros(len(held)), starts, index.ravel(), entry.ravel())
    starts = np.arange(len(types)) * resources
    programme.add_columns(
        problem.price[types], starts, kinds + np.arange(rows - kinds), -room.ravel()
    )
    solved = programme.solve()
    values = solved.duals[:kinds] / problem.counts
    whole_node = (problem.price[:, None] * problem.share.max(axis=2)).min(axis=0)
    values = np.maximum(values, _SMALLEST_VALUE * whole_node)
    placed = np.zeros((len(types), kinds))
    placed[holder, held] = solved.values[: len(held)] * problem.counts[held]
    nodes = solved.values[len(held) :]
    bought = np.flatnonzero(nodes > _HARDLY)
    per_node = placed[bought] / nodes[bought, None]
    return Worth(solved.objective, values, types[bought], nodes[bought], per_node)


def _with_slots(problem: Problem) -> tuple[Floats, Floats]:
    """Add a resource per class whose cap binds: a node has as many slots as the cap."""
    sizes, alloc = problem.sizes, problem.alloc
    per_node = problem.most.max(axis=0)
    unlimited = np.minimum(_ample(problem), problem.counts)
    capped = np.flatnonzero(per_node < unlimited)
    needed = problem.counts[capped] / per_node[capped]
    capped = capped[np.argsort(-needed, kind="stable")[:_SLOT_ROWS]]
    slots = np.zeros((len(sizes), len(capped)))
    slots[capped, np.arange(len(capped))] = 1.0
    room = np.broadcast_to(per_node[capped], (len(alloc), len(capped)))
    return np.hstack([sizes, slots]), np.hstack([alloc, room])


def _ample(problem: Problem) -> Floats:
    """How many pods of each class the roomiest type would hold, were there no cap."""
    with np.errstate(divide="ignore"):
        fitting: Floats = np.floor(1.0 / problem.share.max(axis=2) + 1e-9).max(axis=0)
    return fitting
