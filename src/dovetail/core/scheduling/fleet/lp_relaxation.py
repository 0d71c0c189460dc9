"""Fluid relaxation: the cheapest fleet if nodes and pods were divisible."""

from dataclasses import dataclass

import numpy as np

from dovetail.core.scheduling.arrays.types import Bools, Floats, Ints
from dovetail.core.scheduling.fleet.lp_solver import INFINITE, LinearProgram
from dovetail.core.scheduling.fleet.problem import FleetProblem, fits_in

# Capped classes that get a slot resource: those that need most nodes. Each adds a row per
# type. Of many classes only those that need so many nodes: others find enough among them.
_MAX_SLOT_CLASSES = 12
_MANY_CLASSES, _MAX_SLOT_CLASSES_OF_MANY, _MIN_SLOT_NODES = 48, 6, 5
# Lower bound of a pod's value, as share of the node price it occupies.
_MIN_VALUE_SHARE = 1e-4
# Nodes: smaller fractions count as zero. Types: smaller gains do not.
_EPSILON = 1e-7
# Room of a type, in total demands; more makes no difference but to the numerical range.
_MAX_ROOM = 1e4
# Up to so many classes, programs begin with all types that can be in an optimum. Of several
# optima, these are rounded better, and such programs are small.
_FEW_CLASSES = 24
# Types added to the program at once: those that may improve it most.
_ADDED_TYPES = 8


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
    program_types: Ints
    """[S]: types that the optimum was chosen from."""
    resource_prices: Floats
    """[S, R]: USD per hour and unit of each resource on them (dual values)."""


