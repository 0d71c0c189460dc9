"""Pods without ties, kept back so that one fleet is chosen for all of them."""

from typing import NamedTuple

import numpy as np

from dovetail.core.scheduling.arrays import Bools
from dovetail.core.scheduling.fleet import Bundle, Demand, cheapest_fleet
from dovetail.core.scheduling.problem import Problem
from dovetail.core.scheduling.spreading import Cell
from dovetail.core.scheduling.states import DEAD
from dovetail.core.scheduling.wants import Want

_MOST_TOGETHER = 128
"""Classes in one fleet; with more, each has few pods and buying singly is as good."""


class Batch(NamedTuple):
    """Pods of one class that wait for the fleet."""

    want: Want
    ask: int
    cell: Cell
    pods: int


class Deferred:
    """Collects batches by the state their claims would be in, then buys for all."""

    def __init__(self, problem: Problem) -> None:
        self._problem = problem
        self._batches: dict[int, list[Batch]] = {}

    def accept(self, want: Want, ask: int, cell: Cell, count: int) -> int | None:
        """Keep pods for the fleet; returns the state of its claims, None if it cannot."""
        space, board = self._problem.space, self._problem.board
        for root in space.roots:
            state = space.move(root, ask)
            if state == DEAD:
                continue
            pool = space.states[state].pool
            if not (board.each(want, state) >= 1).any():
                continue
            if board.varieties[pool].wanted or board.reservations.offered(pool):
                return None
            if not (self._rows(state) & (board.each(want, state) >= 1)).any():
                return None
            self._batches.setdefault(state, []).append(Batch(want, ask, cell, count))
            return state
        return None

    def _rows(self, state: int) -> Bools:
        """Return the types a fleet in this state may use."""
        space, board = self._problem.space, self._problem.board
        pool = space.states[state].pool
        rows: Bools = np.isfinite(space.cost[state][: len(space.pools[pool].rows)])
        if not board.allowances[pool].unlimited:
            rows &= board.allowances[pool].affordable()
        return rows

    def open(self) -> list[tuple[Want, Cell, int, int]]:
        """Buy for every batch; returns (want, cell, count, state) of what got no place.

        The least flexible go first, so that others can use what they leave.
        """
        missing = []
        order = sorted(self._batches, key=lambda state: (int(self._rows(state).sum()), state))
        for state in order:
            batches = self._batches.pop(state)
            if len(order) > 1:
                batches = self._use_gaps(batches)
            together = len(batches) <= _MOST_TOGETHER and self._open_together(state, batches)
            if not together:
                missing += self._open_singly(state, batches)
        return missing

    def _use_gaps(self, batches: list[Batch]) -> list[Batch]:
        packer = self._problem.packer
        left = []
        for batch in batches:
            self._problem.hosts.measure(batch.want.size)
            found = packer.gaps(batch.want, batch.ask, batch.pods)
            if found < batch.pods:
                left.append(batch._replace(pods=batch.pods - found))
        return left

    def _open_together(self, state: int, batches: list[Batch]) -> bool:
        space, board = self._problem.space, self._problem.board
        pool = space.states[state].pool
        rows = np.flatnonzero(self._rows(state))
        if not all((board.each(batch.want, state)[rows] >= 1).any() for batch in batches):
            return False  # What others spent of the limits leaves too little for some.
        no_cap = np.iinfo(np.int64).max
        bundles = cheapest_fleet(
            Demand(
                sizes=np.array([batch.want.size for batch in batches]),
                counts=np.array([batch.pods for batch in batches], dtype=np.int64),
                alloc=space.pools[pool].alloc[rows],
                price=space.cost[state][rows] + self._problem.settings.node_cost,
                max_per_node=np.array(
                    [no_cap if b.want.cap is None else b.want.cap for b in batches], dtype=np.int64
                ),
            )
        )
        if not self._affordable(pool, rows, bundles):
            return False
        for bundle in bundles:
            row = int(rows[bundle.type_index])
            board.allowances[pool].spend(row, bundle.copies)
            claims = self._problem.hosts.open(state, row, bundle.copies)
            for index in np.flatnonzero(bundle.counts).tolist():
                each = np.full(bundle.copies, bundle.counts[index], dtype=np.int64)
                board.put(batches[index].want, claims, each)
        return True

    def _affordable(
        self, pool: int, rows: np.ndarray[tuple[int], np.dtype[np.int64]], bundles: list[Bundle]
    ) -> bool:
        allowance = self._problem.board.allowances[pool]
        if allowance.unlimited:
            return True
        spent = sum(allowance.capacity[rows[one.type_index]] * one.copies for one in bundles)
        return bool((spent <= allowance.left).all())

    def _open_singly(self, state: int, batches: list[Batch]) -> list[tuple[Want, Cell, int, int]]:
        """Buy class by class, as far as the pool's limits go."""
        missing = []
        for batch in batches:
            packer = self._problem.packer
            self._problem.hosts.measure(batch.want.size)
            found = packer.buy(batch.want, batch.ask, batch.pods)
            if found < batch.pods:
                missing.append((batch.want, batch.cell, batch.pods - found, state))
        return missing
