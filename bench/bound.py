"""Lower bounds on what any fleet for a set of pods can cost.

Nothing here is shared with the solver: a mistake there must not excuse itself here.
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


@dataclass(frozen=True, slots=True)
class Bound:
    """A price that no fleet can beat, and the relaxation that proves it."""

    price: float
    kind: str


@dataclass(frozen=True, slots=True)
class Work:
    """Pods that may share any node, as classes, and the machine types for sale."""

    sizes: Floats
    """[K, R]"""
    counts: Floats
    """[K]"""
    alloc: Floats
    """[T, R]"""
    price: Floats
    """[T]"""


def lower_bound(work: Work, rounds: int) -> Bound:
    """Return the better of the fluid bound and the configuration bound.

    Every number it returns is proven, however few the rounds: they only decide
    how close it comes to the optimum of the relaxation.
    """
    work = _without_dominated(work)
    fluid, values = fluid_bound(work)
    configuration = configuration_bound(work, values, rounds) if rounds else 0.0
    if configuration > fluid * (1 + 1e-6):
        return Bound(configuration, CONFIGURATION)
    return Bound(fluid, FLUID)


def fluid_bound(work: Work) -> tuple[float, Floats]:
    """Return the price of the cheapest fleet of divisible nodes and pods, and pods' values.

    A pod goes only to types on which a whole one fits; types are told apart,
    so the pods on a type must match its own proportions.
    """
    kinds, resources = work.sizes.shape
    total = work.counts @ work.sizes
    part = work.sizes * work.counts[:, None] / total
    room = work.alloc / total
    held, holder = np.nonzero((work.sizes[:, None] <= work.alloc[None]).all(axis=2))
    model = _Model()
    model.rows([1.0] * kinds, [_INFINITE] * kinds)
    model.rows([-_INFINITE] * room.size, [0.0] * room.size)
    for k, t in zip(held.tolist(), holder.tolist(), strict=True):
        rows = [k, *range(kinds + t * resources, kinds + (t + 1) * resources)]
        model.column(0.0, rows, [1.0, *part[k].tolist()])
    for t, cost in enumerate(work.price.tolist()):
        rows = list(range(kinds + t * resources, kinds + (t + 1) * resources))
        model.column(cost, rows, (-room[t]).tolist())
    objective, _, duals = model.solve()
    return objective, np.maximum(duals[:kinds] / work.counts, 0.0)


def configuration_bound(work: Work, values: Floats, rounds: int) -> float:
    """Return a proven lower bound on the configuration relaxation, in which pods are whole.

    Pods' values prove a bound when no node can hold more value than it costs:
    then every fleet costs at least the value of all pods. Where the best node
    holds f times its price, all values divided by f do (Farley). The best node
    is found, or bounded from above, by an integer programme per type.
    """
    kinds = len(work.counts)
    model = _Model()
    model.rows(work.counts.tolist(), [_INFINITE] * kinds)
    for k in range(kinds):
        # Nodes with one class only: enough for a first fleet.
        asked = work.sizes[k] > 0
        most = np.floor((work.alloc[:, asked] / work.sizes[k, asked]).min(axis=1))
        most = np.minimum(most, work.counts[k])
        t = int(np.where(most >= 1, work.price / np.maximum(most, 1), np.inf).argmin())
        model.column(float(work.price[t]), [k], [float(most[t])])
    best, centre = float(values @ work.counts), values
    for _ in range(rounds):
        ceiling, patterns = _best_nodes(work, values)
        proven = float(values @ work.counts) / max(1.0, ceiling)
        if proven > best:
            best, centre = proven, values
        for t, pods in patterns:
            rows = np.flatnonzero(pods)
            model.column(float(work.price[t]), rows.tolist(), pods[rows].tolist())
        objective, _, duals = model.solve()
        if best >= objective * 0.999:
            break
        # Half way back to the best values known: the optimum moves less than its path.
        values = 0.5 * centre + 0.5 * np.maximum(duals, 0.0)
    return best


def _best_nodes(work: Work, values: Floats) -> tuple[float, list[tuple[int, Floats]]]:
    """Return above what value per dollar no node lies, and nodes that are worth their price."""
    ceiling, patterns = 0.0, []
    for t, cost in enumerate(work.price.tolist()):
        share = work.sizes / work.alloc[t]
        most = np.where((share <= 1).all(axis=1), np.floor(1 / share.max(axis=1) + 1e-9), 0.0)
        most = np.minimum(most, work.counts)
        easy = _divisible_knapsack(values, share, most) / cost
        if easy <= max(1.0, ceiling):
            continue
        top, pods = _knapsack(values, share, most)
        ceiling = max(ceiling, min(easy, top / cost))
        # The solver works with tolerances; a pattern must fit by itself.
        if values @ pods > cost and (pods @ work.sizes <= work.alloc[t]).all():
            patterns.append((t, pods))
    return ceiling, patterns


def _divisible_knapsack(values: Floats, share: Floats, most: Floats) -> float:
    """Return a bound from above: resources weighed into one, pods divisible."""
    best = float("inf")
    for first in np.linspace(0.0, 1.0, 21):
        weights = np.full(share.shape[1], 1e-3)
        weights[0], weights[1] = first, 1 - first
        load = np.maximum(share @ (weights / weights.sum()), 1e-12)
        order = np.argsort(-values / load)
        offered = (load * most)[order]
        before = np.cumsum(offered) - offered
        taken = np.clip(1 - before, 0, offered) / load[order]
        best = min(best, float(taken @ values[order]))
    return best


def _knapsack(values: Floats, share: Floats, most: Floats) -> tuple[float, Floats]:
    """Solve one node's knapsack; returns a bound from above and the best pods found."""
    model = _Model(integer=True)
    model.rows([-_INFINITE] * share.shape[1], [1.0] * share.shape[1])
    rows = list(range(share.shape[1]))
    for k, limit in enumerate(most.tolist()):
        model.column(-float(values[k]), rows, share[k].tolist(), upper=limit)
    _, pods, _ = model.solve()
    return -model.proven, np.floor(pods + 1e-6)


