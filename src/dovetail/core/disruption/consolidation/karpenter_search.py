"""Karpenter's search for consolidation: one command per pass, for any saving.

Multi-node consolidation comes first: a binary search for the longest list of nodes, by
savings ratio, that one node or none replaces. Else the first single node that can be deleted
or replaced is taken. It exists to compare policies: ``dovetail replay --policy karpenter``.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import Final

from msgspec.structs import replace

from dovetail.core.disruption.candidates import Candidate
from dovetail.core.disruption.command import Command, KeepReason
from dovetail.core.disruption.consolidation.consolidate import (
    ConsolidationResult,
    compute_balanced_totals,
    split_deleting,
)
from dovetail.core.disruption.consolidation.evaluator import ConsolidationEvaluator, Evaluation
from dovetail.core.disruption.consolidation.multi_node import limit_to_budgets
from dovetail.core.disruption.context import DisruptionContext
from dovetail.core.disruption.simulation import SchedulingSimulation
from dovetail.model.settings import ConsolidationSettings, SchedulingSettings

_MAX_NODES: Final = 101
"""Nodes of one multi-node command."""
_LATER: Final = Evaluation(code="later", message="another node is consolidated first")


def search_like_karpenter(
    context: DisruptionContext,
    allowed_disruptions: Mapping[str, int],
    *,
    settings: ConsolidationSettings | None = None,
    scheduling: SchedulingSettings | None = None,
) -> ConsolidationResult:
    """Return the command that Karpenter would start, at most one."""
    if not context.candidates:
        return ConsolidationResult()
    settings = replace(
        settings or ConsolidationSettings(),
        min_saving=0.0,
        min_saving_per_pod=0.0,
        min_saving_share=0.0,
        max_replacements=1,
    )
    simulation = SchedulingSimulation(context, scheduling)
    candidates, deleting = split_deleting(simulation)
    evaluator = ConsolidationEvaluator(simulation, settings, compute_balanced_totals(context))
    ranked = sorted(candidates, key=lambda node: (-node.savings_ratio, node.name))
    evaluations = dict.fromkeys((candidate.name for candidate in ranked), _LATER)
    command = _find_longest(evaluator, limit_to_budgets(ranked, allowed_disruptions)[:_MAX_NODES])
    if command is None:
        command = _find_single(evaluator, ranked, allowed_disruptions, evaluations)
    removed = {candidate.name for candidate in command.candidates} if command is not None else set()
    reasons = [
        KeepReason(
            node=candidate.name,
            price=candidate.price,
            node_cost=candidate.node_cost,
            code=evaluations[candidate.name].code,
            message=evaluations[candidate.name].message,
        )
        for candidate in ranked
        if candidate.name not in removed
    ]
    keep_reasons = tuple(sorted([*reasons, *deleting], key=lambda reason: reason.node))
    return ConsolidationResult(() if command is None else (command,), keep_reasons)


def _find_longest(evaluator: ConsolidationEvaluator, ranked: Sequence[Candidate]) -> Command | None:
    """Return the command of the longest list from the first node on that the search meets."""
    longest: Command | None = None
    shortest, last = 2, len(ranked)
    while shortest <= last:
        count = (shortest + last) // 2
        result = evaluator.simulate_command(ranked[:count], fewest_nodes=True)
        if isinstance(result, Command):
            longest, shortest = result, count + 1
        else:
            last = count - 1
    return longest


def _find_single(
    evaluator: ConsolidationEvaluator,
    ranked: Sequence[Candidate],
    allowed_disruptions: Mapping[str, int],
    evaluations: dict[str, Evaluation],
) -> Command | None:
    """Return the command of the first node; write the evaluations of the nodes before it."""
    # An estimate is an upper bound of the saving: what it rejects needs no simulation.
    estimates = evaluator.estimate_all_savings(ranked)
    for candidate in _alternate_nodepools(ranked):
        if allowed_disruptions.get(candidate.pool.name, 0) <= 0:
            message = f"NodePool {candidate.pool.name!r} has no budget left"
            evaluations[candidate.name] = Evaluation(code="budget", message=message)
        elif estimates[candidate.name].code:
            evaluations[candidate.name] = estimates[candidate.name]
        else:
            result = evaluator.simulate_command([candidate], fewest_nodes=True)
            if isinstance(result, Command):
                return result
            evaluations[candidate.name] = result
    return None


def _alternate_nodepools(ranked: Sequence[Candidate]) -> Iterator[Candidate]:
    """Yield the best node of each NodePool, then the next."""
    by_pool: dict[str, list[Candidate]] = {}
    for candidate in ranked:
        by_pool.setdefault(candidate.pool.name, []).append(candidate)
    for nodes in zip_longest(*by_pool.values()):
        yield from (node for node in nodes if node is not None)
