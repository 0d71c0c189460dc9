"""One consolidation pass: select nodes to delete or replace among all candidates.

Commands are selected by saving per disruption cost, each evaluated in the cluster
as it is after the commands before it. The pass ends when no candidate reaches the
threshold or the budgets are used up.
"""

import heapq
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import msgspec
from msgspec.structs import replace

from dovetail.core.disruption.candidates import Blocker, Candidate
from dovetail.core.disruption.command import Command, KeepReason
from dovetail.core.disruption.consolidation.balanced import PoolTotals, compute_pool_totals
from dovetail.core.disruption.consolidation.evaluator import ConsolidationEvaluator, Evaluation
from dovetail.core.disruption.consolidation.multi_node import MultiNodeSearch
from dovetail.core.disruption.context import DisruptionContext
from dovetail.core.disruption.simulation import SchedulingSimulation
from dovetail.model.karpenter.nodepool import ConsolidationPolicy
from dovetail.model.settings import ConsolidationSettings, SchedulingSettings

_DEFERRED: Final = Evaluation(
    code="young", message="other nodes can take its pods once their consolidateAfter has passed"
)
_TOLERANCE: Final = 1e-9
"""USD per hour, and relative difference between prices."""


class ConsolidationResult(msgspec.Struct, frozen=True):
    """Commands of a pass, and why every other candidate is kept."""

    commands: tuple[Command, ...] = ()
    """Each assumes those before it, so that any prefix is valid."""
    keep_reasons: tuple[KeepReason, ...] = ()


def consolidate(
    context: DisruptionContext,
    allowed_disruptions: Mapping[str, int],
    *,
    settings: ConsolidationSettings | None = None,
    scheduling: SchedulingSettings | None = None,
) -> ConsolidationResult:
    """Select nodes to delete or replace, up to ``allowed_disruptions`` per NodePool."""
    settings = settings or ConsolidationSettings()
    if not context.candidates:
        return ConsolidationResult()
    simulation = SchedulingSimulation(context, scheduling)
    evaluator = ConsolidationEvaluator(simulation, settings, _compute_balanced_totals(context))
    present: list[Candidate] = []
    deleting: list[KeepReason] = []
    for candidate in context.candidates:
        if candidate.name in simulation.node_indexes:
            present.append(candidate)
        else:
            deleting.append(_keep_deleting(candidate))
    consolidation = _ConsolidationPass(
        evaluator, present, simulation.disruption_costs, allowed_disruptions, _Deferral(context, scheduling)
    )
    consolidation.select_single_nodes()
    consolidation.select_node_sets(MultiNodeSearch(evaluator, simulation))
    keep_reasons = sorted([*consolidation.get_keep_reasons(), *deleting], key=lambda reason: reason.node)
    return ConsolidationResult(tuple(consolidation.commands), tuple(keep_reasons))


def _compute_balanced_totals(context: DisruptionContext) -> dict[str, PoolTotals]:
    """Return the totals of NodePools with policy Balanced; others need none."""
    balanced = [
        candidate
        for candidate in context.candidates
        if candidate.pool.disruption.policy is ConsolidationPolicy.BALANCED
    ]
    return compute_pool_totals(balanced, context.snapshot)


def _keep_deleting(candidate: Candidate) -> KeepReason:
    message = "it is already being deleted"
    return KeepReason(node=candidate.name, price=candidate.price, code="spared", message=message)


class _Deferral:
    """Decides whether to wait instead of launching a node that is not needed soon.

    Nodes with a recent pod event receive no pods until ``consolidateAfter`` has
    passed. Until then a node may seem to need a replacement although it could
    simply be deleted later.
    """

    def __init__(self, context: DisruptionContext, scheduling: SchedulingSettings | None) -> None:
        self._context = context
        self._scheduling = scheduling
        self._later: SchedulingSimulation | None = None
        """The cluster with those nodes as targets; compiled only if it is needed."""

    def should_wait(self, candidates: Sequence[Candidate], replacement_price: float) -> bool:
        """Return True if cheaper replacements will do soon; prices in USD per hour."""
        context = self._context
        if replacement_price <= _TOLERANCE or context.excluded_targets <= context.long_excluded_targets:
            return False
        if self._later is None:
            later = replace(context, excluded_targets=context.long_excluded_targets)
            self._later = SchedulingSimulation(later, self._scheduling)
        outcome = self._later.simulate_removal([candidate.name for candidate in candidates])
        return outcome.is_schedulable and outcome.price < replacement_price * (1 - _TOLERANCE)


class _Entry(NamedTuple):
    """A candidate in the heap; the lowest rank is selected first, ties by name."""

    rank: float
    name: str
    version: int
    evaluation: Evaluation


