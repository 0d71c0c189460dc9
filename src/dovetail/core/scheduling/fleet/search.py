"""Fleet search: the cheapest fleet that holds all pods of a demand."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from dovetail.core.scheduling.arrays.types import Floats, Ints
from dovetail.core.scheduling.fleet.beam_search import beam_search
from dovetail.core.scheduling.fleet.column_generation import ColumnGeneration
from dovetail.core.scheduling.fleet.exact import is_small, pack_identical, pack_small
from dovetail.core.scheduling.fleet.lp_relaxation import FluidProgram, FluidRelaxation
from dovetail.core.scheduling.fleet.problem import Bundle, Demand, FleetProblem, compile_demand, total_value
from dovetail.core.scheduling.fleet.rounding import Fleet, add_remaining_nodes, add_whole_nodes, pack_by_class
from dovetail.core.scheduling.plan_cost import get_node_penalty, is_better

# Fleets of up to so many nodes (in the relaxation) are tried by beam search.
_FEW_NODES = 4
# Classes in one search; more are split.
_MAX_CLASSES = 128
# Rounds of column generation per part, at least. Of many classes each round finds many
# patterns: as many are enough.
_MIN_EFFORT, _MANY_CLASSES = 4, 64
# Ratio of cost to the fluid bound at which the search stops: after beam search, after
# column generation.
_GOOD_AFTER_BEAM, _GOOD_AFTER_COLUMNS = 1.03, 1.1
# The same after beam search of many classes for about one node (in the relaxation):
# column generation hardly improves it.
_ONE_NODE, _GOOD_FOR_ONE_NODE = 1.25, 1.05
# Ratio of cost to the best before that is worth more rounds.
_IMPROVED = 0.999
# Up to so many classes rounds are doubled, up to so many rounds.
_FEW_CLASSES, _MAX_ROUNDS = 24, 32
# Fleets of at least so many nodes (in the relaxation) are searched with a penalty per node.
_MANY_NODES = 8
# Nodes of a fleet that are searched again together: at most so many, of so little value.
_MAX_REPACKED, _POOR_YIELD = 4, 0.95


def cheapest_fleet(demand: Demand) -> list[Bundle]:
    """Return nodes that hold every pod once, as cheap as the search finds.

    Fewer nodes are preferred within ``demand.fewer_nodes_tolerance``.
    Raises ``ValueError`` when a class fits on no type.
    """
    if not (demand.counts > 0).any():
        return []
    problem, classes = compile_demand(demand)
    class_count, bundles = len(demand.counts), []
    for part in _split_classes(problem):
        counts = problem.counts[part]
        effort = max(_MIN_EFFORT, demand.effort * len(part) // len(classes))
        if len(part) > _MANY_CLASSES:
            effort = _MIN_EFFORT
        effort, tolerance = min(effort, demand.effort), demand.fewer_nodes_tolerance
        fleet = _pack_part(problem.restrict_to(part, counts), effort, tolerance)
        bundles.extend(_bundles(fleet, classes[part], class_count))
    return bundles


def _split_classes(problem: FleetProblem) -> list[Ints]:
    """Split very many classes into similar parts, to keep the work linear.

    Classes are sorted by size and proportion of resources and distributed in turn,
    so each part can balance its nodes as well as the whole.
    """
    class_count = len(problem.counts)
    parts = -(-class_count // _MAX_CLASSES)
    if parts == 1:
        return [np.arange(class_count)]
    share = problem.sizes / problem.sizes.max(axis=0)
    band = np.floor(np.log2(share.max(axis=1)))
    order = np.lexsort((np.arange(class_count), share[:, 0] / share.sum(axis=1), band))
    return [np.sort(order[first::parts]) for first in range(parts)]


def _pack_part(problem: FleetProblem, effort: int, tolerance: float) -> Fleet:
    """Return the fleet that the tolerance for fewer nodes prefers."""
    if is_small(problem.counts):
        return _prefer_fewer_nodes(
            problem, lambda penalized: pack_small(penalized, penalized.counts), tolerance
        )
    if len(problem.counts) == 1:
        return _prefer_fewer_nodes(problem, pack_identical, tolerance)
    program = FluidProgram(problem)
    relaxation = program.solve(problem.price)
    nodes = float(relaxation.nodes.sum())
    if not tolerance or nodes < _MANY_NODES:
        return _prefer_one_node(_pack_classes(problem, relaxation, effort), tolerance)
    # The relaxation has the mean cost of a node: one search, with the penalty, is enough.
    penalized = _penalize(problem, get_node_penalty(relaxation.bound, nodes, tolerance))
    fleet = _pack_classes(penalized, program.solve(penalized.price), effort).reprice(problem)
    if fleet.cost <= relaxation.bound * (1 + tolerance) or 2 * fleet.node_count >= nodes:
        return fleet
    return _select(_pack_classes(problem, relaxation, effort), fleet, tolerance)


def _prefer_fewer_nodes(
    problem: FleetProblem, pack: Callable[[FleetProblem], Fleet], tolerance: float
) -> Fleet:
    """Return the result of an exact search, or of the same search with a penalty per node."""
    best = pack(problem)
    if not tolerance or best.node_count < 2:
        return best
    penalty = get_node_penalty(best.cost, best.node_count, tolerance)
    return _select(best, pack(_penalize(problem, penalty)).reprice(problem), tolerance)


def _prefer_one_node(best: Fleet, tolerance: float) -> Fleet:
    """Return a single node for all pods if the tolerance prefers it."""
    if not tolerance or best.node_count < 2:
        return best
    problem = best.problem
    type_index, price = problem.cheapest_single_node(problem.counts[None])
    if not np.isfinite(price[0]):
        return best
    single = Fleet(problem, problem.counts)
    single.add_nodes(int(type_index[0]), problem.counts, 1)
    return _select(best, single, tolerance)


def _select(fleet: Fleet, other: Fleet, tolerance: float) -> Fleet:
    is_other_better = is_better(other.cost, other.node_count, fleet.cost, fleet.node_count, tolerance)
    return other if is_other_better else fleet


def _penalize(problem: FleetProblem, penalty: float) -> FleetProblem:
    return replace(problem, price=problem.price + penalty)


def _pack_classes(problem: FleetProblem, relaxation: FluidRelaxation, effort: int) -> Fleet:
    """Return the best of: one class per node, beam search, column generation."""
    best = pack_by_class(problem)
    has_few_classes = len(problem.counts) <= _FEW_CLASSES
    if relaxation.nodes.sum() <= _FEW_NODES:
        best = _cheaper(best, _pack_by_beam_search(problem, relaxation))
        is_one_node = not has_few_classes and relaxation.nodes.sum() <= _ONE_NODE
        good = _GOOD_FOR_ONE_NODE if is_one_node else _GOOD_AFTER_BEAM
        if best.cost <= good * relaxation.bound:
            return best
    rounds, columns = effort, ColumnGeneration(problem, relaxation)
    while True:
        fleet = Fleet(problem, problem.counts)
        mix = columns.run(rounds)
        add_whole_nodes(fleet, mix)
        add_remaining_nodes(fleet, mix)
        is_improved = fleet.cost < best.cost * _IMPROVED
        best = _cheaper(best, fleet)
        # More rounds are affordable for few classes, and needed where rules divide the types.
        may_improve = is_improved and has_few_classes and rounds < _MAX_ROUNDS
        if not may_improve or best.cost <= _GOOD_AFTER_COLUMNS * relaxation.bound:
            return repack_poor_nodes(best, mix.values) if has_few_classes else best
        rounds *= 2


def repack_poor_nodes(fleet: Fleet, values: Floats) -> Fleet:
    """Return the fleet with its poorest nodes searched again, if that is cheaper.

    Rounding adds nodes one after the other; the last ones may be better together.
    """
    problem = fleet.problem
    rows, price = np.array(fleet.counts), problem.price[fleet.types]
    yields = total_value(rows, values) / price
    removed, nodes = [], 0
    for row in np.argsort(yields, kind="stable").tolist():
        copies = min(fleet.copies[row], _MAX_REPACKED - nodes)
        if copies < 1 or yields[row] > _POOR_YIELD:
            break
        removed.append((row, copies))
        nodes += copies
    if nodes < 2:
        return fleet
    pods = np.sum([rows[row] * copies for row, copies in removed], axis=0)
    new_nodes = beam_search(problem, pods, values)
    before = sum(float(price[row]) * copies for row, copies in removed)
    if sum(float(problem.price[type_index]) for type_index, _ in new_nodes) >= before * _IMPROVED:
        return fleet
    fewer = dict(removed)
    repacked = Fleet(problem, problem.counts)
    for row, copies in enumerate(fleet.copies):
        if copies > fewer.get(row, 0):
            repacked.add_nodes(fleet.types[row], rows[row], copies - fewer.get(row, 0))
    for type_index, counts in new_nodes:
        repacked.add_nodes(type_index, counts, 1)
    return repacked


def _cheaper(best: Fleet, other: Fleet) -> Fleet:
    """Return the cheaper fleet; ``other`` if they cost the same."""
    return other if other.cost <= best.cost else best


def _pack_by_beam_search(problem: FleetProblem, relaxation: FluidRelaxation) -> Fleet:
    fleet = Fleet(problem, problem.counts)
    for type_index, counts in beam_search(problem, problem.counts, relaxation.values):
        fleet.add_nodes(type_index, counts, 1)
    return fleet


def _bundles(fleet: Fleet, classes: Ints, class_count: int) -> list[Bundle]:
    """Return equal nodes as bundles; each gets the cheapest type that holds its pods."""
    rows = np.array(fleet.counts)
    types = fleet.problem.cheapest_types(rows)
    merged: dict[tuple[int, bytes], int] = {}
    for row, type_index, copies in zip(rows, types.tolist(), fleet.copies, strict=True):
        key = (type_index, row.tobytes())
        merged[key] = merged.get(key, 0) + copies
    bundles = []
    for (type_index, packed), copies in merged.items():
        counts = np.zeros(class_count, dtype=np.int64)
        counts[classes] = np.frombuffer(packed)
        bundles.append(Bundle(int(fleet.problem.types[type_index]), counts, copies))
    return bundles
