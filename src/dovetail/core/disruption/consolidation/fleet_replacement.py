"""Fleet replacement: a cheaper fleet replaces wasteful nodes, step by step.

The target is the fleet that a plan from scratch would launch for all pods. It is
reached in steps. A step replaces as many of the most wasteful nodes as budgets allow,
by the fleet that the solver finds for their pods. Each step must be worth its
evictions. Nodes that later steps will replace receive no pods: otherwise pods would move
twice.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from dovetail.core.disruption.candidates import Candidate
from dovetail.core.disruption.command import Command
from dovetail.core.disruption.consolidation.evaluator import ConsolidationEvaluator
from dovetail.core.disruption.consolidation.multi_node import limit_to_budgets
from dovetail.core.disruption.consolidation.pod_values import PodValues
from dovetail.core.disruption.simulation import SchedulingSimulation
from dovetail.model import labels as label_keys

MIN_NODE_AGE: Final = timedelta(days=1)
"""Younger nodes are not replaced: a step is not worth it if the load changes every hour."""
_MAX_NODES: Final = 32
"""Nodes that one step replaces: a launch that fails rolls back the whole step."""
_MIN_FLEET_WASTE: Final = 0.04
"""Share of the price of all candidates from which a fleet is worth replacing."""
_MIN_WASTE: Final = 0.03
"""Share of its price from which a node is wasteful; less is lost again by packing."""
_MIN_EXCLUDED_WASTE: Final = 0.1
"""Share of its price from which a later step is sure to replace a node."""
_MIN_SAVING: Final = 0.05
"""Share of the price of its nodes that a step must save: it evicts all of their pods."""
_MIN_SET_WASTE: Final = 0.08
"""Share of their price that a set wastes at least: part of the waste is lost again by packing."""
_SUFFICIENT_SHARE: Final = 0.9
"""Share of the waste; a step that saves less is tried with more targets for its pods."""
_MAX_SIMULATIONS: Final = 8
"""Simulated steps per pass; in large clusters fewer, because each takes longer."""
_MIN_SIMULATIONS: Final = 2
_SIMULATED_NODES: Final = 2000
"""Nodes in all simulations of a pass together."""


def is_young(candidate: Candidate, now: datetime | None) -> bool:
    """Return True if a node is too young to be replaced in a step."""
    created = candidate.claim.created
    return created is not None and now is not None and now - created < MIN_NODE_AGE


class _Step(NamedTuple):
    command: Command
    score: float
    """Saving minus the waste that its new nodes keep, in USD per hour."""


class FleetReplacementSearch:
    """Searches the step that saves most and leaves the least waste."""

    def __init__(
        self, evaluator: ConsolidationEvaluator, simulation: SchedulingSimulation, pod_values: PodValues
    ) -> None:
        self._evaluator = evaluator
        self._disruption_costs = simulation.disruption_costs
        self._prices = {candidate.name: candidate.price for candidate in simulation.context.candidates}
        self._now = simulation.context.snapshot.now
        self._pod_values = pod_values
        limit = _SIMULATED_NODES // max(1, simulation.problem.nodes.existing_count)
        self._max_simulations = max(_MIN_SIMULATIONS, min(_MAX_SIMULATIONS, limit))
        self._simulated_steps = 0
        self._unapplied: Command | None = None

    @property
    def is_exhausted(self) -> bool:
        """True if enough steps were simulated for one pass."""
        return self._simulated_steps >= self._max_simulations

    def bound_saving(self, candidates: Sequence[Candidate], allowed: Mapping[str, int]) -> float:
        """Return an upper bound of what all steps within budgets save, in USD per hour.

        0: the fleet is as good as a plan from scratch, as far as packing allows.
        """
        total = sum(map(self._pod_values.get_waste, candidates))
        if total < _MIN_FLEET_WASTE * sum(candidate.price for candidate in candidates):
            return 0.0
        waste = self._get_waste(candidates)
        return sum(waste[candidate.name] for candidate in _rank_candidates(candidates, waste, allowed))

    def apply_best(self, candidates: Sequence[Candidate], allowed: Mapping[str, int]) -> Command | None:
        """Return the best step; None: no step is worth its evictions.

        It is applied only if another step follows, because that takes a simulation.
        """
        waste = self._get_waste(candidates)
        best: _Step | None = None
        for node_set in self._generate_sets(candidates, waste, allowed):
            if self._unapplied is not None:
                self._apply(self._unapplied)
                self._unapplied = None
            for step in self._simulate_set(node_set, waste, min_score=best.score if best else 0.0):
                if best is None or step.score > best.score:
                    best = step
        self._unapplied = best.command if best is not None else None
        return self._unapplied

    def _get_waste(self, candidates: Sequence[Candidate]) -> dict[str, float]:
        """Return the waste of wasteful nodes that may be replaced, in USD per hour."""
        waste = {candidate.name: self._pod_values.get_waste(candidate) for candidate in candidates}
        return {
            candidate.name: waste[candidate.name]
            for candidate in candidates
            if waste[candidate.name] > _MIN_WASTE * candidate.price > 0
            and not self._evaluator.is_spot_to_spot_disabled([candidate])
            and not is_young(candidate, self._now)
        }

    def _generate_sets(
        self, candidates: Sequence[Candidate], waste: Mapping[str, float], allowed: Mapping[str, int]
    ) -> Iterator[Sequence[Candidate]]:
        """Yield the most wasteful nodes: in total, per disruption cost, and of each type."""
        per_cost = {name: waste[name] / self._disruption_costs[name] for name in waste}
        generated: set[frozenset[str]] = set()
        for rank in (waste, per_cost, _alternate_types(candidates, waste)):
            ranked = _rank_candidates(candidates, rank, allowed)[:_MAX_NODES]
            for size in (len(ranked), len(ranked) // 2, 1):
                names = frozenset(candidate.name for candidate in ranked[:size])
                if names and names not in generated:
                    generated.add(names)
                    yield ranked[:size]

    def _simulate_set(
        self, node_set: Sequence[Candidate], waste: Mapping[str, float], min_score: float
    ) -> Iterator[_Step]:
        """Yield steps that replace these nodes, with different targets for their pods."""
        bound = sum(waste[candidate.name] for candidate in node_set)
        price = sum(candidate.price for candidate in node_set)
        min_saving, min_bound = _MIN_SAVING * price, _MIN_SET_WASTE * price
        others = waste.keys() - {candidate.name for candidate in node_set}
        replaced_later = frozenset(
            name for name in others if waste[name] > _MIN_EXCLUDED_WASTE * self._prices[name]
        )
        for excluded_targets in dict.fromkeys((replaced_later, frozenset[str]())):
            if bound <= max(min_bound, min_score) or self.is_exhausted:
                return
            self._simulated_steps += 1
            command = self._evaluator.simulate_command(
                node_set, fewest_nodes=False, excluded_targets=excluded_targets
            )
            if isinstance(command, Command) and command.saving >= min_saving:
                yield _Step(command, command.saving - max(0.0, bound - command.saving))
                if command.saving >= _SUFFICIENT_SHARE * bound:
                    return

    def _apply(self, command: Command) -> None:
        self._evaluator.apply_simulated(
            command.candidates, fewest_nodes=False, excluded_targets=command.excluded_targets
        )


def _rank_candidates(
    candidates: Sequence[Candidate], rank: Mapping[str, float], allowed: Mapping[str, int]
) -> list[Candidate]:
    """Return the ranked candidates that budgets allow, the highest rank first."""
    ranked = [candidate for candidate in candidates if candidate.name in rank]
    ranked.sort(key=lambda candidate: (-rank[candidate.name], candidate.name))
    return limit_to_budgets(ranked, allowed)


def _alternate_types(candidates: Sequence[Candidate], waste: Mapping[str, float]) -> dict[str, float]:
    """Return a rank: the most wasteful node of each instance type, then the next.

    Pods of different types are more likely to fill new nodes together: those of
    memory-optimized nodes need memory, those of compute-optimized ones CPU.
    """
    positions: dict[str, int] = {}
    ranks = {}
    for candidate in sorted(candidates, key=lambda node: (-waste.get(node.name, 0.0), node.name)):
        if candidate.name in waste:
            instance_type = candidate.node.labels.get(label_keys.INSTANCE_TYPE, "")
            positions[instance_type] = positions.get(instance_type, 0) + 1
            ranks[candidate.name] = -float(positions[instance_type])
    return ranks
