"""Drift: replace nodes that differ from what their NodePool would launch now.

Nodes of static NodePools have a method of their own: they are replaced one for one.
"""

from collections.abc import Collection, Iterable
from datetime import UTC, datetime
from typing import Final

from msgspec.structs import replace

from dovetail.core.disruption.candidates import Candidate, DisruptionClass, StateNode
from dovetail.core.disruption.command import Command, KeepReason
from dovetail.core.disruption.method import ELIGIBLE, NOT_ELIGIBLE, Decision, Eligibility, Method, MethodInput
from dovetail.core.disruption.simulation import SchedulingSimulation
from dovetail.model.karpenter.condition_types import DRIFTED
from dovetail.model.karpenter.nodepool import DisruptionReason, NodePool
from dovetail.model.kube.conditions import is_true

MAX_COMMANDS: Final = 20
"""Commands of one decision; the next decision follows at once, on a new context."""
_EARLIEST: Final = datetime.min.replace(tzinfo=UTC)


def _check_eligibility(state_node: StateNode, pool: NodePool | None, *, is_static: bool) -> Eligibility:
    claim = state_node.claim
    if claim is None or pool is None or (pool.replicas is not None) != is_static:
        return NOT_ELIGIBLE
    return ELIGIBLE if is_true(claim.conditions, DRIFTED) else NOT_ELIGIBLE


def decide(method_input: MethodInput) -> Decision:
    """Replace nodes without pods first, then those that drifted earliest.

    Each node is a command of its own, so that a node without a replacement does
    not block others. Within one decision no two commands place pods on the same
    existing node: each simulation ignores the other commands. No pod moves to a
    node that has drifted too, because it would have to move again, nor to one that
    is still starting: the command would have to wait for it, and budgets, not the
    start of nodes, limit a roll-out.
    """
    remaining = dict(method_input.allowed_disruptions)
    simulation: SchedulingSimulation | None = None
    commands: list[Command] = []
    over_budget: list[Candidate] = []
    keep_reasons: list[KeepReason] = []
    used_targets: set[str] = set()
    for candidate in _sort_by_drift_time(method_input.candidates):
        if remaining.get(candidate.pool.name, 0) <= 0:
            over_budget.append(candidate)
            continue
        if len(commands) >= MAX_COMMANDS:
            break
        if not candidate.reschedulable_pods:
            result: Command | KeepReason = Command(candidates=(candidate,), saving=candidate.cost)
        else:
            # Compiling a simulation is expensive: only when a node has pods.
            simulation = simulation or _create_simulation(method_input)
            result = _simulate_replacement(candidate, simulation, used_targets)
        if isinstance(result, KeepReason):
            keep_reasons.append(result)
            continue
        used_targets.update(placement.node for placement in result.placements)
        remaining[candidate.pool.name] -= 1
        commands.append(result)
    return Decision(tuple(commands), tuple(over_budget), tuple(keep_reasons))


def _create_simulation(method_input: MethodInput) -> SchedulingSimulation:
    context = method_input.required_context
    excluded = {candidate.name for candidate in method_input.candidates}
    excluded.update(node.name for node in context.snapshot.nodes if not node.initialized)
    context = replace(context, excluded_targets=frozenset(excluded))
    return SchedulingSimulation(context, method_input.scheduling)


def _sort_by_drift_time(candidates: Iterable[Candidate]) -> list[Candidate]:
    """Sort candidates: without pods first, then by time of the condition Drifted."""

    def rank(candidate: Candidate) -> tuple[bool, datetime, str]:
        since = candidate.claim.conditions[DRIFTED].last_transition_time
        return (bool(candidate.reschedulable_pods), since or _EARLIEST, candidate.name)

    return sorted(candidates, key=rank)


def _simulate_replacement(
    candidate: Candidate, simulation: SchedulingSimulation, used_targets: Collection[str]
) -> Command | KeepReason:
    outcome = simulation.simulate_removal([candidate.name], excluded=used_targets)
    message = outcome.blocked_reason
    if message:
        return KeepReason(node=candidate.name, price=candidate.price, code="no-place", message=message)
    return Command(
        candidates=(candidate,),
        replacements=outcome.new_nodes,
        placements=outcome.placements,
        saving=candidate.cost - outcome.cost,
    )


def decide_static(method_input: MethodInput) -> Decision:
    """Replace as many nodes as budgets and limits allow, from the current template.

    Pods are not simulated: the number of nodes stays the same.
    """
    by_pool: dict[str, list[Candidate]] = {}
    for candidate in _sort_by_drift_time(method_input.candidates):
        by_pool.setdefault(candidate.pool.name, []).append(candidate)
    commands: list[Command] = []
    over_budget: list[Candidate] = []
    for name, candidates in sorted(by_pool.items()):
        allowed = min(method_input.allowed_disruptions.get(name, 0), method_input.limit_headroom.get(name, 0))
        over_budget += candidates[allowed:]
        commands += [Command(candidates=(node,), template_nodepools=(name,)) for node in candidates[:allowed]]
    return Decision(tuple(commands), tuple(over_budget))


DRIFT: Final = Method(
    reason=DisruptionReason.DRIFTED,
    disruption_class=DisruptionClass.EVENTUAL,
    check_eligibility=lambda state_node, pool, _: _check_eligibility(state_node, pool, is_static=False),
    decide=decide,
    needs_context=True,
    trigger_condition=DRIFTED,
    # Drifted nodes of a NodePool get equal replacements, which fail together.
    backoff_key=lambda claim: claim.pool,
    explain=lambda claim: f"it has drifted ({claim.conditions[DRIFTED].reason})",
)
STATIC_DRIFT: Final = replace(
    DRIFT,
    check_eligibility=lambda state_node, pool, _: _check_eligibility(state_node, pool, is_static=True),
    decide=decide_static,
    needs_context=False,
)
