"""One consolidation pass: select nodes to delete or replace among all candidates.

Commands are selected by saving per disruption cost, each evaluated in the cluster
as it is after the commands before it. The pass ends when no candidate reaches the
threshold or the budgets are used up. Fleet replacement is an alternative to these
commands; the better of both is the result.
"""

import heapq
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

import msgspec
from msgspec.structs import replace

from dovetail.core.disruption.candidates import Blocker, Candidate
from dovetail.core.disruption.command import Command, KeepReason
from dovetail.core.disruption.consolidation.balanced import PoolTotals, compute_pool_totals
from dovetail.core.disruption.consolidation.evaluator import ConsolidationEvaluator, Evaluation
from dovetail.core.disruption.consolidation.eviction_price import EvictionPrices
from dovetail.core.disruption.consolidation.fleet_replacement import FleetReplacementSearch
from dovetail.core.disruption.consolidation.multi_node import MultiNodeSearch
from dovetail.core.disruption.consolidation.pod_values import PodValues
from dovetail.core.disruption.context import DisruptionContext
from dovetail.core.disruption.simulation import SchedulingSimulation
from dovetail.model.karpenter.nodepool import ConsolidationPolicy
from dovetail.model.settings import ConsolidationSettings, SchedulingSettings

_DEFERRED: Final = Evaluation(
    code="young", message="other nodes can take its pods once their consolidateAfter has passed"
)
_TOLERANCE: Final = 1e-9
"""USD per hour, and relative difference between prices."""
_MAX_STALE: Final = 8
"""Candidates that are estimated again one by one after a command; then all others together."""


class ConsolidationResult(msgspec.Struct, frozen=True):
    """Commands of a pass, and why every other candidate is kept."""

    commands: tuple[Command, ...] = ()
    """Each assumes those before it, so that any prefix is valid."""
    keep_reasons: tuple[KeepReason, ...] = ()
    policy_failure: str = ""
    """Why the plug-in did not choose; then the commands are those of the search."""
    policy_answered: bool = False
    """A plug-in was asked and answered."""


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
    planner = _PassPlanner(context, allowed_disruptions, settings, scheduling)
    return planner.plan()


class _PassPlanner:
    """Plans a pass in two ways and takes the better one.

    The first way removes single nodes and small sets, each for the highest saving per
    disruption cost. The second replaces the most wasteful nodes by a cheaper fleet.
    """

    def __init__(
        self,
        context: DisruptionContext,
        allowed_disruptions: Mapping[str, int],
        settings: ConsolidationSettings,
        scheduling: SchedulingSettings | None,
    ) -> None:
        self._context = context
        self._allowed_disruptions = allowed_disruptions
        self._settings = settings
        self._scheduling = scheduling
        self._deferral = _Deferral(context, scheduling)
        self._totals = compute_balanced_totals(context)

    def plan(self) -> ConsolidationResult:
        simulation = SchedulingSimulation(self._context, self._scheduling)
        candidates, deleting = split_deleting(simulation)
        pod_values = PodValues(simulation)
        first = self._create_pass(simulation, candidates, pod_values)
        first.select_single_nodes()
        first.select_sets(MultiNodeSearch(first.evaluator, simulation, pod_values))
        steps = FleetReplacementSearch(first.evaluator, simulation, pod_values)
        keep_reasons = first.get_keep_reasons()
        commands = first.commands
        if steps.bound_saving(candidates, self._allowed_disruptions) > _get_saving(first.commands):
            fleet = self._replace_fleet(candidates, pod_values)
            if _is_better(fleet.commands, first.commands):
                commands, keep_reasons = fleet.commands, fleet.get_keep_reasons(first.evaluations)
        ordered = sorted([*keep_reasons, *deleting], key=lambda reason: reason.node)
        return ConsolidationResult(tuple(commands), tuple(ordered))

    def _create_pass(
        self,
        simulation: SchedulingSimulation,
        candidates: Sequence[Candidate],
        pod_values: PodValues,
        *,
        allow_existing_types: bool = False,
    ) -> "_ConsolidationPass":
        share = self._settings.min_saving_share
        prices = EvictionPrices(pod_values, share, self._context.snapshot.now) if share > 0 else None
        evaluator = ConsolidationEvaluator(
            simulation,
            self._settings,
            self._totals,
            eviction_prices=prices,
            allow_existing_types=allow_existing_types,
        )
        return _ConsolidationPass(
            evaluator, candidates, simulation.disruption_costs, self._allowed_disruptions, self._deferral
        )

    def _replace_fleet(self, candidates: Sequence[Candidate], pod_values: PodValues) -> "_ConsolidationPass":
        """Return a pass of fleet replacements alone, in the cluster as it is now."""
        simulation = SchedulingSimulation(self._context, self._scheduling)
        fleet = self._create_pass(simulation, candidates, pod_values, allow_existing_types=True)
        fleet.select_sets(FleetReplacementSearch(fleet.evaluator, simulation, pod_values))
        return fleet


