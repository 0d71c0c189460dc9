"""How much more a NodePool may buy."""

from collections.abc import Iterable

import numpy as np

from dovetail.core.scheduling.arrays import Bools, Floats
from dovetail.core.scheduling.tables import PoolTable
from dovetail.model.nodes import Node
from dovetail.model.resources import Resources, total


class Allowance:
    """What is left of a pool's limits; spent by the capacity of nominal types.

    A claim's alternatives are later held to the capacity it was charged for, so
    the limit holds whichever of them is launched.
    """

    def __init__(self, table: PoolTable, nodes: Iterable[Node]) -> None:
        limits = table.pool.limits or Resources()
        self.names = sorted(limits)
        spent = total(
            node.effective_capacity()
            for node in nodes
            if node.pool == table.pool.name and not node.deleting
        )
        self.left: Floats = np.array([float(limits[n] - spent.get(n, 0)) for n in self.names])
        self.capacity: Floats = table.capacities(self.names)

    @property
    def unlimited(self) -> bool:
        return not self.names

    def affordable(self) -> Bools:
        """Return the rows of which one more may be bought."""
        return np.asarray((self.capacity <= self.left).all(axis=1))

    def copies(self, row: int) -> float:
        """Return how many of this row may be bought."""
        need = self.capacity[row]
        asked = need > 0
        if not asked.any():
            return float("inf")
        return float(np.floor(self.left[asked] / need[asked]).min())

    def spend(self, row: int, copies: int) -> None:
        self.left = self.left - self.capacity[row] * copies

    def could_change(self, old: int, new: int) -> bool:
        return bool((self.capacity[new] - self.capacity[old] <= self.left).all())

    def change(self, old: int, new: int) -> None:
        self.left = self.left - (self.capacity[new] - self.capacity[old])

    def within(self, row: int) -> Bools:
        """Return the rows that cost no more of the limits than this one."""
        return np.asarray((self.capacity <= self.capacity[row]).all(axis=1))
