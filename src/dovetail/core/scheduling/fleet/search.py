"""The cheapest fleet that holds all pods of a demand."""

import numpy as np

from dovetail.core.scheduling.fleet.building import Fleet, finish, take
from dovetail.core.scheduling.fleet.columns import generate
from dovetail.core.scheduling.fleet.demand import Bundle, Demand, Ints
from dovetail.core.scheduling.fleet.fluid import fluid_worth
from dovetail.core.scheduling.fleet.problem import compile_demand


def cheapest_fleet(demand: Demand) -> list[Bundle]:
    """Return nodes that hold every pod once, for as little money as can be found.

    Raises ``ValueError`` when a class fits on no type.
    """
    if not (demand.counts > 0).any():
        return []
    problem, classes = compile_demand(demand)
    worth = fluid_worth(problem)
    mix = generate(problem, worth, demand.effort)
    fleet = Fleet(problem, problem.counts)
    take(fleet, mix, mix.weights)
    finish(fleet, mix.values, mix.hopeful)
    return _bundles(fleet, classes, len(demand.counts))


def _bundles(fleet: Fleet, classes: Ints, kinds: int) -> list[Bundle]:
    """Merge equal nodes; each gets the cheapest type that holds its pods."""
    rows = np.array(fleet.counts)
    types = fleet.problem.cheapest_holding(rows @ fleet.problem.sizes)
    merged: dict[tuple[int, bytes], int] = {}
    for row, kind, copies in zip(rows, types.tolist(), fleet.copies, strict=True):
        key = (kind, row.tobytes())
        merged[key] = merged.get(key, 0) + copies
    bundles = []
    for (kind, packed), copies in merged.items():
        counts = np.zeros(kinds, dtype=np.int64)
        counts[classes] = np.frombuffer(packed)
        bundles.append(Bundle(int(fleet.problem.types[kind]), counts, copies))
    return bundles
