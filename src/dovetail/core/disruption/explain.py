"""Explanation for every node: why it is kept, or that it is about to be disrupted."""

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from functools import partial
from math import ceil
from typing import Final

import msgspec
from msgspec.structs import replace

from dovetail.core.disruption.candidates import (
    Blocker,
    Candidate,
    CandidateContext,
    DisruptionBlocked,
    DisruptionClass,
    StateNode,
    check_disruptable,
    describe_disruption,
    get_node_price,
)
from dovetail.core.disruption.command import Command, KeepReason
from dovetail.core.disruption.context import DisruptionContext, get_consolidate_after_end
from dovetail.core.disruption.method import NOT_ELIGIBLE, Eligibility, Method, MethodInput
from dovetail.core.disruption.policy import DEFAULT_POLICY, Policy, PolicyError
from dovetail.core.disruption.registry import METHODS
from dovetail.core.disruption.simulation import SchedulingSimulation
from dovetail.core.scheduling.plan_cost import get_node_cost
from dovetail.model import labels as label_keys
from dovetail.model.karpenter.nodeclaim import NodeClaim
from dovetail.model.karpenter.nodepool import DisruptionReason, NodePool
from dovetail.model.settings import ConsolidationSettings, SchedulingSettings

_METHODS: Final = sorted(METHODS, key=lambda method: method.disruption_class is not DisruptionClass.EVENTUAL)
"""Eventual methods first: a node that has drifted is replaced, whatever else applies to it."""
_POOL_CODES: Final = ("budget", "setting")
"""Codes of reasons that an edit of the NodePool removes."""
_YOUNG: Final = "consolidateAfter has not passed since its last pod event or its initialization"


class ExplainContext(msgspec.Struct, frozen=True, kw_only=True):
    """Input of ``explain_nodes`` beside the nodes."""

    candidates: CandidateContext
    count_allowed: Callable[[NodePool, DisruptionReason], int]
    """Number of nodes that a NodePool's budgets allow to disrupt now."""
    budget_errors: Mapping[str, str]
    """NodePool → why its budgets cannot be parsed."""
    create_context: Callable[[tuple[Candidate, ...]], DisruptionContext]
    settings: ConsolidationSettings = ConsolidationSettings()
    scheduling: SchedulingSettings = SchedulingSettings()
    policy: Policy = DEFAULT_POLICY


def explain_nodes(state_nodes: Iterable[StateNode], context: ExplainContext) -> tuple[KeepReason, ...]:
    """Return one reason per node, by name; code ``goes``: about to be disrupted.

    Other codes beside those of consolidation: ``unmanaged``, ``no-claim`` (of a NodePool by its
    label alone), ``leaving`` (being
    deleted or replaced), ``spared`` (disruption blocked), ``setting`` (of the NodePool),
    ``unfit`` (not consolidatable), ``young`` (recent pod event) and ``budget``. Raises
    ``PolicyError`` if the plug-in fails.
    """
    reasons: list[KeepReason] = []
    candidates: dict[Method, list[Candidate]] = {}
    for state_node in state_nodes:
        if state_node.node is None:
            continue
        result = _explain_alone(state_node, context)
        if isinstance(result, KeepReason):
            reasons.append(result)
        else:
            method, candidate = result
            candidates.setdefault(method, []).append(candidate)
    for method, several in candidates.items():
        reasons += _explain_together(method, tuple(several), context)
    return tuple(sorted(reasons, key=lambda reason: reason.node))


class TargetFleet(msgspec.Struct, frozen=True, kw_only=True):
    """The nodes that consolidation may replace, and the cheapest fleet for their pods."""

    nodes: int
    price: float
    """USD per hour of these nodes' instances."""
    target_nodes: int
    """Number of nodes that a plan from scratch launches for their pods."""
    target_price: float
    """USD per hour of the target's instances; equal to ``price`` if nothing is cheaper."""
    node_cost: float = 0.0
    """USD per hour of these nodes beyond their instances."""
    target_node_cost: float = 0.0
    """USD per hour of the target beyond its instances."""


