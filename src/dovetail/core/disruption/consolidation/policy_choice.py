"""Consolidation with a policy: moves are offered until it declines none.

A move that the policy declines uses no budget: its nodes are left out, and the search
runs again. If the policy fails, all moves of the first search are taken, as without it.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final

from msgspec.structs import replace

from dovetail.core.disruption.candidates import Candidate, eviction_cost
from dovetail.core.disruption.command import Command, KeepReason
from dovetail.core.disruption.consolidation.balanced import compute_pool_totals
from dovetail.core.disruption.consolidation.consolidate import ConsolidationResult, consolidate
from dovetail.core.disruption.consolidation.karpenter_search import search_like_karpenter
from dovetail.core.disruption.context import DisruptionContext
from dovetail.core.disruption.method import MethodInput
from dovetail.core.disruption.policy import (
    EvictedPod,
    Move,
    NewNode,
    NodePoolState,
    Offer,
    Policy,
    PolicyError,
    RemovedNode,
    Search,
    check_choice,
)
from dovetail.model import labels as label_keys
from dovetail.model.kube.pod import Pod

_MAX_OFFERS: Final = 3
"""Offers of one pass; each takes a search."""


def consolidate_by_policy(inputs: MethodInput) -> ConsolidationResult:
    """Search moves and let the policy of the input choose among them."""
    context, policy = inputs.required_context, inputs.policy
    result = first = _search(inputs, context)
    if policy.choose is None:
        return result
    declined: dict[str, KeepReason] = {}
    for offers_left in reversed(range(_MAX_OFFERS)):
        try:
            numbers = _choose(policy, result.commands, context, inputs.allowed_disruptions)
        except PolicyError as error:
            return replace(first, policy_failure=str(error))
        rejected = [command for number, command in enumerate(result.commands) if number not in numbers]
        for command in rejected:
            declined |= _keep_declined(command, policy)
        is_limited = any(reason.code == "budget" for reason in result.keep_reasons)
        if not (rejected and is_limited and offers_left):
            break
        kept = tuple(candidate for candidate in context.candidates if candidate.name not in declined)
        context = replace(context, candidates=kept)
        result = _search(inputs, context)
    keep_reasons = sorted([*result.keep_reasons, *declined.values()], key=lambda reason: reason.node)
    commands = tuple(result.commands[number] for number in numbers)
    return ConsolidationResult(commands, tuple(keep_reasons), policy_answered=bool(first.commands))


def _search(inputs: MethodInput, context: DisruptionContext) -> ConsolidationResult:
    search = search_like_karpenter if inputs.policy.search is Search.KARPENTER else consolidate
    return search(context, inputs.allowed_disruptions, settings=inputs.settings, scheduling=inputs.scheduling)


def _choose(
    policy: Policy,
    commands: Sequence[Command],
    context: DisruptionContext,
    allowed_disruptions: Mapping[str, int],
) -> tuple[int, ...]:
    """Return the numbers of the commands that the policy takes, in its order."""
    if policy.choose is None or not commands:
        return ()
    offer = build_offer(commands, context, allowed_disruptions)
    return check_choice(policy.choose(offer), offer)


def _keep_declined(command: Command, policy: Policy) -> dict[str, KeepReason]:
    """Return the keep reason of each node of a declined command, by node."""
    pods = "1 pod" if command.pod_count == 1 else f"{command.pod_count} pods"
    message = f"policy {policy.name!r} declined to evict {pods} to save {command.saving:.4f} USD per hour"
    return {
        candidate.name: KeepReason(
            node=candidate.name,
            price=candidate.price,
            node_cost=candidate.node_cost,
            code="policy",
            message=message,
        )
        for candidate in command.candidates
    }


def build_offer(
    commands: Sequence[Command], context: DisruptionContext, allowed_disruptions: Mapping[str, int]
) -> Offer:
    """Return commands as the input of a policy; ValueError if the context has no time."""
    now = context.snapshot.now
    if now is None:
        raise ValueError("a policy needs the time of the snapshot")
    pools = {candidate.pool.name: candidate.pool for command in commands for candidate in command.candidates}
    in_pools = [candidate for candidate in context.candidates if candidate.pool.name in pools]
    totals = compute_pool_totals(in_pools, context.snapshot)
    return Offer(
        now=now,
        moves=tuple(_build_move(number, command, now) for number, command in enumerate(commands)),
        nodepools={
            name: NodePoolState(
                consolidation_policy=str(pool.disruption.policy),
                budget=allowed_disruptions.get(name, 0),
                price=totals[name].price,
                disruption_cost=totals[name].disruption_cost,
            )
            for name, pool in sorted(pools.items())
        },
    )


def _build_move(number: int, command: Command, now: datetime) -> Move:
    return Move(
        number=number,
        nodes=tuple(_build_node(candidate, now) for candidate in command.candidates),
        replacements=tuple(
            NewNode(nodepool=node.nodepool, instance_type=node.instance_type.name, cost=node.cost)
            for node in command.replacements
        ),
        saving=command.saving,
        disruption_cost=command.disruption_cost,
    )


def _build_node(candidate: Candidate, now: datetime) -> RemovedNode:
    labels = candidate.node.labels
    return RemovedNode(
        name=candidate.name,
        nodepool=candidate.pool.name,
        instance_type=labels.get(label_keys.INSTANCE_TYPE, ""),
        capacity_type=labels.get(label_keys.CAPACITY_TYPE, ""),
        zone=labels.get(label_keys.ZONE, ""),
        cost=candidate.cost,
        age=_get_age(candidate.claim.created, now),
        pods=tuple(_build_pod(pod, now) for pod in candidate.reschedulable_pods),
    )


def _build_pod(pod: Pod, now: datetime) -> EvictedPod:
    return EvictedPod(
        namespace=pod.namespace,
        name=pod.name,
        owner=f"{pod.owner.kind}/{pod.owner.name}" if pod.owner is not None else "",
        priority=pod.priority,
        eviction_cost=eviction_cost(pod),
        age=_get_age(pod.created, now),
    )


def _get_age(created: datetime | None, now: datetime) -> timedelta | None:
    return None if created is None else max(now - created, timedelta())
