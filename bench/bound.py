"""Lower bounds of the cost of any fleet for a set of pods.

Shares no code with the solver: an error there must not hide itself here.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import highspy
import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

FLUID = "fluid-lp"
CONFIGURATION = "configuration-lp"
_INFINITE = highspy.kHighsInf
_MIN_ALLOC = 1e-3


@dataclass(frozen=True, slots=True)
class Bound:
    """Lower bound of the price, and the relaxation that proves it."""

    price: float
    kind: str


@dataclass(frozen=True, slots=True)
class FleetDemand:
    """Classes of pods that may share any node, and the instance types."""

    sizes: Floats
    """[K, R]"""
    counts: Floats
    """[K]"""
    alloc: Floats
    """[T, R]"""
    price: Floats
    """[T]"""


def lower_bound(demand: FleetDemand, rounds: int) -> Bound:
    """Return the better of the fluid bound and the configuration bound.

    Every returned bound is proven, however few the rounds. Rounds only decide how
    close it comes to the optimum of the relaxation.
    """
    demand = _drop_dominated(demand)
    fluid, values = fluid_bound(demand)
    configuration = configuration_bound(demand, values, rounds) if rounds else 0.0
    if configuration > fluid * (1 + 1e-6):
        return Bound(configuration, CONFIGURATION)
    return Bound(fluid, FLUID)


def fluid_bound(demand: FleetDemand) -> tuple[float, Floats]:
    """Return the fluid bound (divisible nodes and pods), and the pod values.

    A pod uses only types on which a whole one fits. Types are separate: the pods on a
    type must match its own proportions.
    """
    class_count, resources = demand.sizes.shape
    total = demand.counts @ demand.sizes
    share = demand.sizes * demand.counts[:, None] / total
    room = demand.alloc / total
    class_of_pair, type_of_pair = np.nonzero((demand.sizes[:, None] <= demand.alloc[None]).all(axis=2))
    model = _Model()
    model.add_rows([1.0] * class_count, [_INFINITE] * class_count)
    model.add_rows([-_INFINITE] * room.size, [0.0] * room.size)
    for k, t in zip(class_of_pair.tolist(), type_of_pair.tolist(), strict=True):
        rows = [k, *range(class_count + t * resources, class_count + (t + 1) * resources)]
        model.add_column(0.0, rows, [1.0, *share[k].tolist()])
    for t, cost in enumerate(demand.price.tolist()):
        rows = list(range(class_count + t * resources, class_count + (t + 1) * resources))
        model.add_column(cost, rows, (-room[t]).tolist())
    objective, _, duals = model.solve()
    return objective, np.maximum(duals[:class_count] / demand.counts, 0.0)


def configuration_bound(demand: FleetDemand, values: Floats, rounds: int) -> float:
    """Return a proven lower bound of the configuration relaxation (whole pods).

    Pod values prove a bound if no node holds more value than it costs: then every fleet
    costs at least the value of all pods. If the best node holds f times its price, all
    values divided by f prove one (Farley). The best node is found, or bounded from above,
    by an integer program per type.
    """
    class_count = len(demand.counts)
    model = _Model()
    model.add_rows(demand.counts.tolist(), [_INFINITE] * class_count)
    for k in range(class_count):
        # Nodes with one class only: enough for a first fleet.
        requested = demand.sizes[k] > 0
        max_pods = np.floor((demand.alloc[:, requested] / demand.sizes[k, requested]).min(axis=1))
        max_pods = np.minimum(max_pods, demand.counts[k])
        t = int(np.where(max_pods >= 1, demand.price / np.maximum(max_pods, 1), np.inf).argmin())
        model.add_column(float(demand.price[t]), [k], [float(max_pods[t])])
    best, center = float(values @ demand.counts), values
    for _ in range(rounds):
        max_yield, patterns = _find_best_nodes(demand, values)
        dual_bound = float(values @ demand.counts) / max(1.0, max_yield)
        if dual_bound > best:
            best, center = dual_bound, values
        for t, pods in patterns:
            rows = np.flatnonzero(pods)
            model.add_column(float(demand.price[t]), rows.tolist(), pods[rows].tolist())
        objective, _, duals = model.solve()
        if best >= objective * 0.999:
            break
        # Half way back to the best values: the optimum moves less than its path.
        values = 0.5 * center + 0.5 * np.maximum(duals, 0.0)
    return best


def _find_best_nodes(demand: FleetDemand, values: Floats) -> tuple[float, list[tuple[int, Floats]]]:
    """Return an upper bound of value per dollar, and nodes that are worth their price."""
    max_yield, patterns = 0.0, []
    for t, cost in enumerate(demand.price.tolist()):
        # A pod that needs what the type lacks has a share above 1; one that does not has none.
        share = demand.sizes / np.maximum(demand.alloc[t], _MIN_ALLOC)
        max_pods = np.where((share <= 1).all(axis=1), np.floor(1 / share.max(axis=1) + 1e-9), 0.0)
        max_pods = np.minimum(max_pods, demand.counts)
        relaxed_bound = _divisible_knapsack(values, share, max_pods) / cost
        if relaxed_bound <= max(1.0, max_yield):
            continue
        bound, pods = _knapsack(values, share, max_pods)
        max_yield = max(max_yield, min(relaxed_bound, bound / cost))
        # HiGHS works with tolerances; a pattern must fit exactly.
        if values @ pods > cost and (pods @ demand.sizes <= demand.alloc[t]).all():
            patterns.append((t, pods))
    return max_yield, patterns


def _divisible_knapsack(values: Floats, share: Floats, max_pods: Floats) -> float:
    """Return an upper bound: resources reduced to one by weights, pods divisible."""
    best = float("inf")
    for first in np.linspace(0.0, 1.0, 21):
        weights = np.full(share.shape[1], 1e-3)
        weights[0], weights[1] = first, 1 - first
        load = np.maximum(share @ (weights / weights.sum()), 1e-12)
        order = np.argsort(-values / load)
        offered = (load * max_pods)[order]
        before = np.cumsum(offered) - offered
        added = np.clip(1 - before, 0, offered) / load[order]
        best = min(best, float(added @ values[order]))
    return best


def _knapsack(values: Floats, share: Floats, max_pods: Floats) -> tuple[float, Floats]:
    """Solve the knapsack of one node; return an upper bound and the best pods found."""
    model = _Model(integer=True)
    model.add_rows([-_INFINITE] * share.shape[1], [1.0] * share.shape[1])
    rows = list(range(share.shape[1]))
    for k, limit in enumerate(max_pods.tolist()):
        model.add_column(-float(values[k]), rows, share[k].tolist(), upper=limit)
    _, pods, _ = model.solve()
    return -model.dual_bound, np.floor(pods + 1e-6)


class _Model:
    """A small linear or integer program, built column by column."""

    def __init__(self, integer: bool = False) -> None:
        self._highs: Any = highspy.Highs()  # type: ignore[no-untyped-call]
        self._highs.setOptionValue("output_flag", False)
        self._highs.setOptionValue("mip_rel_gap", 1e-3)
        self._highs.setOptionValue("mip_max_nodes", 400)
        self._integer = integer
        self._columns = 0
        self.dual_bound = 0.0

    def add_rows(self, lower: Sequence[float], upper: Sequence[float]) -> None:
        for low, high in zip(lower, upper, strict=True):
            self._highs.addRow(low, high, 0, np.zeros(0, np.int32), np.zeros(0))

    def add_column(self, cost: float, rows: list[int], values: list[float], upper: float = _INFINITE) -> None:
        index = np.array(rows, dtype=np.int32)
        self._highs.addCol(cost, 0.0, upper, len(rows), index, np.array(values))
        if self._integer:
            self._highs.changeColIntegrality(self._columns, highspy.HighsVarType.kInteger)
        self._columns += 1

    def solve(self) -> tuple[float, Floats, Floats]:
        self._highs.run()
        info, solution = self._highs.getInfo(), self._highs.getSolution()
        self.dual_bound = info.mip_dual_bound if self._integer else info.objective_function_value
        return (info.objective_function_value, np.array(solution.col_value), np.array(solution.row_dual))


def _drop_dominated(demand: FleetDemand) -> FleetDemand:
    """Return the demand without types that are neither larger nor cheaper than another."""
    alloc = np.minimum(demand.alloc, demand.counts @ demand.sizes)
    order = np.lexsort((-alloc.sum(axis=1), demand.price))
    kept: list[int] = []
    for t in order.tolist():
        if not (alloc[kept] >= alloc[t]).all(axis=1).any():
            kept.append(t)
    kept.sort()
    return FleetDemand(demand.sizes, demand.counts, demand.alloc[kept], demand.price[kept])
