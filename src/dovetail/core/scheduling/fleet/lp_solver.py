"""Linear programmes through HiGHS, kept to what the fleet search needs."""

from dataclasses import dataclass
from typing import Any

import highspy
import numpy as np

from dovetail.core.scheduling.fleet.demand import Floats, Ints

INFINITE: float = highspy.kHighsInf


@dataclass(frozen=True, slots=True)
class Solved:
    """An optimal vertex."""

    objective: float
    values: Floats
    duals: Floats
    """One per row."""


class Programme:
    """A minimisation whose columns and bounds may change between solves.

    The basis is kept, so that solving again after a small change is cheap.
    """

    def __init__(self, row_lower: Floats, row_upper: Floats) -> None:
        self._highs: Any = highspy.Highs()  # type: ignore[no-untyped-call]
        self._highs.setOptionValue("output_flag", False)
        self._highs.setOptionValue("presolve", "off")
        self._highs.setOptionValue("solver", "simplex")
        rows = len(row_lower)
        none = np.zeros(0, dtype=np.int32)
        starts = np.zeros(rows, dtype=np.int32)
        self._highs.addRows(rows, row_lower, row_upper, 0, starts, none, np.zeros(0))
        self._columns = 0

    def add_columns(self, cost: Floats, starts: Ints, rows: Ints, values: Floats) -> None:
        """Append nonnegative columns, given sparse: entries of column i begin at starts[i]."""
        added = len(cost)
        self._highs.addCols(
            added,
            cost,
            np.zeros(added),
            np.full(added, INFINITE),
            len(values),
            starts.astype(np.int32),
            rows.astype(np.int32),
            values,
        )
        self._columns += added

    def add_dense_columns(self, cost: Floats, matrix: Floats) -> None:
        """Append one column per row of ``matrix``."""
        column, row = np.nonzero(matrix)
        starts = np.searchsorted(column, np.arange(len(cost)))
        self.add_columns(cost, starts, row, matrix[column, row])

    def change_costs(self, columns: Ints, costs: Floats) -> None:
        """Give columns another cost."""
        for column, cost in zip(columns.tolist(), costs.tolist(), strict=True):
            self._highs.changeColCost(column, cost)

    def solve(self) -> Solved:
        self._highs.run()
        solution = self._highs.getSolution()
        return Solved(
            self._highs.getInfo().objective_function_value,
            np.array(solution.col_value),
            np.array(solution.row_dual),
        )
