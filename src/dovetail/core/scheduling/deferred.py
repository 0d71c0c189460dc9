"""Pods without ties, kept back so that one fleet is chosen for all of them.

A class may use the claims that its own demands lead to, and those bought for
pickier classes where it fits in without narrowing them. Who may go where is
told to the optimiser as one more resource for each such set of claims: nodes in
the set have plenty of it, all others none.
"""

from typing import NamedTuple

import numpy as np

from dovetail.core.scheduling.arrays.claim_states import DEAD
from dovetail.core.scheduling.arrays.types import Bools, Floats
from dovetail.core.scheduling.constraints.compiled_class import Want
from dovetail.core.scheduling.domains import Cell
from dovetail.core.scheduling.fleet import Bundle, Demand, cheapest_fleet
from dovetail.core.scheduling.problem import Problem

_MOST_TOGETHER = 128
"""Classes weighed at once; more are divided by the claims that they would open."""
_PODS_PER_CLAIM = 2
_MOST_STATES = 12
_PLENTY = float(1 << 40)
_NO_CAP = np.iinfo(np.int64).max


class Batch(NamedTuple):
    """Pods of one class that wait for the fleet."""

    want: Want
    ask: int
    cell: Cell
    pods: int
    states: tuple[int, ...]
    """Of the claims it would open itself: one for each pool of its tier."""


class Missing(NamedTuple):
    """Pods of a batch that got no place after all."""

    batch: Batch
    pods: int