def _is_better(fleet: Sequence[Command], others: Sequence[Command]) -> bool:
    """Return True if fleet replacements save more, in total and per disruption cost."""
    saving, fleet_saving = _get_saving(others), _get_saving(fleet)
    if not fleet or fleet_saving <= saving:
        return False
    cost = sum(command.disruption_cost for command in others)
    fleet_cost = sum(command.disruption_cost for command in fleet)
    return not others or fleet_saving / fleet_cost > saving / cost


def _get_saving(commands: Iterable[Command]) -> float:
    """Return USD per hour."""
    return sum(command.saving for command in commands)


def compute_balanced_totals(context: DisruptionContext) -> dict[str, PoolTotals]:
    """Return the totals of NodePools with policy Balanced; others need none."""
    balanced = [
        candidate
        for candidate in context.candidates
        if candidate.pool.disruption.policy is ConsolidationPolicy.BALANCED
    ]
    return compute_pool_totals(balanced, context.snapshot)


def split_deleting(simulation: SchedulingSimulation) -> tuple[list[Candidate], list[KeepReason]]:
    """Return the candidates that are not being deleted, and the keep reasons of the others."""
    candidates: list[Candidate] = []
    deleting: list[KeepReason] = []
    for candidate in simulation.context.candidates:
        if candidate.name in simulation.node_indexes:
            candidates.append(candidate)
        else:
            deleting.append(
                KeepReason(
                    node=candidate.name,
                    price=candidate.price,
                    node_cost=candidate.node_cost,
                    code="spared",
                    message="it is already being deleted",
                )
            )
    return candidates, deleting


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

    def should_wait(
        self,
        candidates: Sequence[Candidate],
        replacement_cost: float,
        excluded_targets: frozenset[str] = frozenset(),
    ) -> bool:
        """Return True if cheaper replacements will do soon; cost in USD per hour."""
        context = self._context
        if replacement_cost <= _TOLERANCE or context.excluded_targets <= context.long_excluded_targets:
            return False
        if self._later is None:
            later = replace(context, excluded_targets=context.long_excluded_targets)
            self._later = SchedulingSimulation(later, self._scheduling)
        outcome = self._later.simulate_removal([candidate.name for candidate in candidates], excluded_targets)
        return outcome.is_schedulable and outcome.cost < replacement_cost * (1 - _TOLERANCE)


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
        self.evaluator = evaluator
        self._deferral = deferral
        self._candidates = {candidate.name: candidate for candidate in candidates}
        self._disruption_costs = disruption_costs
        self._allowed_disruptions = dict(allowed_disruptions)
        self.evaluations: dict[str, Evaluation] = {}
        """Candidate → last evaluation."""
        self._over_budget: set[str] = set()
        self._receiving_nodes: dict[str, str] = {}
        """Node that receives pods → removed node; a receiving node is kept in this pass."""
        self.commands: list[Command] = []

    def select_single_nodes(self) -> None:
        """Select nodes one by one, highest saving per disruption cost first."""
        evaluations = self.evaluator.estimate_all_savings(self._candidates.values())
        entries = [self._create_entry(name, evaluations[name]) for name in sorted(self._candidates)]
        heap = [entry for entry in entries if entry is not None]
        heapq.heapify(heap)
        stale = 0
        while heap:
            entry = heapq.heappop(heap)
            name = entry.name
            candidate = self._candidates[name]
            if name in self._receiving_nodes:
                continue
            if self._allowed_disruptions.get(candidate.pool.name, 0) <= 0:
                self._over_budget.add(name)
                continue
            if entry.version != self.evaluator.version:
                stale += 1
                if stale > _MAX_STALE:
                    heap = self._refresh([entry, *heap])
                    stale = 0
                    continue
            best = self._reevaluate(entry, heap)
            if best is not None:
                self._apply(candidate, best.evaluation)
                stale = 0

    def _refresh(self, entries: Iterable[_Entry]) -> list[_Entry]:
        """Estimate stale entries again, all at once; return them as a heap."""
        stale = [entry.name for entry in entries if entry.name not in self._receiving_nodes]
        evaluations = self.evaluator.estimate_all_savings(self._candidates[name] for name in stale)
        refreshed = [self._create_entry(name, evaluations[name]) for name in stale]
        heap = [entry for entry in refreshed if entry is not None]
        heapq.heapify(heap)
        return heap

    def _reevaluate(self, entry: _Entry, heap: list[_Entry]) -> _Entry | None:
        """Return the entry, up to date, if it is still the best; else requeue or drop it."""
        if entry.version != self.evaluator.version:
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

    def select_sets(self, search: MultiNodeSearch | FleetReplacementSearch) -> None:
        """Select sets of nodes that are worth replacing together."""
        while True:
            removed = self._get_removed()
            remaining = [
                candidate
                for name, candidate in sorted(self._candidates.items())
                if name not in removed and name not in self._receiving_nodes
            ]
            command = search.apply_best(remaining, self._allowed_disruptions)
            if command is None or self._should_wait_for(command):
                break
            self._add_command(command)
            if search.is_exhausted:
                break

    def _should_wait_for(self, command: Command) -> bool:
        return self._deferral.should_wait(
            command.candidates, command.replacement_cost, command.excluded_targets
        )

    def _evaluate(self, name: str, *, exactly: bool = False) -> _Entry | None:
        candidate = self._candidates[name]
        evaluate = self.evaluator.simulate_savings if exactly else self.evaluator.estimate_savings
        return self._create_entry(name, evaluate(candidate))

    def _create_entry(self, name: str, evaluation: Evaluation) -> _Entry | None:
        self.evaluations[name] = evaluation
        if evaluation.code:
            return None
        rank = -evaluation.saving / self._disruption_costs[name]
        return _Entry(rank, name, self.evaluator.version, evaluation)

    def _apply(self, candidate: Candidate, evaluation: Evaluation) -> None:
        if self._deferral.should_wait([candidate], candidate.cost - evaluation.saving):
            self.evaluations[candidate.name] = _DEFERRED
            return
        result = self.evaluator.apply([candidate], evaluation)
        if isinstance(result, Evaluation):
            self.evaluations[candidate.name] = result
            return
        self._add_command(result)

    def _add_command(self, command: Command) -> None:
        self.commands.append(command)
        for candidate in command.candidates:
            self._allowed_disruptions[candidate.pool.name] -= 1
        for placement in command.placements:
            self._receiving_nodes[placement.node] = command.candidates[0].name

    def _get_removed(self) -> set[str]:
        return {candidate.name for command in self.commands for candidate in command.candidates}

    def get_keep_reasons(self, evaluations: Mapping[str, Evaluation] | None = None) -> list[KeepReason]:
        """Return why each candidate without a command is kept.

        ``evaluations`` are those of another pass over the same candidates.
        """
        removed = self._get_removed()
        return [
            self._create_keep_reason(candidate, (evaluations or self.evaluations)[name])
            for name, candidate in sorted(self._candidates.items())
            if name not in removed
        ]

    def _create_keep_reason(self, candidate: Candidate, evaluation: Evaluation) -> KeepReason:
        name = candidate.name
        code, message = evaluation.code, evaluation.message
        if name in self._receiving_nodes:
            code = "receives"
            message = f"it receives pods of Node {self._receiving_nodes[name]}"
        elif not code and name not in self._over_budget:
            code = "later"
            message = f"it would save {evaluation.saving:.4f} USD per hour; other nodes are replaced first"
        elif name in self._over_budget:
            code = "budget"
            message = (
                f"it would save {evaluation.saving:.4f} USD per hour, "
                f"but NodePool {candidate.pool.name!r} has no budget left"
            )
        blocker = Blocker("NodePool", candidate.pool.name) if code == "budget" else None
        return KeepReason(
            node=name,
            price=candidate.price,
            node_cost=candidate.node_cost,
            code=code,
            message=message,
            blocker=blocker,
        )


def _requeue(entry: _Entry, heap: list[_Entry]) -> bool:
    """Push an entry back if another one is better now; return True if so."""
    is_worse = bool(heap) and entry.rank > heap[0].rank
    if is_worse:
        heapq.heappush(heap, entry)
    return is_worse
