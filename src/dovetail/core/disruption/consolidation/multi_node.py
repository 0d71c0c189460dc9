"""Multi-node consolidation: sets of nodes that are worth replacing only together.

The waste of a node is its price minus the value of its pods. The value is the
pods' share of the cheapest fleet, from the dual prices of a linear program. Sets
consist of the most wasteful nodes; a scheduling simulation of each set decides.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

import numpy as np

from dovetail.core.disruption.candidates import Candidate
from dovetail.core.disruption.command import Command
from dovetail.core.disruption.consolidation.evaluator import ConsolidationEvaluator
from dovetail.core.disruption.simulation import SchedulingSimulation
from dovetail.core.scheduling.arrays.claim_states import INFEASIBLE
from dovetail.core.scheduling.arrays.types import Floats
from dovetail.core.scheduling.fleet.lp_solver import INFINITE, LinearProgram

_SET_SIZES: Final = (2, 3, 4, 8, 16)
_MAX_FEWEST_NODES: Final = 4
"""Sets of up to this size need no fleet search: one or two larger nodes are enough."""
_PACKING_LOSS: Final = 0.04
"""Share of the price by which a small fleet typically exceeds the value of its pods."""


class MultiNodeSearch:
    """Searches the set of nodes with the highest saving per disruption cost."""

    def __init__(self, evaluator: ConsolidationEvaluator, simulation: SchedulingSimulation) -> None:
        self._evaluator = evaluator
        self._simulation = simulation
        self._pod_values = _PodValues(simulation)
        self._min_saving_per_cost = evaluator.min_saving_per_cost
        self._sizes: tuple[int, ...] = _SET_SIZES
        self._simulated_sets = 0

    def get_waste(self, candidate: Candidate) -> float:
        """Return an upper bound of what replacing a node can save, in USD per hour."""
        node = self._simulation.node_indexes[candidate.name]
        return candidate.price - self._pod_values.get_node_value(node)

    @property
    def is_exhausted(self) -> bool:
        """True if enough sets were simulated for one pass; the next pass follows at once.

        Check it only after a set was found: otherwise sets would be given up.
        """
        return self._simulated_sets >= 2 * len(_SET_SIZES)

    def apply_best(self, candidates: Sequence[Candidate], allowed: Mapping[str, int]) -> Command | None:
        """Apply the best set; None: no set reaches the threshold.

        Sizes near the last best one are tried first, because the remaining
        candidates are similar.
        """
        command = self._search(candidates, allowed)
        if command is None and self._sizes != _SET_SIZES:
            self._sizes = _SET_SIZES
            command = self._search(candidates, allowed)
        if command is not None:
            best = len(command.candidates)
            self._sizes = tuple(size for size in _SET_SIZES if best / 2 < size < best * 2)
        return command

    def _search(self, candidates: Sequence[Candidate], allowed: Mapping[str, int]) -> Command | None:
        waste = {candidate.name: self.get_waste(candidate) for candidate in candidates if candidate.price > 0}
        wasteful = [candidate for candidate in candidates if waste.get(candidate.name, 0.0) > 0]
        best: tuple[float, Sequence[Candidate]] | None = None
        for node_set in self._generate_sets(wasteful, waste, allowed):
            names = [candidate.name for candidate in node_set]
            cost = sum(self._simulation.disruption_costs[name] for name in names)
            loss = _PACKING_LOSS * sum(candidate.price for candidate in node_set)
            bound = (sum(waste[name] for name in names) - loss) / cost
            if bound < self._min_saving_per_cost or (best is not None and bound <= best[0]):
                continue
            if self._evaluator.is_spot_to_spot_disabled(node_set):
                continue
            self._simulated_sets += 1
            fewest = len(node_set) <= _MAX_FEWEST_NODES
            evaluation = self._evaluator.simulate_set(node_set, fewest_nodes=fewest)
            if not evaluation.code and (best is None or evaluation.saving / cost > best[0]):
                best = (evaluation.saving / cost, node_set)
        if best is None:
            return None
        result = self._evaluator.apply_simulated(best[1], fewest_nodes=len(best[1]) <= _MAX_FEWEST_NODES)
        return result if isinstance(result, Command) else None

    def _generate_sets(
        self,
        candidates: Sequence[Candidate],
        waste: Mapping[str, float],
        allowed_disruptions: Mapping[str, int],
    ) -> Iterator[Sequence[Candidate]]:
        """Yield sets of the most wasteful nodes, by waste per disruption cost and by waste."""
        costs = self._simulation.disruption_costs

        def rank_by_ratio(candidate: Candidate) -> tuple[float, str]:
            name = candidate.name
            return (-waste[name] / costs[name], name)

        by_ratio = sorted(candidates, key=rank_by_ratio)
        by_waste = sorted(candidates, key=lambda candidate: (-waste[candidate.name], candidate.name))
        generated: set[frozenset[str]] = set()
        for order in (by_ratio, by_waste):
            allowed = _limit_to_budgets(order, allowed_disruptions)
            for size in self._sizes:
                if size > len(allowed):
                    break
                node_set = allowed[:size]
                names = frozenset(candidate.name for candidate in node_set)
                if names not in generated:
                    generated.add(names)
                    yield node_set


def _limit_to_budgets(candidates: Iterable[Candidate], allowed: Mapping[str, int]) -> list[Candidate]:
    remaining = dict(allowed)
    selected = []
    for candidate in candidates:
        if remaining.get(candidate.pool.name, 0) > 0:
            remaining[candidate.pool.name] -= 1
            selected.append(candidate)
    return selected


class _PodValues:
    """Value of pods: their share of the cheapest fleet's price if nodes were divisible."""

    def __init__(self, simulation: SchedulingSimulation) -> None:
        self._simulation = simulation
        self._problem = simulation.problem
        totals: dict[tuple[int, ...], Floats] = {}
        states: list[tuple[int, ...]] = []
        for pod_class in simulation.trial.classes:
            compiled = simulation.trial.placer.compile_class(pod_class, 0)
            states.append(self._get_states(compiled.constraint))
        counts = [0] * len(states)
        for pods_by_class in simulation.pods_by_node.values():
            for index, pods in pods_by_class.items():
                counts[index] += len(pods)
        for index, count in enumerate(counts):
            if count:
                total = totals.setdefault(states[index], np.zeros(len(self._problem.resource_names)))
                total += self._get_requests(index) * count
        values = {key: self._price_resources(key, total) for key, total in sorted(totals.items())}
        self._class_values = [
            float(values[key] @ self._get_requests(index)) if key in values else 0.0
            for index, key in enumerate(states)
        ]

    def get_node_value(self, node: int) -> float:
        """Return the value of a node's pods in USD per hour."""
        pods_by_class = self._simulation.pods_by_node.get(node, {})
        return sum(self._class_values[index] * len(pods) for index, pods in pods_by_class.items())

    def _get_requests(self, index: int) -> Floats:
        return self._simulation.trial.placer.compile_class(self._simulation.trial.classes[index], 0).requests

    def _get_states(self, constraint: int) -> tuple[int, ...]:
        """Return the states of new claims that satisfy a node constraint."""
        space = self._problem.space
        states = {space.narrow(root, constraint) for root in space.roots}
        return tuple(sorted(states - {INFEASIBLE}))

    def _price_resources(self, states: tuple[int, ...], total: Floats) -> Floats:
        """Return dual prices of resources: no node holds more value than its price.

        ``total`` are the requests of all pods that fit these states: [resources].
        """
        space = self._problem.space
        allocatable, prices = [], []
        for state in states:
            table = space.tables[space.states[state].pool]
            cost = space.cost[state][: len(table.rows)]
            is_usable = np.isfinite(cost) & (table.alloc >= 0).all(axis=1)
            allocatable.append(table.alloc[is_usable])
            prices.append(cost[is_usable])
        values = np.zeros(len(total))
        is_requested = total > 0
        if not sum(map(len, allocatable)) or not is_requested.any():
            return values
        # Share of the total requests that one node of each type holds: [types, resources].
        shares = np.vstack(allocatable)[:, is_requested] / total[is_requested]
        if not (shares > 0).any(axis=0).all():
            return values
        rows = int(is_requested.sum())
        program = LinearProgram(np.ones(rows), np.full(rows, INFINITE))
        program.add_dense_columns(np.concatenate(prices), shares)
        values[is_requested] = np.maximum(program.solve().duals, 0.0) / total[is_requested]
        return values
