"""Nodes that are worth replacing together, though none is alone.

What pods are worth at the prices of the shop tells how much of a node's price is
waste. Sets are made of the most wasteful nodes; what the solver would buy for
all of their pods together decides.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

import numpy as np

from dovetail.core.disruption.candidates import Candidate
from dovetail.core.disruption.ground import Ground
from dovetail.core.disruption.moves import Move
from dovetail.core.disruption.whatif import WhatIf
from dovetail.core.scheduling.arrays import Floats
from dovetail.core.scheduling.fleet.linear import INFINITE, Programme
from dovetail.core.scheduling.states import DEAD

_SIZES: Final = (2, 3, 4, 6, 8, 12, 16, 24, 32)


class SetSearch:
    """Looks for the set that saves most for its disruption."""

    def __init__(self, ground: Ground, whatif: WhatIf) -> None:
        self._ground = ground
        self._whatif = whatif
        self._values = _values(whatif)
        self._least = ground.least_per_cost

    def waste(self, one: Candidate) -> float:
        """Return how much of a node's price its pods are not worth, at most."""
        load = self._ground.quick.load([self._whatif.hosts[one.node.name]])
        return one.price - float(self._values @ load)

    def best(self, nodes: Iterable[Candidate], room: Mapping[str, int]) -> Move | None:
        """Make the best set part of the ground, if there is any worth it."""
        waste = {one.node.name: self.waste(one) for one in nodes if one.price > 0}
        wasteful = [one for one in nodes if waste.get(one.node.name, 0.0) > 0]
        best: tuple[float, Sequence[Candidate]] | None = None
        for some in _sets(wasteful, waste, self._whatif.costs, room):
            cost = sum(self._whatif.costs[one.node.name] for one in some)
            hope = sum(waste[one.node.name] for one in some) / cost
            if hope < self._least or (best is not None and hope <= best[0]):
                continue
            verdict = self._ground.price_set(some, fewest=False)
            if not verdict.code and (best is None or verdict.saving / cost > best[0]):
                best = (verdict.saving / cost, some)
        if best is None:
            return None
        found = self._ground.take_set(best[1], fewest=False)
        return found if isinstance(found, Move) else None


def _sets(
    nodes: Sequence[Candidate],
    waste: Mapping[str, float],
    costs: Mapping[str, float],
    room: Mapping[str, int],
) -> Iterator[Sequence[Candidate]]:
    """Yield the most wasteful nodes, by what moving them costs and as such."""
    by_ratio = sorted(
        nodes, key=lambda one: (-waste[one.node.name] / costs[one.node.name], one.node.name)
    )
    by_waste = sorted(nodes, key=lambda one: (-waste[one.node.name], one.node.name))
    seen: set[frozenset[str]] = set()
    for order in (by_ratio, by_waste):
        allowed = _within(order, room)
        for size in _SIZES:
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


def _values(whatif: WhatIf) -> Floats:
    """Return what each resource is worth: no fleet holds more value than it costs."""
    problem = whatif.problem
    space = problem.space
    alloc, price = [], []
    for root in space.roots:
        if root == DEAD:
            continue
        table = space.pools[space.states[root].pool]
        cost = space.cost[root][: len(table.rows)]
        fine = np.isfinite(cost) & (table.alloc > 0).all(axis=1)
        alloc.append(table.alloc[fine])
        price.append(cost[fine])
    total = np.zeros(len(problem.axis))
    for load in whatif.loads.values():
        for number, pods in load.items():
            want = whatif.trial.placer.want(whatif.trial.classes[number], 0)
            total += want.size * len(pods)
    asked = total > 0
    values = np.zeros(len(total))
    if not alloc or not sum(map(len, alloc)) or not asked.any():
        return values
    room = np.vstack(alloc)[:, asked] / total[asked]
    rows, types = int(asked.sum()), len(room)
    programme = Programme(np.ones(rows), np.full(rows, INFINITE))
    programme.add_columns(
        np.concatenate(price),
        np.arange(types) * rows,
        np.tile(np.arange(rows), types),
        room.ravel(),
    )
    values[asked] = np.maximum(programme.solve().duals, 0.0) / total[asked]
    return values
