"""Linear programs with HiGHS, reduced to what the fleet search needs."""

from dataclasses import dataclass
from typing import Any

import highspy
import numpy as np

from dovetail.core.scheduling.arrays.types import Floats, Ints

# HiGHS' ``simplex_strategy``: primal simplex from a feasible basis, dual simplex from others.
_CHOOSE = 0
INFINITE: float = highspy.kHighsInf


@dataclass(frozen=True, slots=True)
class LpSolution:
    """Optimal solution."""

    objective: float
    values: Floats
    duals: Floats
    """[rows]"""


class LinearProgram:
    """A minimization whose columns and costs may change between solves.

    The simplex basis is kept, so solving again after a small change is cheap.
    """

    def __init__(self, row_lower: Floats, row_upper: Floats, *, primal: bool = False) -> None:
        """Create a program without columns.

        With ``primal``, it is solved by primal simplex where the basis is feasible, as after
        new columns or costs; otherwise always by dual simplex.
        """
        self._highs: Any = highspy.Highs()  # type: ignore[no-untyped-call]
        self._highs.setOptionValue("output_flag", False)
        self._highs.setOptionValue("presolve", "off")
        self._highs.setOptionValue("solver", "simplex")
        if primal:
            self._highs.setOptionValue("simplex_strategy", _CHOOSE)
        self.add_rows(row_lower, row_upper)

    def add_rows(self, lower: Floats, upper: Floats) -> None:
        """Append rows that no column of the program is in yet."""
        none, starts = np.zeros(0, dtype=np.int32), np.zeros(len(lower), dtype=np.int32)
        self._highs.addRows(len(lower), lower, upper, 0, starts, none, np.zeros(0))

    def add_columns(self, cost: Floats, starts: Ints, rows: Ints, values: Floats) -> None:
        """Append non-negative sparse columns; entries of column i start at ``starts[i]``."""
        added = len(cost)
        lower, upper = np.zeros(added), np.full(added, INFINITE)
        starts, rows = starts.astype(np.int32), rows.astype(np.int32)
        self._highs.addCols(added, cost, lower, upper, len(values), starts, rows, values)

    def add_dense_columns(self, cost: Floats, matrix: Floats) -> None:
        """Append one column per row of ``matrix``."""
        column, row = np.nonzero(matrix)
        starts = np.searchsorted(column, np.arange(len(cost)))
        self.add_columns(cost, starts, row, matrix[column, row])

    def change_costs(self, columns: Ints, costs: Floats) -> None:
        """Change the cost of columns."""
        for column, cost in zip(columns.tolist(), costs.tolist(), strict=True):
            self._highs.changeColCost(column, cost)

    def solve(self) -> LpSolution:
        self._highs.run()
        solution = self._highs.getSolution()
        return LpSolution(
            self._highs.getInfo().objective_function_value,
            np.array(solution.col_value),
            np.array(solution.row_dual),
        )
