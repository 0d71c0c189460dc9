"""Fluid relaxation: the cheapest fleet if nodes and pods were divisible."""

from dataclasses import dataclass

import numpy as np

from dovetail.core.scheduling.arrays.types import Floats, Ints
from dovetail.core.scheduling.fleet.lp_solver import INFINITE, LinearProgram
from dovetail.core.scheduling.fleet.problem import FleetProblem, best_value_types

# Capped classes that get a slot resource: those that need most nodes. Each adds a row per
# type. Of many classes only those that need so many nodes: others find enough among them.
_MAX_SLOT_CLASSES = 12
_MANY_CLASSES, _MAX_SLOT_CLASSES_OF_MANY, _MIN_SLOT_NODES = 48, 6, 5
# Lower bound of a pod's value, as share of the node price it occupies.
_MIN_VALUE_SHARE = 1e-4
# Nodes: smaller fractions count as zero.
_EPSILON = 1e-7


@dataclass(frozen=True, slots=True)
class FluidRelaxation:
    """Optimum of the fluid relaxation."""

    bound: float
    """Lower bound of the cost of any fleet, in USD per hour."""
    values: Floats
    """[K]: marginal cost of one more pod of each class; above zero."""
    types: Ints
    """[U]: types that the optimum uses."""
    nodes: Floats
    """[U]: fractional number of nodes of each."""
    per_node: Floats
    """[U, K]: mean number of pods of each class on a node of each type."""


def solve_fluid_relaxation(problem: FleetProblem) -> FluidRelaxation:
    """Solve the relaxation as a linear program.

    Pods of class k may use type t only if a whole one fits. Each class with a
    binding maximum per node has an extra resource: its slots.

    Rows: one per class (all pods placed, as share 1), then one per type and
    resource (use <= room). Columns: one per feasible (type, class) pair, then one
    per type (number of nodes).
    """
    sizes, alloc = _with_slots(problem)
    types = best_value_types(alloc, problem.price, problem.max_pods >= 1)
    alloc = alloc[types]
    class_count, resources = sizes.shape
    # Scale by the total demand: bytes and millicores in one matrix would exceed the
    # numerical range of the simplex method.
    total = problem.counts @ sizes
    part = sizes * (problem.counts / np.where(total > 0, total, 1.0)[:, None]).T
    room = alloc / np.where(total > 0, total, 1.0)
    type_of_pair, class_of_pair = np.nonzero(problem.max_pods[types] >= 1)
    rows = class_count + len(types) * resources
    lower = np.concatenate([np.ones(class_count), np.full(rows - class_count, -INFINITE)])
    upper = np.concatenate([np.full(class_count, INFINITE), np.zeros(rows - class_count)])
    program = LinearProgram(lower, upper)
    columns = np.arange(resources)
    index = np.column_stack([class_of_pair, class_count + type_of_pair[:, None] * resources + columns])
    entry = np.column_stack([np.ones(len(class_of_pair)), part[class_of_pair]])
    starts = np.arange(len(class_of_pair)) * (resources + 1)
    program.add_columns(np.zeros(len(class_of_pair)), starts, index.ravel(), entry.ravel())
    starts = np.arange(len(types)) * resources
    program.add_columns(
        problem.price[types], starts, class_count + np.arange(rows - class_count), -room.ravel()
    )
    solution = program.solve()
    values = solution.duals[:class_count] / problem.counts
    whole_node = (problem.price[:, None] * problem.share.max(axis=2)).min(axis=0)
    values = np.maximum(values, _MIN_VALUE_SHARE * whole_node)
    placed = np.zeros((len(types), class_count))
    placed[type_of_pair, class_of_pair] = (
        solution.values[: len(class_of_pair)] * problem.counts[class_of_pair]
    )
    nodes = solution.values[len(class_of_pair) :]
    used_types = np.flatnonzero(nodes > _EPSILON)
    per_node = placed[used_types] / nodes[used_types, None]
    return FluidRelaxation(solution.objective, values, types[used_types], nodes[used_types], per_node)


def _with_slots(problem: FleetProblem) -> tuple[Floats, Floats]:
    """Add a slot resource for classes with a binding maximum per node."""
    sizes, alloc = problem.sizes, problem.alloc
    per_node = problem.max_pods.max(axis=0)
    unlimited = np.minimum(_uncapped_pods(problem), problem.counts)
    capped_classes = np.flatnonzero(per_node < unlimited)
    needed = problem.counts[capped_classes] / per_node[capped_classes]
    order = np.argsort(-needed, kind="stable")[:_MAX_SLOT_CLASSES]
    if len(sizes) > _MANY_CLASSES:
        order = order[needed[order] >= _MIN_SLOT_NODES][:_MAX_SLOT_CLASSES_OF_MANY]
    capped_classes = capped_classes[order]
    slots = np.zeros((len(sizes), len(capped_classes)))
    slots[capped_classes, np.arange(len(capped_classes))] = 1.0
    room = np.broadcast_to(per_node[capped_classes], (len(alloc), len(capped_classes)))
    return np.hstack([sizes, slots]), np.hstack([alloc, room])


def _uncapped_pods(problem: FleetProblem) -> Floats:
    """Return [K]: pods of each class on the largest type, without maximum per node."""
    with np.errstate(divide="ignore"):
        fitting: Floats = np.floor(1.0 / problem.share.max(axis=2) + 1e-9).max(axis=0)
    return fitting
