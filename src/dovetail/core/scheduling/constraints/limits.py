"""How much more a NodePool may buy."""

from collections.abc import Iterable, Sequence

import numpy as np

from dovetail.core.scheduling.arrays.nodepools import PoolTable
from dovetail.core.scheduling.arrays.types import Bools, Floats, Ints
from dovetail.model.kube.resources import Resources, total
from dovetail.model.node import Node


class Allowance:
    """What is left of a pool's limits; spent by the capacity of nominal types.

    A claim's alternatives may take more only as far as all claims could.
    """

    def __init__(self, table: PoolTable, nodes: Iterable[Node]) -> None:
        limits = table.pool.limits or Resources()
        self.names = sorted(limits)
        spent = total(
            node.effective_capacity()
            for node in (nodes if limits else ())
            if node.pool == table.pool.name and not node.deleting
        )
        self.left: Floats = np.array([float(limits[n] - spent.get(n, 0)) for n in self.names])
        self.capacity: Floats = table.capacities(self.names)
        self._most: list[float] = self.capacity.max(axis=0, initial=0.0).tolist()
        self._alternatives: dict[int, Bools] = {}

    @property
    def unlimited(self) -> bool:
        return not self.names

    @property
    def ample(self) -> bool:
        """Tell whether any type at all may be bought."""
        return all(most <= left for most, left in zip(self._most, self.left, strict=True))

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

    def could_swap(self, old: Ints, new: Ints) -> Bools:
        """Return which single swaps of types what is left allows; arrays broadcast."""
        extra = self.capacity[new] - self.capacity[old]
        return np.asarray((extra <= self.left).all(axis=-1))

    def change(self, old: Ints, new: Ints) -> bool:
        """Swap types for others, if what is left allows all of it."""
        extra = (self.capacity[new] - self.capacity[old]).sum(axis=0)
        if not (extra <= self.left).all():
            return False
        self.left = self.left - extra
        return True

    def reopen(self, left: Floats) -> None:
        """Begin anew with so much left."""
        self.left = left
        self._alternatives.clear()

    def covers(self, capacity: Sequence[float], count: int) -> bool:
        """Tell whether ``count`` nodes of this capacity may be bought."""
        return all(one * count <= left for one, left in zip(capacity, self.left, strict=True))

    def alternatives(self, row: int, claims: int) -> Bools:
        """Return the rows that may stand in for this one on a claim.

        What is left of the limits is shared by all claims of the pool, so that
        they hold whichever types are launched.
        """
        known = self._alternatives.get(row)
        if known is None:
            most = self.capacity[row] + self.left / max(1, claims)
            known = self._alternatives[row] = np.asarray((self.capacity <= most).all(axis=1))
        return known