def compute_target_fleet(state_nodes: Iterable[StateNode], context: ExplainContext) -> TargetFleet:
    """Return what consolidation could reach, whatever budgets allow now.

    Their pods are placed as if no candidate existed, on other nodes and on new ones.
    """
    candidates: list[Candidate] = []
    for state_node in state_nodes:
        result = _explain_alone(state_node, context) if state_node.node is not None else None
        if isinstance(result, tuple) and result[0].reason is DisruptionReason.UNDERUTILIZED:
            candidates.append(result[1])
    disruption_context = context.create_context(tuple(candidates))
    simulation = SchedulingSimulation(disruption_context, context.scheduling)
    present = [candidate for candidate in candidates if candidate.name in simulation.node_indexes]
    outcome = simulation.simulate_removal([candidate.name for candidate in present])
    price = sum(candidate.price for candidate in present)
    node_cost = sum(candidate.node_cost for candidate in present)
    fleet = TargetFleet(
        nodes=len(present),
        price=price,
        target_nodes=len(present),
        target_price=price,
        node_cost=node_cost,
        target_node_cost=node_cost,
    )
    if not outcome.is_schedulable or outcome.price >= price or outcome.cost >= price + node_cost:
        return fleet
    return replace(
        fleet,
        target_nodes=len(outcome.new_nodes),
        target_price=outcome.price,
        target_node_cost=outcome.cost - outcome.price,
    )


def _explain_alone(state_node: StateNode, context: ExplainContext) -> KeepReason | tuple[Method, Candidate]:
    """Explain a node without the others; else return the method that has to compare them."""
    claim, node = state_node.claim, state_node.node
    pool = context.candidates.get_nodepool(claim.pool) if claim is not None else None
    price = node_cost = 0.0
    if node is not None and pool is not None:
        types = context.candidates.get_instance_types(pool)
        price = get_node_price(node, types, state_node.pods)
        node_cost = get_node_cost(pool, types.values(), context.scheduling.node_cost)
    name = node.name if node is not None else state_node.provider_id
    keep = partial(_keep, name, price, node_cost)
    if claim is None or pool is None:
        labelled = node.labels.get(label_keys.NODEPOOL, "") if node is not None else ""
        if claim is None and labelled:
            return keep("no-claim", f"NodePool {labelled} by its label, but its NodeClaim is missing")
        return keep("unmanaged", "it belongs to no existing NodePool")
    if state_node.is_deleting or state_node.has_disrupted_taint:
        return keep("leaving", describe_disruption(state_node))
    method, eligibility = _find_method(state_node, pool, context)
    disruption_class = method.disruption_class if method is not None else DisruptionClass.GRACEFUL
    candidate = check_disruptable(state_node, context.candidates, disruption_class)
    if isinstance(candidate, DisruptionBlocked):
        return keep("spared", candidate.message, candidate.blocker)
    blocker = Blocker("NodePool", pool.name)
    if pool.name in context.budget_errors:
        message = f"NodePool {pool.name!r}: {context.budget_errors[pool.name]}"
        return keep("budget", message, blocker)
    if method is None:
        return keep("young", _describe_young(claim, pool, context.candidates.now))
    if eligibility.is_eligible and method.explain is None:
        problem = method.get_ineligible_reason(candidate)
        return keep("unfit", problem) if problem is not None else (method, candidate)
    code, message = _explain_eligibility(method, eligibility, claim, pool, context)
    if code == "goes" and method.needs_context and candidate.reschedulable_pods:
        return method, candidate
    # A replacement costs as much as the node, as far as is known here.
    saving = price + node_cost if code == "goes" and not method.launches_replacements else 0.0
    return keep(code, message, blocker if code in _POOL_CODES else None, saving)


def _find_method(
    state: StateNode, pool: NodePool, context: ExplainContext
) -> tuple[Method | None, Eligibility]:
    """Return the first method that applies to a node, now, later or but for a setting."""
    for method in _METHODS:
        eligibility = method.check_eligibility(state, pool, context.candidates.now)
        if eligibility != NOT_ELIGIBLE:
            return method, eligibility
    return None, NOT_ELIGIBLE


