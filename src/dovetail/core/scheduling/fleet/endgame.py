"""The last few nodes, chosen together."""

from dataclasses import dataclass

import numpy as np

from dovetail.core.scheduling.fleet.demand import Floats, Ints
from dovetail.core.scheduling.fleet.patterns import balances, fill, most_value
from dovetail.core.scheduling.fleet.problem import Problem

_WIDTH = 4
_TYPES = 32
Nodes = tuple[tuple[int, Floats], ...]


@dataclass(frozen=True, slots=True)
class _Partial:
    """Some nodes bought, some pods left."""

    cost: float
    left: Floats
    nodes: Nodes


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
    start = _Partial(0.0, problem.counts, ())
    best, price = _finished(problem, [start])
    beam = [start]
    while beam:
        children = _children(problem, values, beam, types, weights)
        if not children:
            break
        done, cost = _finished(problem, children)
        if cost < price - 1e-9:
            best, price = done, cost
        beam = _most_promising(children, values, price)
    assert best is not None  # noqa: S101 - the beam never loses its last fleet
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


def _children(
    problem: Problem, values: Floats, beam: list[_Partial], types: Ints, weights: Floats
) -> list[_Partial]:
    """Buy one more node of each type for each fleet of the beam."""
    left = np.repeat(np.array([partial.left for partial in beam]), len(types), axis=0)
    kinds = np.tile(types, len(beam))
    limits = np.minimum(problem.most[kinds], left)
    room = problem.alloc[kinds]
    pods = fill(problem, values, room, limits, np.tile(weights, (len(beam), 1)))
    left -= pods
    children = []
    for row in np.flatnonzero(pods.any(axis=1)).tolist():
        parent, kind = beam[row // len(types)], int(kinds[row])
        cost = parent.cost + float(problem.price[kind])
        children.append(_Partial(cost, left[row], (*parent.nodes, (kind, pods[row]))))
    return children


def _finished(problem: Problem, partials: list[_Partial]) -> tuple[Nodes | None, float]:
    """Finish each fleet with at most one more node; returns the cheapest and its price."""
    left = np.array([partial.left for partial in partials])
    used = left @ problem.sizes
    fits = (used[:, None] <= problem.alloc[None]).all(axis=2)
    fits &= (left[:, None] <= problem.most[None]).all(axis=2)
    last = np.where(fits, problem.price, np.inf)
    kinds = last.argmin(axis=1)
    more = np.where(left.any(axis=1), last.min(axis=1), 0.0)
    total = np.array([partial.cost for partial in partials]) + more
    at = int(total.argmin())
    if not np.isfinite(total[at]):
        return None, np.inf
    nodes = partials[at].nodes
    if left[at].any():
        nodes = (*nodes, (int(kinds[at]), left[at]))
    return nodes, float(total[at])


def _most_promising(children: list[_Partial], values: Floats, price: float) -> list[_Partial]:
    left = np.array([child.left for child in children])
    hoped = np.array([child.cost for child in children]) + left @ values
    chosen: list[_Partial] = []
    seen: set[bytes] = set()
    for at in np.argsort(hoped, kind="stable").tolist():
        key = left[at].tobytes()
        if len(chosen) == _WIDTH or hoped[at] >= price - 1e-9:
            break
        if key not in seen and left[at].any():
            seen.add(key)
            chosen.append(children[at])
    return chosen