class _ConsolidationPass:
    """Selects commands; first single nodes, then sets of nodes."""

    def __init__(
        self,
        evaluator: ConsolidationEvaluator,
        candidates: Sequence[Candidate],
        disruption_costs: Mapping[str, float],
        allowed_disruptions: Mapping[str, int],
        deferral: _Deferral,
    ) -> None:
        self._evaluator = evaluator
        self._deferral = deferral
        self._candidates = {candidate.name: candidate for candidate in candidates}
        self._disruption_costs = disruption_costs
        self._allowed_disruptions = dict(allowed_disruptions)
        self._evaluations: dict[str, Evaluation] = {}
        self._over_budget: set[str] = set()
        self.commands: list[Command] = []

    def select_single_nodes(self) -> None:
        """Select nodes one by one, highest saving per disruption cost first."""
        evaluations = self._evaluator.estimate_all_savings(self._candidates.values())
        entries = [self._create_entry(name, evaluations[name]) for name in sorted(self._candidates)]
        heap = [entry for entry in entries if entry is not None]
        heapq.heapify(heap)
        while heap:
            entry = heapq.heappop(heap)
            name = entry.name
            candidate = self._candidates[name]
            if name in self._evaluator.receiving_nodes:
                continue
            if self._allowed_disruptions.get(candidate.pool.name, 0) <= 0:
                self._over_budget.add(name)
                continue
            best = self._reevaluate(entry, heap)
            if best is not None:
                self._apply(candidate, best.evaluation)

    def _reevaluate(self, entry: _Entry, heap: list[_Entry]) -> _Entry | None:
        """Return the entry, up to date, if it is still the best; else requeue or drop it."""
        if entry.version != self._evaluator.version:
            # Commands were applied since: the evaluation is stale.
            current = self._evaluate(entry.name)
            if current is None or _requeue(current, heap):
                return None
            entry = current
        if entry.evaluation.is_upper_bound:
            exact = self._evaluate(entry.name, exactly=True)
            if exact is None or _requeue(exact, heap):
                return None
            entry = exact
        return entry

    def select_node_sets(self, search: MultiNodeSearch) -> None:
        """Select sets of nodes that are worth replacing together."""
        while True:
            removed = self._get_removed()
            remaining = [
                candidate
                for name, candidate in sorted(self._candidates.items())
                if name not in removed and name not in self._evaluator.receiving_nodes
            ]
            command = search.apply_best(remaining, self._allowed_disruptions)
            if command is None or self._deferral.should_wait(command.candidates, command.replacement_price):
                break
            self._add_command(command)
            if search.is_exhausted:
                break

    def _evaluate(self, name: str, *, exactly: bool = False) -> _Entry | None:
        candidate = self._candidates[name]
        evaluate = self._evaluator.simulate_savings if exactly else self._evaluator.estimate_savings
        return self._create_entry(name, evaluate(candidate))

    def _create_entry(self, name: str, evaluation: Evaluation) -> _Entry | None:
        self._evaluations[name] = evaluation
        if evaluation.code:
            return None
        rank = -evaluation.saving / self._disruption_costs[name]
        return _Entry(rank, name, self._evaluator.version, evaluation)

    def _apply(self, candidate: Candidate, evaluation: Evaluation) -> None:
        if self._deferral.should_wait([candidate], candidate.price - evaluation.saving):
            self._evaluations[candidate.name] = _DEFERRED
            return
        result = self._evaluator.apply([candidate], evaluation)
        if isinstance(result, Evaluation):
            self._evaluations[candidate.name] = result
            return
        self._add_command(result)

    def _add_command(self, command: Command) -> None:
        self.commands.append(command)
        for candidate in command.candidates:
            self._allowed_disruptions[candidate.pool.name] -= 1

    def _get_removed(self) -> set[str]:
        return {candidate.name for command in self.commands for candidate in command.candidates}

    def get_keep_reasons(self) -> tuple[KeepReason, ...]:
        """Return why each candidate without a command is kept."""
        removed = self._get_removed()
        return tuple(
            self._create_keep_reason(candidate)
            for name, candidate in sorted(self._candidates.items())
            if name not in removed
        )

    def _create_keep_reason(self, candidate: Candidate) -> KeepReason:
        name = candidate.name
        evaluation = self._evaluations[name]
        code, message = evaluation.code, evaluation.message
        if name in self._evaluator.receiving_nodes:
            code = "receives"
            message = f"it receives pods of Node {self._evaluator.receiving_nodes[name]}"
        elif name in self._over_budget:
            code = "budget"
            message = (
                f"it would save {evaluation.saving:.4f} USD per hour, "
                f"but NodePool {candidate.pool.name!r} has no budget left"
            )
        blocker = Blocker("NodePool", candidate.pool.name) if code == "budget" else None
        return KeepReason(node=name, price=candidate.price, code=code, message=message, blocker=blocker)


def _requeue(entry: _Entry, heap: list[_Entry]) -> bool:
    """Push an entry back if another one is better now; return True if so."""
    is_worse = bool(heap) and entry.rank > heap[0].rank
    if is_worse:
        heapq.heappush(heap, entry)
    return is_worse