def _keep(
    node: str,
    price: float,
    node_cost: float,
    code: str,
    message: str,
    blocker: Blocker | None = None,
    saving: float = 0.0,
) -> KeepReason:
    return KeepReason(
        node=node,
        price=price,
        node_cost=node_cost,
        code=code,
        message=message,
        blocker=blocker,
        saving=saving,
    )


def _explain_eligibility(
    method: Method, eligibility: Eligibility, claim: NodeClaim, pool: NodePool, context: ExplainContext
) -> tuple[str, str]:
    """Return code and message."""
    if eligibility.disabled_by:
        return "setting", eligibility.disabled_by
    if method.explain is None:
        return "young", _describe_young(claim, pool, context.candidates.now)
    message = method.explain(claim)
    if eligibility.eligible_at is not None:
        left = _describe_time_left(eligibility.eligible_at, context.candidates.now)
        return "young", f"{message} and will be disrupted; {left}"
    if context.count_allowed(pool, method.reason) > 0:
        return "goes", message
    return "budget", f"{message}; NodePool {pool.name!r} has no budget left for {method.reason}"


def _describe_young(claim: NodeClaim, pool: NodePool, now: datetime) -> str:
    """Return the reason, with the time left if that is known."""
    end = get_consolidate_after_end(claim, pool)
    if end is None or end <= now:
        return _YOUNG
    return f"{_YOUNG}; {_describe_time_left(end, now)}"


def _describe_time_left(end: datetime, now: datetime) -> str:
    return f"{ceil((end - now).total_seconds()):,} s left, until {end:%H:%M:%S}"


def _explain_replacements(
    method: Method, candidates: tuple[Candidate, ...], context: ExplainContext
) -> Iterable[KeepReason]:
    """Explain nodes that have to be replaced: one whose pods fit nowhere stays, as its Event says."""
    decision = method.decide(
        MethodInput(
            candidates=candidates,
            allowed_disruptions={candidate.pool.name: len(candidates) for candidate in candidates},
            context=context.create_context(candidates),
            settings=context.settings,
            scheduling=context.scheduling,
        )
    )
    blocked = {reason.node: reason for reason in decision.keep_reasons}
    for candidate in candidates:
        cause = method.explain(candidate.claim) if method.explain is not None else ""
        reason = blocked.get(candidate.name)
        code, message = ("goes", cause) if reason is None else (reason.code, f"{cause}, but {reason.message}")
        yield _keep(candidate.name, candidate.price, candidate.node_cost, code, message)


def _explain_together(
    method: Method, candidates: tuple[Candidate, ...], context: ExplainContext
) -> Iterable[KeepReason]:
    """Explain candidates by the decision that the method would make on all of them."""
    if method.explain is not None:
        yield from _explain_replacements(method, candidates, context)
        return
    pools = {candidate.pool.name: candidate.pool for candidate in candidates}
    decision = method.decide(
        MethodInput(
            candidates=candidates,
            allowed_disruptions={
                name: context.count_allowed(pool, method.reason) for name, pool in pools.items()
            },
            context=context.create_context(candidates),
            settings=context.settings,
            scheduling=context.scheduling,
            policy=context.policy,
        )
    )
    if decision.policy_failure:
        raise PolicyError(f"policy {context.policy.name!r} failed: {decision.policy_failure}")
    yield from decision.keep_reasons
    for command in decision.commands:
        for candidate in command.candidates:
            yield KeepReason(
                node=candidate.name,
                price=candidate.price,
                node_cost=candidate.node_cost,
                code="goes",
                message=_describe(command),
                saving=command.saving / len(command.candidates),
            )


def _describe(command: Command) -> str:
    others = len(command.candidates) - 1
    with_others = f" with {others} other{'s' if others > 1 else ''}" if others else ""
    types = ", ".join(node.instance_type.name for node in command.replacements)
    action = f"replaced{with_others} by {types}" if types else f"deleted{with_others}"
    return f"it could be {action}, which saves {command.saving:.4f} USD per hour"
