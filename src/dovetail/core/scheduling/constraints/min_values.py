"""minValues: how many distinct label values the types of a claim must keep."""

import numpy as np

from dovetail.core.scheduling.arrays.nodepools import NodePoolTable
from dovetail.core.scheduling.arrays.types import Bools, Floats, Ints


class PoolMinValues:
    """minValues of one NodePool."""

    def __init__(self, table: NodePoolTable) -> None:
        self.required: dict[str, int] = {
            key: requirement.min_values
            for key, requirement in sorted(table.requirements.items())
            if requirement.min_values is not None
        }
        self._values_of_rows: dict[str, Bools] = {}
        """Key → [types, values]: True where a type has the value."""
        self._by_value: dict[str, tuple[Ints, Ints]] = {}
        """Key → (rows sorted by value, start of each value among them), for ``reduceat``."""
        for key in self.required:
            values: dict[str, int] = {}
            pairs: list[tuple[int, int]] = []
            for index, row in enumerate(table.rows):
                requirement = row.type.requirements.get(key)
                if requirement is not None and not requirement.complement:
                    pairs += [(index, values.setdefault(v, len(values))) for v in sorted(requirement.values)]
            values_of_rows = np.zeros((len(table.rows), len(values)), dtype=bool)
            for index, value in pairs:
                values_of_rows[index, value] = True
            self._values_of_rows[key] = values_of_rows
            value_of, row_of = values_of_rows.T.nonzero()
            starts = np.flatnonzero(np.diff(value_of, prepend=-1))
            self._by_value[key] = (row_of, starts)

    def count_values(self, rows: Bools) -> dict[str, int]:
        """Return key → number of distinct values among rows [types]."""
        return {key: int(self._values_of_rows[key][rows].any(axis=0).sum()) for key in self.required}

    def is_met(self, rows: Bools, required: dict[str, int]) -> bool:
        """Return True if rows [types] have enough distinct values."""
        counts = self.count_values(rows)
        return all(counts[key] >= minimum for key, minimum in required.items())

    def max_pods(self, per_row: Floats, required: dict[str, int]) -> float:
        """Return how many pods fit while enough distinct values remain.

        ``per_row`` [types] are the pods that each type takes; negative: ruled out.
        With ``minimum`` required values the answer is, per key, the
        ``minimum``-th best value's best type.
        """
        max_pods = float("inf")
        for key, minimum in required.items():
            rows, starts = self._by_value[key]
            if len(starts) < minimum:
                return 0.0
            best = np.maximum.reduceat(per_row[rows], starts)
            max_pods = min(max_pods, float(np.partition(best, len(best) - minimum)[len(best) - minimum]))
        return max(0.0, max_pods)
