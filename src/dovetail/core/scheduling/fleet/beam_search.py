"""The last few nodes, chosen together."""

from dataclasses import dataclass

import numpy as np

from dovetail.core.scheduling.fleet.demand import Floats, Ints
from dovetail.core.scheduling.fleet.patterns import balances, fill, most_value
from dovetail.core.scheduling.fleet.problem import Problem, total_value

_WIDTH = 3
_TYPES = 24
_SAME = 1e-9
Nodes = tuple[tuple[int, Floats], ...]


@dataclass(frozen=True, slots=True)
class _Partial:
    """Some nodes bought, some pods left."""

    cost: float
    left: Floats
    nodes: Nodes


@dataclass(frozen=True, slots=True)
class _Children:
    """Fleets of a beam with one more node each; row by row."""

    parents: list[_Partial]
    parent: Ints
    types: Ints
    pods: Floats
    left: Floats
    cost: Floats

    def pick(self, row: int) -> _Partial:
        node = (int(self.types[row]), self.pods[row])
        nodes = (*self.parents[int(self.parent[row])].nodes, node)
        return _Partial(float(self.cost[row]), self.left[row], nodes)


def last_nodes(problem: Problem, left: Floats, values: Floats) -> Nodes:
    """Return cheap nodes that hold all pods left: a beam search, node by node.

    Unfinished fleets are compared by their cost plus the value of what they
    leave; each is also finished at once with one node, where one holds it all.
    """
    classes = np.flatnonzero(left)
    if not len(classes):
        return ()
    part = problem.of_classes(classes, left[classes])
    nodes = _search(part, values[classes])
    return tuple((kind, _spread(counts, classes, len(left))) for kind, counts in nodes)


def _spread(counts: Floats, classes: Ints, kinds: int) -> Floats:
    whole = np.zeros(kinds)
    whole[classes] = counts
    return whole


def _search(problem: Problem, values: Floats) -> Nodes:
    types, weights = _candidates(problem, values)
    beam = [_Partial(0.0, problem.counts, ())]
    last, price = _one_more(problem, problem.counts[None], np.zeros(1))
    best: Nodes = ((int(last[0]), problem.counts),)
    cheapest = float(price[0])
    while beam:
        children = _expand(problem, values, beam, types, weights)
        last, price = _one_more(problem, children.left, children.cost)
        row = int(price.argmin()) if len(price) else 0
        if len(price) and price[row] < cheapest - _SAME:
            done, cheapest = children.pick(row), float(price[row])
            more = ((int(last[row]), done.left),) if done.left.any() else ()
            best = (*done.nodes, *more)
        beam = _most_promising(children, values, cheapest)
    return best


def _candidates(problem: Problem, values: Floats) -> tuple[Ints, Floats]:
    """Return types that may be worth their price, and two ways to fill each."""
    ways = balances(problem.sizes.shape[1])
    bound = most_value(values, problem.share, problem.most, ways)
    gain = bound.min(axis=1) / problem.price
    chosen = np.argsort(-gain, kind="stable")[:_TYPES]
    # A class that fits on few types must not lose them all.
    holder = np.where(problem.most >= 1, problem.price[:, None], np.inf).argmin(axis=0)
    chosen = np.union1d(chosen, holder)
    tried = min(2, len(ways))
    way = np.argsort(bound[chosen], axis=1, kind="stable")[:, :tried].ravel()
    return np.repeat(chosen, tried), ways[way]


def _expand(
    problem: Problem, values: Floats, beam: list[_Partial], types: Ints, weights: Floats
) -> _Children:
    """Buy one more node of each type for each fleet of the beam."""
    parent = np.repeat(np.arange(len(beam)), len(types))
    kinds = np.tile(types, len(beam))
    left = np.array([partial.left for partial in beam])[parent]
    limits = np.minimum(problem.most[kinds], left)
    room = problem.alloc[kinds]
    pods = fill(problem, values, room, limits, np.tile(weights, (len(beam), 1)))
    cost = np.array([partial.cost for partial in beam])[parent] + problem.price[kinds]
    used = np.flatnonzero(pods.any(axis=1))
    left = left[used] - pods[used]
    return _Children(beam, parent[used], kinds[used], pods[used], left, cost[used])


def _one_more(problem: Problem, left: Floats, cost: Floats) -> tuple[Ints, Floats]:
    """Finish each fleet with at most one more node; returns its type and the whole price."""
    last, price = problem.one_node(left)
    return last, cost + np.where(left.any(axis=1), price, 0.0)


def _most_promising(children: _Children, values: Floats, cheapest: float) -> list[_Partial]:
    hoped = children.cost + total_value(children.left, values)
    chosen: list[_Partial] = []
    seen: set[bytes] = set()
    for row in np.argsort(hoped, kind="stable").tolist():
        if len(chosen) == _WIDTH or hoped[row] >= cheapest - _SAME:
            break
        key = children.left[row].tobytes()
        if key not in seen and children.left[row].any():
            seen.add(key)
            chosen.append(children.pick(row))
    return chosen
