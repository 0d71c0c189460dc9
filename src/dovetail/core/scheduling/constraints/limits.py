"""Limit headroom: what NodePool limits still allow."""

from collections.abc import Iterable, Sequence

import numpy as np

from dovetail.core.scheduling.arrays.nodepools import NodePoolTable
from dovetail.core.scheduling.arrays.types import Bools, Floats, Ints
from dovetail.model.kube.resources import Resources, sum_resources
from dovetail.model.node import Node


class LimitHeadroom:
    """Remaining ``spec.limits`` of a NodePool.

    Claims consume the capacity of their nominal types. Other types of a claim may
    be larger, as long as the limits hold whichever types are launched.
    """

    def __init__(self, table: NodePoolTable, nodes: Iterable[Node]) -> None:
        limits = table.pool.limits or Resources()
        self.names = sorted(limits)
        used = sum_resources(
            node.effective_capacity()
            for node in (nodes if limits else ())
            if node.pool == table.pool.name and (not node.deleting or node.keeps_limits)
        )
        # [names]: remaining amount; negative if existing nodes exceed the limit.
        self.remaining: Floats = np.array([float(limits[n] - used.get(n, 0)) for n in self.names])
        # [types, names]
        self.capacity: Floats = table.capacities(self.names)
        self._max_capacity: list[float] = self.capacity.max(axis=0, initial=0.0).tolist()
        self._allowed_alternatives: dict[int, Bools] = {}

    @property
    def is_unlimited(self) -> bool:
        return not self.names

    @property
    def allows_every_type(self) -> bool:
        """True if a node of any type may be launched."""
        return all(
            capacity <= left for capacity, left in zip(self._max_capacity, self.remaining, strict=True)
        )

    def allowed_rows(self) -> Bools:
        """Return [types]: True where one more node may be launched."""
        return np.asarray((self.capacity <= self.remaining).all(axis=1))

    def max_copies(self, row: int) -> float:
        """Return how many nodes of a type may be launched; may be infinite."""
        need = self.capacity[row]
        needed = need > 0
        if not needed.any():
            return float("inf")
        return float(np.floor(self.remaining[needed] / need[needed]).min())

    def consume(self, row: int, copies: int) -> None:
        """Subtract the capacity of ``copies`` nodes of a type."""
        self.remaining = self.remaining - self.capacity[row] * copies

    def can_swap(self, old: Ints, new: Ints) -> Bools:
        """Return True for each single swap ``old`` → ``new`` that fits; arrays broadcast."""
        extra = self.capacity[new] - self.capacity[old]
        return np.asarray((extra <= self.remaining).all(axis=-1))

    def try_swap(self, old: Ints, new: Ints) -> bool:
        """Swap types ``old`` [claims] for ``new`` if all swaps fit together.

        Return False, and change nothing, if they do not.
        """
        extra = (self.capacity[new] - self.capacity[old]).sum(axis=0)
        if not (extra <= self.remaining).all():
            return False
        self.remaining = self.remaining - extra
        return True

    def reset(self, left: Floats) -> None:
        """Set the remaining amounts, for a new trial."""
        self.remaining = left
        self._allowed_alternatives.clear()

    def covers(self, capacity: Sequence[float], count: int) -> bool:
        """Return True if ``count`` nodes of this capacity [names] may be launched."""
        return all(amount * count <= left for amount, left in zip(capacity, self.remaining, strict=True))

    def allowed_alternatives(self, row: int, claims: int) -> Bools:
        """Return [types]: types that a claim with this nominal type may list.

        All claims of the pool share the remaining amounts equally, so the limits hold
        whichever types are launched.
        """
        allowed = self._allowed_alternatives.get(row)
        if allowed is None:
            max_capacity = self.capacity[row] + self.remaining / max(1, claims)
            allowed = np.asarray((self.capacity <= max_capacity).all(axis=1))
            self._allowed_alternatives[row] = allowed
        return allowed
