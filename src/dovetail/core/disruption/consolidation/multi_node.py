"""Nodes that are worth replacing together, though none is alone.

What pods are worth at the prices of the shop tells how much of a node's price is
waste. Sets are made of the most wasteful nodes; what the solver would buy for
all of their pods together decides.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

import numpy as np

from dovetail.core.disruption.candidates import Candidate
from dovetail.core.disruption.command import Move
from dovetail.core.disruption.consolidation.evaluator import Ground
from dovetail.core.disruption.simulation import WhatIf
from dovetail.core.scheduling.arrays.claim_states import DEAD
from dovetail.core.scheduling.arrays.types import Floats
from dovetail.core.scheduling.fleet.lp_solver import INFINITE, Programme

_SIZES: Final = (2, 3, 4, 8, 16)

_FEW: Final = 4
"""Up to so many nodes need no search for a fleet: one or two larger ones will do."""
_NO_BETTER: Final = 0.04
"""Fleets that are bought for a few nodes hardly come nearer to what their pods are worth."""


class SetSearch:
    """Looks for the set that saves most for its disruption."""

    def __init__(self, ground: Ground, whatif: WhatIf) -> None:
        self._ground = ground
        self._whatif = whatif
        self._worth = _Worth(whatif)
        self._least = ground.least_per_cost
        self._sizes: tuple[int, ...] = _SIZES
        self._asked = 0

    def waste(self, one: Candidate) -> float:
        """Return how much of a node's price its pods are not worth, at most."""
        return one.price - self._worth.of_host(self._whatif.hosts[one.node.name])

    @property
    def tired(self) -> bool:
        """Whether it has looked at enough sets for one pass; the next follows at once.

        Only to be asked when one was found: nothing is given up that way.
        """
        return self._asked >= 2 * len(_SIZES)

    def best(self, nodes: Sequence[Candidate], room: Mapping[str, int]) -> Move | None:
        """Make the best set part of the ground, if there is any worth it.

        Sets of the size that was best last time, or nearly, are tried first: what
        is left looks much the same.
        """
        found = self._best(nodes, room)
        if found is None and self._sizes != _SIZES:
            self._sizes = _SIZES
            found = self._best(nodes, room)
        if found is not None:
            size = len(found.removed)
            self._sizes = tuple(one for one in _SIZES if size / 2 < one < size * 2)
        return found

    def _best(self, nodes: Sequence[Candidate], room: Mapping[str, int]) -> Move | None:
        waste = {one.node.name: self.waste(one) for one in nodes if one.price > 0}
        wasteful = [one for one in nodes if waste.get(one.node.name, 0.0) > 0]
        best: tuple[float, Sequence[Candidate]] | None = None
        for some in self._sets(wasteful, waste, room):
            cost = sum(self._whatif.costs[one.node.name] for one in some)
            lost = _NO_BETTER * sum(one.price for one in some)
            hope = (sum(waste[one.node.name] for one in some) - lost) / cost
            if hope < self._least or (best is not None and hope <= best[0]):
                continue
            if self._ground.keeps_spot(some):
                continue
            self._asked += 1
            verdict = self._ground.price_set(some, fewest=len(some) <= _FEW)
            if not verdict.code and (best is None or verdict.saving / cost > best[0]):
                best = (verdict.saving / cost, some)
        if best is None:
            return None
        found = self._ground.take_set(best[1], fewest=len(best[1]) <= _FEW)
        return found if isinstance(found, Move) else None

    def _sets(
        self, nodes: Sequence[Candidate], waste: Mapping[str, float], room: Mapping[str, int]
    ) -> Iterator[Sequence[Candidate]]:
        """Yield the most wasteful nodes, by what moving them costs and as such."""
        costs = self._whatif.costs
        by_ratio = sorted(
            nodes, key=lambda one: (-waste[one.node.name] / costs[one.node.name], one.node.name)
        )
        by_waste = sorted(nodes, key=lambda one: (-waste[one.node.name], one.node.name))
        seen: set[frozenset[str]] = set()
        for order in (by_ratio, by_waste):
            allowed = _within(order, room)
            for size in self._sizes:
                if size > len(allowed):
                    break
                some = allowed[:size]
                names = frozenset(one.node.name for one in some)
                if names not in seen:
                    seen.add(names)
                    yield some


def _within(nodes: Iterable[Candidate], room: Mapping[str, int]) -> list[Candidate]:
    left = dict(room)
    allowed = []
    for one in nodes:
        if left.get(one.pool.name, 0) > 0:
            left[one.pool.name] -= 1
            allowed.append(one)
    return allowed


class _Worth:
    """What pods are worth: what their part of the cheapest fleet would cost, were it divisible."""

    def __init__(self, whatif: WhatIf) -> None:
        self._whatif = whatif
        self._problem = whatif.problem
        totals: dict[tuple[int, ...], Floats] = {}
        states: list[tuple[int, ...]] = []
        for one in whatif.trial.classes:
            want = whatif.trial.placer.want(one, 0)
            states.append(self._states(want.ask))
        counts = [0] * len(states)
        for load in whatif.loads.values():
            for number, pods in load.items():
                counts[number] += len(pods)
        for number, count in enumerate(counts):
            if count:
                known = totals.setdefault(states[number], np.zeros(len(self._problem.axis)))
                known += self._size(number) * count
        values = {key: self._values(key, total) for key, total in sorted(totals.items())}
        self._of_class = [
            float(values[key] @ self._size(number)) if key in values else 0.0
            for number, key in enumerate(states)
        ]

    def of_host(self, host: int) -> float:
        load = self._whatif.loads.get(host, {})
        return sum(self._of_class[number] * len(pods) for number, pods in load.items())

    def _size(self, number: int) -> Floats:
        return self._whatif.trial.placer.want(self._whatif.trial.classes[number], 0).size

    def _states(self, ask: int) -> tuple[int, ...]:
        """Return the claims that pods with this ask would open."""
        space = self._problem.space
        found = {space.move(root, ask) for root in space.roots}
        return tuple(sorted(found - {DEAD}))

    def _values(self, states: tuple[int, ...], total: Floats) -> Floats:
        """Return what each resource is worth: no node holds more value than it costs."""
        space = self._problem.space
        alloc, price = [], []
        for state in states:
            table = space.pools[space.states[state].pool]
            cost = space.cost[state][: len(table.rows)]
            fine = np.isfinite(cost) & (table.alloc >= 0).all(axis=1)
            alloc.append(table.alloc[fine])
            price.append(cost[fine])
        values = np.zeros(len(total))
        asked = total > 0
        if not sum(map(len, alloc)) or not asked.any():
            return values
        room = np.vstack(alloc)[:, asked] / total[asked]
        if not (room > 0).any(axis=0).all():
            return values
        rows = int(asked.sum())
        programme = Programme(np.ones(rows), np.full(rows, INFINITE))
        programme.add_dense_columns(np.concatenate(price), room)
        values[asked] = np.maximum(programme.solve().duals, 0.0) / total[asked]
        return values