class _Model:
    """A small linear or integer programme, column by column."""

    def __init__(self, integer: bool = False) -> None:
        self._highs: Any = highspy.Highs()  # type: ignore[no-untyped-call]
        self._highs.setOptionValue("output_flag", False)
        self._highs.setOptionValue("mip_rel_gap", 1e-3)
        self._highs.setOptionValue("mip_max_nodes", 400)
        self._integer = integer
        self._columns = 0
        self.proven = 0.0

    def rows(self, lower: Sequence[float], upper: Sequence[float]) -> None:
        for low, high in zip(lower, upper, strict=True):
            self._highs.addRow(low, high, 0, np.zeros(0, np.int32), np.zeros(0))

    def column(
        self, cost: float, rows: list[int], values: list[float], upper: float = _INFINITE
    ) -> None:
        index = np.array(rows, dtype=np.int32)
        self._highs.addCol(cost, 0.0, upper, len(rows), index, np.array(values))
        if self._integer:
            self._highs.changeColIntegrality(self._columns, highspy.HighsVarType.kInteger)
        self._columns += 1

    def solve(self) -> tuple[float, Floats, Floats]:
        self._highs.run()
        info, solution = self._highs.getInfo(), self._highs.getSolution()
        self.proven = info.mip_dual_bound if self._integer else info.objective_function_value
        return (
            info.objective_function_value,
            np.array(solution.col_value),
            np.array(solution.row_dual),
        )


def _without_dominated(work: Work) -> Work:
    """Drop types that are no larger than another one and no cheaper."""
    alloc = np.minimum(work.alloc, work.counts @ work.sizes)
    order = np.lexsort((-alloc.sum(axis=1), work.price))
    kept: list[int] = []
    for t in order.tolist():
        if not (alloc[kept] >= alloc[t]).all(axis=1).any():
            kept.append(t)
    kept.sort()
    return Work(work.sizes, work.counts, work.alloc[kept], work.price[kept])