class Deferred:
    """Collects batches, then buys for all of them."""

    def __init__(self, problem: Problem) -> None:
        self._problem = problem
        self._batches: list[Batch] = []

    def accept(self, want: Want, ask: int, cell: Cell, count: int) -> int | None:
        """Keep pods for the fleet; returns the state of its claims, None if it cannot."""
        if any(_might_meet(batch, want, cell) for batch in self._batches):
            return None
        for tier in self._problem.space.tiers():
            states = []
            for root in tier:
                state = self._problem.space.move(root, ask)
                if state == DEAD or not (self._problem.board.each(want, state) >= 1).any():
                    continue
                if not self._is_plain(want, state):
                    return None
                states.append(state)
            if states:
                self._batches.append(Batch(want, ask, cell, count, tuple(states)))
                return states[0]
        return None

    def _is_plain(self, want: Want, state: int) -> bool:
        """Tell whether nothing but price and size decides about claims in a state."""
        board = self._problem.board
        pool = self._problem.space.states[state].pool
        if board.varieties[pool].wanted or board.reservations.offered(pool):
            return False
        return bool((self._rows(state) & (board.each(want, state) >= 1)).any())

    def _rows(self, state: int) -> Bools:
        """Return the types a fleet in this state may use."""
        space, board = self._problem.space, self._problem.board
        pool = space.states[state].pool
        rows: Bools = np.isfinite(space.cost[state][: len(space.pools[pool].rows)])
        if not board.allowances[pool].unlimited:
            rows &= board.allowances[pool].affordable()
        return rows

    def open(self) -> list[Missing]:
        """Buy for every batch; returns what got no place.

        The least flexible go first, so that others can use what they leave.
        """
        missing: list[Missing] = []
        groups = self._groups()
        for batches in groups:
            left = self._use_gaps(batches) if len(groups) > 1 else batches
            if not left:
                continue
            if self._fits_what_is_open(left) or not self._open_together(left):
                missing += self._open_singly(left)
        return missing

    def _fits_what_is_open(self, batches: list[Batch]) -> bool:
        """Tell whether many small classes are better off on claims that are open anyway.

        With few pods to each of many claims, growing these a little is cheaper
        than nodes of their own, and quicker than weighing hundreds of classes.
        """
        pods = sum(batch.pods for batch in batches)
        claims = self._problem.hosts.count - self._problem.hosts.existing
        return len(batches) > _MOST_TOGETHER and pods <= _PODS_PER_CLAIM * claims

    def _groups(self) -> list[list[Batch]]:
        """Divide batches into those decided on together, pickiest first."""
        batches, self._batches = self._batches, []
        states = {state for batch in batches for state in batch.states}
        if len(states) <= _MOST_STATES and len(batches) <= _MOST_TOGETHER:
            return [batches] if batches else []
        by_states: dict[tuple[int, ...], list[Batch]] = {}
        for batch in batches:
            by_states.setdefault(batch.states, []).append(batch)
        choice = {key: sum(int(self._rows(state).sum()) for state in key) for key in by_states}
        return [by_states[key] for key in sorted(by_states, key=lambda key: (choice[key], key))]

    def _use_gaps(self, batches: list[Batch]) -> list[Batch]:
        left = []
        for batch in batches:
            self._problem.hosts.measure(batch.want.size)
            found = self._problem.packer.gaps(batch.want, batch.ask, batch.pods)
            if found < batch.pods:
                left.append(batch._replace(pods=batch.pods - found))
        return left

    def _open_together(self, batches: list[Batch]) -> bool:
        states = self._states(batches)
        offers = [
            (state, row) for state in states for row in np.flatnonzero(self._rows(state)).tolist()
        ]
        welcome = [self._welcome(batch, states) for batch in batches]
        if not all(self._fits(b, states, some) for b, some in zip(batches, welcome, strict=True)):
            return False  # What others spent of the limits leaves too little for some.
        bundles = cheapest_fleet(self._demand(batches, states, welcome))
        if not self._affordable(offers, bundles):
            return False
        board = self._problem.board
        for bundle in bundles:
            state, row = offers[bundle.type_index]
            pool = self._problem.space.states[state].pool
            board.allowances[pool].spend(row, bundle.copies)
            claims = self._problem.hosts.open(state, row, bundle.copies)
            for index in np.flatnonzero(bundle.counts).tolist():
                each = np.full(bundle.copies, bundle.counts[index], dtype=np.int64)
                board.put(batches[index].want, claims, each)
        return True

    def _states(self, batches: list[Batch]) -> list[int]:
        """Return the states worth considering: the batches' own, and what two have in common."""
        space = self._problem.space
        own = sorted({state for batch in batches for state in batch.states})
        shared = {
            space.move(state, ask) for state in own for ask in {batch.ask for batch in batches}
        }
        more = sorted(shared - {DEAD, *own})
        return own + more[: max(0, _MOST_STATES - len(own))]

    def _welcome(self, batch: Batch, states: list[int]) -> tuple[bool, ...]:
        """Return in which states' claims a batch may go without narrowing them."""
        space = self._problem.space
        weight = space.weight(batch.states[0])
        return tuple(
            state in batch.states
            or (space.weight(state) == weight and space.move(state, batch.ask) == state)
            for state in states
        )

    def _fits(self, batch: Batch, states: list[int], welcome: tuple[bool, ...]) -> bool:
        return any(
            bool((self._rows(state) & (self._problem.board.each(batch.want, state) >= 1)).any())
            for state, fine in zip(states, welcome, strict=True)
            if fine
        )

    def _demand(
        self, batches: list[Batch], states: list[int], welcome: list[tuple[bool, ...]]
    ) -> Demand:
        space = self._problem.space
        circles = sorted({some for some in welcome if not all(some)})
        passes = np.array([[some == circle for circle in circles] for some in welcome], dtype=float)
        alloc: list[Floats] = []
        price: list[Floats] = []
        for place, state in enumerate(states):
            rows = self._rows(state)
            of_pool = space.pools[space.states[state].pool].alloc[rows]
            doors = [_PLENTY if circle[place] else 0.0 for circle in circles]
            alloc.append(np.hstack([of_pool, np.tile(doors, (len(of_pool), 1))]))
            price.append(space.cost[state][: len(rows)][rows] + self._problem.settings.node_cost)
        sizes = np.array([batch.want.size for batch in batches])
        caps = [_NO_CAP if b.want.cap is None else b.want.cap for b in batches]
        return Demand(
            sizes=np.hstack([sizes, passes]) if circles else sizes,
            counts=np.array([batch.pods for batch in batches], dtype=np.int64),
            alloc=np.vstack(alloc),
            price=np.concatenate(price),
            max_per_node=np.array(caps, dtype=np.int64),
        )

    def _affordable(self, offers: list[tuple[int, int]], bundles: list[Bundle]) -> bool:
        """Tell whether the limits of all pools allow this fleet."""
        board, space = self._problem.board, self._problem.space
        spent: dict[int, Floats] = {}
        for one in bundles:
            state, row = offers[one.type_index]
            pool = space.states[state].pool
            more = board.allowances[pool].capacity[row] * one.copies
            spent[pool] = spent.get(pool, np.zeros_like(more)) + more
        return all(bool((spent[pool] <= board.allowances[pool].left).all()) for pool in spent)

    def _open_singly(self, batches: list[Batch]) -> list[Missing]:
        """Buy class by class, as far as the pools' limits go."""
        missing = []
        for batch in batches:
            self._problem.hosts.measure(batch.want.size)
            found = self._problem.packer.gaps(batch.want, batch.ask, batch.pods)
            found += self._problem.packer.buy(batch.want, batch.ask, batch.pods - found)
            if found < batch.pods:
                missing.append(Missing(batch, batch.pods - found))
        return missing


def _might_meet(batch: Batch, want: Want, cell: Cell) -> bool:
    """Tell whether pods of one class in two batches could share a node they must not share.

    The fleet knows how many pods of a batch a node takes, not of two together.
    """
    if batch.want.pod_class is not want.pod_class:
        return False
    if batch.want.cap is None and want.cap is None:
        return False
    apart = batch.want.keys == want.keys and batch.cell != cell
    return not apart
