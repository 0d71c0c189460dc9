"""minValues: a claim must leave the cloud a choice."""

import numpy as np

from dovetail.core.scheduling.arrays.nodepools import PoolTable
from dovetail.core.scheduling.arrays.types import Bools, Floats, Ints


class Variety:
    """For one pool: how many distinct values of which keys its claims must keep."""

    def __init__(self, table: PoolTable) -> None:
        self.wanted: dict[str, int] = {
            key: one.min_values
            for key, one in sorted(table.base.items())
            if one.min_values is not None
        }
        self._members: dict[str, Bools] = {}
        self._by_value: dict[str, tuple[Ints, Ints]] = {}
        """Key → rows sorted by value, and where each value starts among them."""
        for key in self.wanted:
            values: dict[str, int] = {}
            pairs: list[tuple[int, int]] = []
            for index, row in enumerate(table.rows):
                known = row.type.requirements.get(key)
                if known is not None and not known.complement:
                    pairs += [
                        (index, values.setdefault(v, len(values))) for v in sorted(known.values)
                    ]
            member = np.zeros((len(table.rows), len(values)), dtype=bool)
            for index, value in pairs:
                member[index, value] = True
            self._members[key] = member
            value_of, row_of = member.T.nonzero()
            starts = np.flatnonzero(np.diff(value_of, prepend=-1))
            self._by_value[key] = (row_of, starts)

    def achieved(self, rows: Bools) -> dict[str, int]:
        """Return the number of distinct values among these rows."""
        return {key: int(self._members[key][rows].any(axis=0).sum()) for key in self.wanted}

    def enough(self, rows: Bools, wanted: dict[str, int]) -> bool:
        found = self.achieved(rows)
        return all(found[key] >= low for key, low in wanted.items())

    def headroom(self, per_row: Floats, wanted: dict[str, int]) -> float:
        """Return how many pods fit while enough values remain.

        ``per_row``: pods that each row would take; negative where it is ruled out.
        """
        room = float("inf")
        for key, low in wanted.items():
            rows, starts = self._by_value[key]
            if len(starts) < low:
                return 0.0
            best = np.maximum.reduceat(per_row[rows], starts)
            room = min(room, float(np.partition(best, len(best) - low)[len(best) - low]))
        return max(0.0, room)