class FluidProgram:
    """The relaxation as a linear program, for one or several vectors of prices.

    Pods of class k may use type t only if a whole one fits. Each class with a
    binding maximum per node has an extra resource: its slots.

    Rows: one per class (all pods placed, as share 1), then one per type and
    resource (use <= room). Columns: one per feasible (type, class) pair, and one
    per type (number of nodes). Few types are in the optimum, so types are added
    only when those in the program do not prove that they are too expensive.
    """

    def __init__(self, problem: FleetProblem) -> None:
        self._problem = problem
        sizes, alloc = _with_slots(problem)
        # Scale by the total demand: bytes and millicores in one matrix would exceed the
        # numerical range of the simplex method.
        total = problem.counts @ sizes
        total = np.where(total > 0, total, 1.0)
        self._total: Floats = total
        self._part: Floats = sizes * (problem.counts[:, None] / total)  # [K, R]
        self._room: Floats = np.minimum(alloc / total, _MAX_ROOM)  # [T, R]
        self._holds: Bools = problem.max_pods >= 1  # [T, K]
        self._whole_nodes: Floats = problem.share.max(axis=2)  # [T, K]
        self._has_few_classes = len(sizes) <= _FEW_CLASSES
        self._start()

    def _start(self) -> None:
        """Start with a program without types."""
        class_count = len(self._part)
        self._program = LinearProgram(
            np.ones(class_count), np.full(class_count, INFINITE), primal=not self._has_few_classes
        )
        self._columns = 0
        none: Ints = np.zeros(0, dtype=np.int64)
        # Types in the program [S], and the columns of their numbers of nodes [S].
        self._types, self._node_columns = none, none
        # [3, P]: pairs in the program: position of the type in ``_types``, class, column.
        self._pairs: Ints = np.zeros((3, 0), dtype=np.int64)

    def solve(self, price: Floats) -> FluidRelaxation:
        """Return the optimum at these prices [T]."""
        if self._has_few_classes:
            self._start()
            missing = self._best_value_types(price)
        else:
            self._program.change_costs(self._node_columns, price[self._types])
            missing = np.setdiff1d(self._cheapest_for_each_class(price), self._types)
        program, class_count = self._program, len(self._part)
        while True:
            if len(missing):
                self._add_types(missing, price)
            solution = program.solve()
            missing = self._find_missing(solution.duals[class_count:], price)
            if not len(missing):
                break
        values = solution.duals[:class_count] / self._problem.counts
        values = np.maximum(values, _MIN_VALUE_SHARE * (price[:, None] * self._whole_nodes).min(axis=0))
        nodes = solution.values[self._node_columns]
        pair_type, pair_class, pair_column = self._pairs
        placed = np.zeros((len(nodes), class_count))
        placed[pair_type, pair_class] = solution.values[pair_column] * self._problem.counts[pair_class]
        used = np.flatnonzero(nodes > _EPSILON)
        used = used[np.argsort(self._types[used])]
        per_node = placed[used] / nodes[used, None]
        resource_prices = -solution.duals[class_count:].reshape(len(self._types), -1) / self._total
        return FluidRelaxation(
            solution.objective,
            values,
            self._types[used],
            nodes[used],
            per_node,
            self._types,
            np.maximum(resource_prices, 0.0),
        )

    def _best_value_types(self, price: Floats) -> Ints:
        """Return the types that offer some mix of resources at the lowest price.

        A type is left out if another offers more of everything per dollar and holds
        every class that it holds.
        """
        per_dollar = self._room / price[:, None]
        dominated = fits_in(per_dollar, per_dollar * (1 + _EPSILON))
        holds = self._holds.astype(np.float64)
        dominated &= np.einsum("ik,jk->ij", holds, 1 - holds) == 0
        # Of two types that dominate each other the first stays.
        dominated &= ~dominated.T | np.tri(len(per_dollar), k=-1, dtype=np.bool_)
        np.fill_diagonal(dominated, val=False)
        return np.flatnonzero(~dominated.any(axis=1))

    def _cheapest_for_each_class(self, price: Floats) -> Ints:
        """Return the types with the cheapest pods of each class: together they hold all pods."""
        cost = np.where(self._holds, price[:, None] * self._whole_nodes, np.inf)
        return np.unique(cost.argmin(axis=0))

    def _find_missing(self, duals: Floats, price: Floats) -> Ints:
        """Return types that may improve the optimum; ``duals`` are those of [S, R] rows.

        They are prices of the resources of each type in the program, at which its
        pods are worth no more than what they use. So no type that holds no other
        classes can offer pods of a higher value than its resources at these prices.
        """
        resource_prices = -duals.reshape(len(self._types), -1)
        worth = np.einsum("sr,tr->ts", resource_prices, self._room)
        lacking = np.einsum(
            "tk,sk->ts", self._holds.astype(np.float64), (~self._holds[self._types]).astype(np.float64)
        )
        bound = np.where(lacking == 0, worth, np.inf).min(axis=1)
        ratio = bound / price
        ratio[self._types] = 0.0
        missing = np.flatnonzero(ratio > 1 + _EPSILON)
        best_first = np.argsort(-ratio[missing], kind="stable")
        return np.sort(missing[best_first[:_ADDED_TYPES]])

    def _add_types(self, types: Ints, price: Floats) -> None:
        """Add the rows and columns of types."""
        class_count, resources = self._part.shape
        first_row = class_count + len(self._types) * resources
        rows = len(types) * resources
        self._program.add_rows(np.full(rows, -INFINITE), np.zeros(rows))
        of_type, of_class = np.nonzero(self._holds[types])
        pairs = len(of_class)
        index = np.column_stack([of_class, first_row + of_type[:, None] * resources + np.arange(resources)])
        entry = np.column_stack([np.ones(pairs), self._part[of_class]])
        self._program.add_columns(
            np.zeros(pairs), np.arange(pairs) * (resources + 1), index.ravel(), entry.ravel()
        )
        self._program.add_columns(
            price[types],
            np.arange(len(types)) * resources,
            first_row + np.arange(rows),
            -self._room[types].ravel(),
        )
        added = np.array([len(self._types) + of_type, of_class, self._columns + np.arange(pairs)])
        self._pairs = np.hstack([self._pairs, added])
        self._node_columns = np.concatenate(
            [self._node_columns, self._columns + pairs + np.arange(len(types))]
        )
        self._types = np.concatenate([self._types, types])
        self._columns += pairs + len(types)


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
