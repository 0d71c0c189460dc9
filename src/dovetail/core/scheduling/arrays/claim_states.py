"""Claim states: what claims have been narrowed to, interned as integers.

The requirements of a claim change only when a class of pods is added to it, and
few distinct sets of requirements ever occur. Each distinct (NodePool,
requirements) pair is a *claim state* with an integer id. Requirement algebra runs
once per (claim state, node constraint) pair; afterwards adding a class is a
look-up in an array::

    new_states = space.narrow_states(nodes.claim_state[claims], constraint)

"Which types are left, and at what price" is one row of ``cost``. State 0 is
INFEASIBLE: no type is left. It maps to itself under every constraint.
"""

from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import NamedTuple

import numpy as np

from dovetail.core.scheduling.arrays.instance_types import UNAVAILABLE
from dovetail.core.scheduling.arrays.nodepools import NodePoolTable
from dovetail.core.scheduling.arrays.types import Bools, Floats, Ints
from dovetail.model import labels as label_keys
from dovetail.model.kube.requirements import Requirement, Requirements
from dovetail.model.kube.taints import Toleration, find_untolerated_taint

# Callers rely on the value: ``states.nonzero()`` selects the feasible ones.
INFEASIBLE = 0
_UNKNOWN = -1
"""In a row of transitions: not computed yet."""


class ClaimState(NamedTuple):
    """A NodePool and the requirements of a claim of it."""

    pool: int
    """Index into ``ClaimStateSpace.tables``."""
    requirements: Requirements
    rows: Bools
    """[types]: rows of the NodePoolTable that the requirements allow."""
    columns: Bools
    """[offerings]: columns of the NodePoolTable that the requirements allow."""


class NodeConstraint(NamedTuple):
    """Node labels and taints that a class of pods accepts."""

    requirements: Requirements
    tolerations: tuple[Toleration, ...]
    tolerates_pool: tuple[bool, ...]
    """[pools]: True where the taints of the NodePool are tolerated."""


