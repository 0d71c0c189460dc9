"""Multi-node consolidation: sets of nodes that are worth replacing only together.

Sets consist of the most wasteful nodes (``pod_values``); a scheduling simulation of
each set decides.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from dovetail.core.disruption.candidates import Candidate
from dovetail.core.disruption.command import Command
from dovetail.core.disruption.consolidation.evaluator import ConsolidationEvaluator
from dovetail.core.disruption.consolidation.pod_values import PodValues
from dovetail.core.disruption.simulation import SchedulingSimulation

_SET_SIZES: Final = (2, 3, 4, 8, 16)
_MAX_FEWEST_NODES: Final = 4
"""Sets of up to this size need no fleet search: one or two larger nodes are enough."""
_PACKING_LOSS: Final = 0.04
"""Share of the price by which a small fleet typically exceeds the value of its pods."""


class MultiNodeSearch:
    """Searches the set of nodes with the highest saving per disruption cost."""

    def __init__(
        self, evaluator: ConsolidationEvaluator, simulation: SchedulingSimulation, pod_values: PodValues
    ) -> None:
        self._evaluator = evaluator
        self._simulation = simulation
        self._pod_values = pod_values
        self._min_saving_per_cost = evaluator.min_saving_per_cost
        self._sizes: tuple[int, ...] = _SET_SIZES
        self._simulated_sets = 0

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
        waste = {
            candidate.name: self._pod_values.get_waste(candidate)
            for candidate in candidates
            if candidate.price > 0
        }
        wasteful = [candidate for candidate in candidates if waste.get(candidate.name, 0.0) > 0]
        best: tuple[float, Sequence[Candidate]] | None = None
        for node_set in self._generate_sets(wasteful, waste, allowed):
            names = [candidate.name for candidate in node_set]
            cost = sum(self._simulation.disruption_costs[name] for name in names)
            loss = _PACKING_LOSS * sum(candidate.price for candidate in node_set)
            saving = sum(waste[name] for name in names) - loss
            bound = saving / cost
            if saving < self._evaluator.get_eviction_price(node_set):
                continue
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
            allowed = limit_to_budgets(order, allowed_disruptions)
            for size in self._sizes:
                if size > len(allowed):
                    break
                node_set = allowed[:size]
                names = frozenset(candidate.name for candidate in node_set)
                if names not in generated:
                    generated.add(names)
                    yield node_set


def limit_to_budgets(candidates: Iterable[Candidate], allowed: Mapping[str, int]) -> list[Candidate]:
    """Return the first candidates that the budgets of their NodePools allow together."""
    remaining = dict(allowed)
    selected = []
    for candidate in candidates:
        if remaining.get(candidate.pool.name, 0) > 0:
            remaining[candidate.pool.name] -= 1
            selected.append(candidate)
    return selected
