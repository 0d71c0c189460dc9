"""The cheapest fleet that holds all pods of a demand."""

import numpy as np

from dovetail.core.scheduling.fleet.beam_search import last_nodes
from dovetail.core.scheduling.fleet.column_generation import generate
from dovetail.core.scheduling.fleet.demand import Bundle, Demand, Ints
from dovetail.core.scheduling.fleet.exact import is_small, pack_identical, pack_small
from dovetail.core.scheduling.fleet.lp_relaxation import Worth, fluid_worth
from dovetail.core.scheduling.fleet.problem import Problem, compile_demand
from dovetail.core.scheduling.fleet.rounding import Fleet, buy_apart, finish, take

_FEW_NODES = 4
_MOST_CLASSES = 128
_LEAST_EFFORT = 4
# Cost over the fluid bound at which the search stops: after the quick way, after columns.
_GOOD, _FAIR = 1.03, 1.1
_FEW_CLASSES, _MOST_ROUNDS = 24, 32


def cheapest_fleet(demand: Demand) -> list[Bundle]:
    """Return nodes that hold every pod once, for as little money as can be found.

    Raises ``ValueError`` when a class fits on no type.
    """
    if not (demand.counts > 0).any():
        return []
    problem, classes = compile_demand(demand)
    kinds, bundles = len(demand.counts), []
    for part in _in_parts(problem):
        counts = problem.counts[part]
        effort = max(_LEAST_EFFORT, demand.effort * len(part) // len(classes))
        fleet = _pack(problem.of_classes(part, counts), min(effort, demand.effort))
        bundles.extend(_bundles(fleet, classes[part], kinds))
    return bundles


def _in_parts(problem: Problem) -> list[Ints]:
    """Divide very many classes into parts that are alike, to keep the work linear.

    Classes are dealt out in the order of their proportions and sizes, so each
    part can balance its nodes as well as the whole could.
    """
    kinds = len(problem.counts)
    parts = -(-kinds // _MOST_CLASSES)
    if parts == 1:
        return [np.arange(kinds)]
    share = problem.sizes / problem.sizes.max(axis=0)
    band = np.floor(np.log2(share.max(axis=1)))
    order = np.lexsort((np.arange(kinds), share[:, 0] / share.sum(axis=1), band))
    return [np.sort(order[first::parts]) for first in range(parts)]


def _pack(problem: Problem, effort: int) -> Fleet:
    if is_small(problem.counts):
        return pack_small(problem, problem.counts)
    if len(problem.counts) == 1:
        return pack_identical(problem)
    worth = fluid_worth(problem)
    best = buy_apart(problem)
    if worth.nodes.sum() <= _FEW_NODES:
        best = _cheaper(best, _by_beam(problem, worth))
        if best.cost <= _GOOD * worth.bound:
            return best
    rounds = effort
    while True:
        best = _cheaper(best, _by_columns(problem, worth, rounds))
        small = len(problem.counts) <= _FEW_CLASSES and rounds < _MOST_ROUNDS
        if not small or best.cost <= _FAIR * worth.bound:
            return best
        rounds *= 2  # Few classes can afford it, and where rules divide types they need it.


def _cheaper(one: Fleet, other: Fleet) -> Fleet:
    return other if other.cost <= one.cost else one


def _by_beam(problem: Problem, worth: Worth) -> Fleet:
    fleet = Fleet(problem, problem.counts)
    for kind, counts in last_nodes(problem, problem.counts, worth.values):
        fleet.buy(kind, counts, 1)
    return fleet


def _by_columns(problem: Problem, worth: Worth, rounds: int) -> Fleet:
    fleet = Fleet(problem, problem.counts)
    mix = generate(problem, worth, rounds)
    take(fleet, mix)
    finish(fleet, mix)
    return fleet


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