class ClaimStateSpace:
    """All claim states and node constraints met so far, and transitions between them.

    Ids are given in the order of first use, which is deterministic.
    """

    def __init__(self, tables: Sequence[NodePoolTable]) -> None:
        self.tables = tables
        self._width = max((len(table.rows) for table in tables), default=0)
        self.cost: Floats = np.full((16, self._width), UNAVAILABLE)
        """[claim states, types]: cost of a node, USD per hour.

        It is the price of the cheapest available offering, with the node cost of the pool.
        Infinite: the type is not available in this state. Both axes may be longer than
        needed: states are added, and pools have different numbers of types.
        """
        no_rows = np.zeros(0, dtype=bool)
        self.states: list[ClaimState] = [ClaimState(-1, Requirements(), no_rows, no_rows)]
        # [claim states]: index of the NodePool.
        self.pool_of: Ints = np.full(16, -1, dtype=np.int64)
        self._state_ids: dict[tuple[int, Requirements], int] = {}
        self.constraints: list[NodeConstraint] = []
        self._constraint_ids: dict[tuple[Requirements, tuple[Toleration, ...]], int] = {}
        self._tolerated_pools: dict[tuple[Toleration, ...], tuple[bool, ...]] = {}
        # Per constraint: [claim states] target states, computed when a claim is in the state.
        self._transitions: list[Ints] = []
        self._narrowed: dict[tuple[int, int], int] = {}
        self._rows_by_price: dict[int, Ints] = {}
        self._available_rows: dict[int, Bools] = {}
        self._available_row_bits: dict[int, int] = {}
        self._lowest_costs: dict[int, float] = {}
        self._order_keys: dict[int, tuple[float, int, str]] = {}
        self.roots = [
            self._intern_state(
                index,
                table.requirements,
                self._narrow_rows(index, np.ones(len(table.rows), dtype=bool), table.requirements.values()),
                self._narrow_columns(
                    index, np.ones(len(table.columns), dtype=bool), table.requirements.values()
                ),
            )
            for index, table in enumerate(tables)
        ]

    def roots_by_weight(self) -> list[list[int]]:
        """Return the roots of usable pools, by descending weight of the pool.

        A root is the claim state of an empty claim. Pools of equal weight share a
        list, in the order of ``tables``.
        """
        feasible = [root for root in self.roots if root != INFEASIBLE]
        return [list(roots) for _, roots in groupby(feasible, key=self.weight)]

    def weight(self, state: int) -> int:
        """Return the weight of the NodePool of a claim state."""
        return self.tables[self.states[state].pool].pool.weight

    def intern_constraint(self, requirements: Requirements, tolerations: tuple[Toleration, ...]) -> int:
        """Return the id of a node constraint."""
        key = (requirements, tolerations)
        number = self._constraint_ids.get(key)
        if number is None:
            number = self._constraint_ids[key] = len(self.constraints)
            self.constraints.append(NodeConstraint(requirements, tolerations, self._tolerated(tolerations)))
            self._transitions.append(np.zeros(1, dtype=np.int64))
        return number

    def _tolerated(self, tolerations: tuple[Toleration, ...]) -> tuple[bool, ...]:
        """Return [pools]: True where the taints are tolerated; cached."""
        pools = self._tolerated_pools.get(tolerations)
        if pools is None:
            pools = self._tolerated_pools[tolerations] = tuple(
                find_untolerated_taint(table.pool.template.taints, tolerations) is None
                for table in self.tables
            )
        return pools

    def extend_constraint(self, constraint: int, more: Requirements) -> int:
        """Return the id of a constraint with ``more`` requirements added."""
        if not more:
            return constraint
        base = self.constraints[constraint]
        return self.intern_constraint(base.requirements.intersection(more.values()), base.tolerations)

    def narrow(self, state: int, constraint: int) -> int:
        """Return the claim state after a class with this constraint is added."""
        if state == INFEASIBLE:
            return INFEASIBLE
        key = (state, constraint)
        target = self._narrowed.get(key)
        if target is None:
            target = self._narrow(self.states[state], self.constraints[constraint], state)
            self._narrowed[key] = target
        return target

    def _narrow(self, state: ClaimState, constraint: NodeConstraint, number: int) -> int:
        if not constraint.tolerates_pool[state.pool]:
            return INFEASIBLE
        if not constraint.requirements:
            return number
        if state.requirements.find_conflict(constraint.requirements, allow_undefined=label_keys.WELL_KNOWN):
            return INFEASIBLE
        # A constraint such as "label does not exist" on a label unknown to the pool holds
        # by itself. It must not become a requirement of the NodeClaim.
        requirements = {
            key: requirement
            for key, requirement in constraint.requirements.items()
            if key in state.requirements or key in label_keys.WELL_KNOWN
        }
        merged = state.requirements.intersection(requirements.values())
        if merged == state.requirements:
            return number
        existing = self._state_ids.get((state.pool, merged))
        if existing is not None:
            return existing
        changed = [
            requirement
            for key, requirement in merged.items()
            if key in requirements and state.requirements.get(key) != requirement
        ]
        return self._intern_state(
            state.pool,
            merged,
            self._narrow_rows(state.pool, state.rows, changed),
            self._narrow_columns(state.pool, state.columns, changed),
        )

    def narrow_states(self, states: Ints, constraint: int) -> Ints:
        """Return [states]: target of each claim state under a constraint."""
        row = self.transition_row(constraint)
        targets: Ints = row[states]
        if len(targets) and targets.min() < 0:
            for state in sorted(set(states[targets < 0].tolist())):
                row[state] = self.narrow(state, constraint)
            targets = row[states]
        return targets

    def transition_row(self, constraint: int) -> Ints:
        """Return [claim states]: target of each state; negative if not computed yet."""
        row = self._transitions[constraint]
        if len(row) < len(self.states):
            unknown = np.full(2 * len(self.states) - len(row), _UNKNOWN, dtype=np.int64)
            row = self._transitions[constraint] = np.concatenate([row, unknown])
        return row

    def order_key(self, state: int) -> tuple[float, int, str]:
        """Return a sort key of claim states: cheapest type, NodePool, requirements.

        Ids of states depend on the order in which classes are placed; a plan must not.
        """
        key = self._order_keys.get(state)
        if key is None:
            pool, requirements = self.states[state].pool, self.states[state].requirements
            key = self._order_keys[state] = (self.lowest_cost(state), pool, str(requirements))
        return key

    def lowest_cost(self, state: int) -> float:
        """Return the cost of a node of the cheapest type in a claim state; cached."""
        lowest = self._lowest_costs.get(state)
        if lowest is None:
            lowest = self._lowest_costs[state] = float(self.cost[state].min(initial=UNAVAILABLE))
        return lowest

    def add_requirement(self, state: int, requirement: Requirement) -> int:
        """Return the claim state with one more requirement; taints are ignored."""
        return self.add_requirements(state, Requirements.from_requirements([requirement]))

    def add_requirements(self, state: int, more: Requirements) -> int:
        """Return the claim state with more requirements; taints are ignored."""
        return self.narrow(state, self.intern_constraint(more, _TOLERATE_ALL))

    def _narrow_rows(self, pool: int, rows: Bools, more: Iterable[Requirement]) -> Bools:
        table = self.tables[pool]
        for requirement in more:
            rows = rows & table.rows_matching(requirement)
        return rows

    def _narrow_columns(self, pool: int, columns: Bools, more: Iterable[Requirement]) -> Bools:
        table = self.tables[pool]
        for requirement in more:
            columns = columns & table.columns_matching(requirement)
        return columns

    def _intern_state(self, pool: int, requirements: Requirements, rows: Bools, columns: Bools) -> int:
        """Return the id of a claim state, computing its prices if it is new."""
        table = self.tables[pool]
        cost = np.full(self._width, UNAVAILABLE)
        if rows.any() and columns.any():
            best = table.price[:, columns].min(axis=1)
            cost[: len(rows)] = np.where(rows, best + table.node_cost, UNAVAILABLE)
        reserved = [
            (row, offering.price + float(table.surplus[row] + table.premium[row]))
            for row, offering in table.reserved
            if rows[row] and not requirements.find_disjoint_key(offering.requirements())
        ]
        # Reserved offerings have prices only in states that are bound to a reservation.
        # Elsewhere they must not attract claims: their slots are limited.
        if requirements.get(label_keys.CAPACITY_TYPE) == _RESERVED_ONLY:
            for row, price in reserved:
                cost[row] = min(cost[row], price + table.node_cost)
        # ``In []`` with "must exist": no label value can satisfy it.
        contradictory = any(
            requirement.must_exist and not requirement.complement and not requirement.values
            for requirement in requirements.values()
        )
        if contradictory or (not np.isfinite(cost).any() and not reserved):
            number = INFEASIBLE
        else:
            number = len(self.states)
            self.states.append(ClaimState(pool, requirements, rows, columns))
            if number >= len(self.cost):
                self.cost = np.concatenate([self.cost, np.full_like(self.cost, UNAVAILABLE)])
                self.pool_of = np.concatenate([self.pool_of, np.full_like(self.pool_of, -1)])
            self.cost[number] = cost
            self.pool_of[number] = pool
        self._state_ids[(pool, requirements)] = number
        return number

    def available_rows(self, state: int) -> Bools:
        """Return [types]: True where a claim state has a price. Not to be changed."""
        rows = self._available_rows.get(state)
        if rows is None:
            table = self.tables[self.states[state].pool]
            rows = self._available_rows[state] = np.isfinite(self.cost[state][: len(table.rows)])
        return rows

    def available_row_bits(self, state: int) -> int:
        """Return ``available_rows`` as a bit set: cheap to compare for many classes."""
        bits = self._available_row_bits.get(state)
        if bits is None:
            bits = self._available_row_bits[state] = to_bits(self.available_rows(state))
        return bits

    def rows_by_price(self, state: int) -> Ints:
        """Return the available rows of a claim state, cheapest first; ties by row."""
        order = self._rows_by_price.get(state)
        if order is None:
            cost = self.cost[state]
            order = np.argsort(cost, kind="stable")[: int(np.isfinite(cost).sum())]
            self._rows_by_price[state] = order
        return order


def to_bits(flags: Bools) -> int:
    """Return flags as a bit set."""
    return int.from_bytes(np.packbits(flags).tobytes(), "big")


_RESERVED_ONLY = Requirement.one_of(label_keys.CAPACITY_TYPE, label_keys.RESERVED)
_TOLERATE_ALL = (Toleration(operator="Exists"),)
