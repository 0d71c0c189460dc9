"""What a claim has been narrowed to, as a number.

A claim's requirements change only when a class of pods joins it, and few
different sets of them ever occur. Each distinct set is a *state*; joining is a
table look-up from state to state, and "which types are left, at what price" is
one row of an array. State 0 is the dead one: nothing can be bought.
"""

from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import NamedTuple

import numpy as np

from dovetail.core.scheduling.arrays.instance_types import NEVER
from dovetail.core.scheduling.arrays.nodepools import PoolTable
from dovetail.core.scheduling.arrays.types import Bools, Floats, Ints
from dovetail.model import labels as label_keys
from dovetail.model.kube.requirements import Requirement, Requirements
from dovetail.model.kube.taints import Toleration, untolerated

DEAD = 0


class State(NamedTuple):
    """A pool's claim with these requirements: its types and offering columns."""

    pool: int
    requirements: Requirements
    rows: Bools
    columns: Bools


class Ask(NamedTuple):
    """What a class wants of a node's labels and taints."""

    requirements: Requirements
    tolerations: tuple[Toleration, ...]
    pools: tuple[bool, ...]
    """Which pools' taints it tolerates."""


class StateSpace:
    """All states met so far, and how asks lead from one to another."""

    def __init__(self, pools: Sequence[PoolTable]) -> None:
        self.pools = pools
        self._width = max((len(pool.rows) for pool in pools), default=0)
        self.cost: Floats = np.full((16, self._width), NEVER)
        """Price of the cheapest way to have a row in a state; infinite: not at all."""
        nothing = np.zeros(0, dtype=bool)
        self.states: list[State] = [State(-1, Requirements(), nothing, nothing)]
        self.pool_of: Ints = np.full(16, -1, dtype=np.int64)
        self._numbers: dict[tuple[int, Requirements], int] = {}
        self.asks: list[Ask] = []
        self._ask_numbers: dict[tuple[Requirements, tuple[Toleration, ...]], int] = {}
        self._rows: list[Ints] = []
        self._known: list[int] = []
        self._moves: dict[tuple[int, int], int] = {}
        self._fitting: dict[int, Ints] = {}
        self.roots = [
            self._number_of(
                index,
                pool.base,
                self._narrow_rows(index, np.ones(len(pool.rows), dtype=bool), pool.base.values()),
                self._narrow_columns(
                    index, np.ones(len(pool.columns), dtype=bool), pool.base.values()
                ),
            )
            for index, pool in enumerate(pools)
        ]

    def tiers(self) -> list[list[int]]:
        """Return the roots of pools that can buy anything, heaviest first, equals together."""
        alive = [root for root in self.roots if root != DEAD]
        return [list(some) for _, some in groupby(alive, key=self.weight)]

    def weight(self, state: int) -> int:
        """Return the weight of a state's pool."""
        return self.pools[self.states[state].pool].pool.weight

    def ask(self, wanted: Requirements, tolerations: tuple[Toleration, ...]) -> int:
        """Return the number of this ask."""
        key = (wanted, tolerations)
        number = self._ask_numbers.get(key)
        if number is None:
            number = self._ask_numbers[key] = len(self.asks)
            pools = tuple(
                untolerated(pool.pool.template.taints, tolerations) is None for pool in self.pools
            )
            self.asks.append(Ask(wanted, tolerations, pools))
            self._rows.append(np.zeros(16, dtype=np.int64))
            self._known.append(1)
        return number

    def also(self, ask: int, more: Requirements) -> int:
        """Return the ask that wants ``more`` besides."""
        if not more:
            return ask
        base = self.asks[ask]
        return self.ask(base.requirements.and_also(more.values()), base.tolerations)

    def move(self, state: int, ask: int) -> int:
        """Return the state a claim is in once a class with this ask joins it."""
        if state == DEAD:
            return DEAD
        key = (state, ask)
        target = self._moves.get(key)
        if target is None:
            target = self._moves[key] = self._move(self.states[state], self.asks[ask], state)
        return target

    def _move(self, state: State, ask: Ask, number: int) -> int:
        if not ask.pools[state.pool]:
            return DEAD
        if not ask.requirements:
            return number
        if state.requirements.why_incompatible(
            ask.requirements, undefined_ok=label_keys.WELL_KNOWN
        ):
            return DEAD
        # A label that the pool does not have stays away, whoever can do without it.
        wanted = {
            key: one
            for key, one in ask.requirements.items()
            if key in state.requirements or key in label_keys.WELL_KNOWN
        }
        merged = state.requirements.and_also(wanted.values())
        if merged == state.requirements:
            return number
        known = self._numbers.get((state.pool, merged))
        if known is not None:
            return known
        changed = [
            one
            for key, one in merged.items()
            if key in wanted and state.requirements.get(key) != one
        ]
        return self._number_of(
            state.pool,
            merged,
            self._narrow_rows(state.pool, state.rows, changed),
            self._narrow_columns(state.pool, state.columns, changed),
        )

    def targets(self, ask: int) -> Ints:
        """Return, for every state there is, the state after joining."""
        row, known = self._rows[ask], self._known[ask]
        count = len(self.states)
        while known < count:  # Moving may make new states; they are covered as well.
            if len(row) < count:
                row = self._rows[ask] = np.concatenate(
                    [row, np.zeros(max(count, len(row)), dtype=np.int64)]
                )
            for state in range(known, count):
                row[state] = self.move(state, ask)
            known, count = count, len(self.states)
        self._known[ask] = known
        return row

    def restrict(self, state: int, one: Requirement) -> int:
        """Return the state with one more requirement, whoever wants it."""
        return self.narrowed(state, Requirements.of([one]))

    def narrowed(self, state: int, more: Requirements) -> int:
        """Return the state with more requirements, whoever wants them."""
        return self.move(state, self.ask(more, _EVERYTHING))

    def _narrow_rows(self, pool: int, rows: Bools, more: Iterable[Requirement]) -> Bools:
        table = self.pools[pool]
        for one in more:
            rows = rows & table.rows_allowing(one)
        return rows

    def _narrow_columns(self, pool: int, columns: Bools, more: Iterable[Requirement]) -> Bools:
        table = self.pools[pool]
        for one in more:
            columns = columns & table.columns_allowing(one)
        return columns

    def _number_of(self, pool: int, wanted: Requirements, rows: Bools, columns: Bools) -> int:
        table = self.pools[pool]
        cost = np.full(self._width, NEVER)
        if rows.any() and columns.any():
            best = table.price[:, columns].min(axis=1)
            cost[: len(rows)] = np.where(rows, best, NEVER)
        reserved = [
            (row, offering.price)
            for row, offering in table.reserved
            if rows[row] and not wanted.clash(offering.requirements())
        ]
        if wanted.get(label_keys.CAPACITY_TYPE) == _RESERVED_ONLY:
            for row, price in reserved:
                cost[row] = min(cost[row], price)
        contradictory = any(
            one.present and not one.complement and not one.values for one in wanted.values()
        )
        if contradictory or (not np.isfinite(cost).any() and not reserved):
            number = DEAD
        else:
            number = len(self.states)
            self.states.append(State(pool, wanted, rows, columns))
            if number >= len(self.cost):
                self.cost = np.concatenate([self.cost, np.full_like(self.cost, NEVER)])
                self.pool_of = np.concatenate([self.pool_of, np.full_like(self.pool_of, -1)])
            self.cost[number] = cost
            self.pool_of[number] = pool
        self._numbers[(pool, wanted)] = number
        return number

    def in_price_order(self, state: int) -> Ints:
        """Return the rows that can be had in this state, cheapest first."""
        order = self._fitting.get(state)
        if order is None:
            cost = self.cost[state]
            order = np.argsort(cost, kind="stable")[: int(np.isfinite(cost).sum())]
            self._fitting[state] = order
        return order


_RESERVED_ONLY = Requirement.one_of(label_keys.CAPACITY_TYPE, label_keys.RESERVED)
_EVERYTHING = (Toleration(operator="Exists"),)
