"""Keep reasons of all nodes in a cluster cache, of a process or filled from a dump."""

from collections.abc import Callable
from datetime import datetime

from msgspec.structs import replace

from dovetail.core.cost.node_groups import GroupKind, find_node_group
from dovetail.core.disruption.budgets import (
    count_nodes,
    count_remaining,
    get_allowed_disruptions,
    validate_budgets,
)
from dovetail.core.disruption.candidates import (
    Candidate,
    CandidateContext,
    StateNode,
    describe_missing_nodepool,
)
from dovetail.core.disruption.command import KeepReason
from dovetail.core.disruption.context import DisruptionContext, is_within_consolidate_after
from dovetail.core.disruption.explain import ExplainContext, TargetFleet, compute_target_fleet, explain_nodes
from dovetail.core.disruption.policy import DEFAULT_POLICY, Policy
from dovetail.model.cloud.instance_type import InstanceType
from dovetail.model.karpenter.nodeclaim import NodeClaim
from dovetail.model.karpenter.nodepool import DisruptionReason, NodePool
from dovetail.model.node import NodeObject
from dovetail.model.settings import ConsolidationSettings, SchedulingSettings
from dovetail.state.cluster.cache import ClusterCache
from dovetail.state.instancetypes.by_name import InstanceTypeIndex
from dovetail.state.snapshot import build_provisioning_snapshot

GetInstanceTypes = Callable[[NodePool], tuple[InstanceType, ...]]


def explain_cluster(
    cache: ClusterCache,
    get_instance_types: GetInstanceTypes,
    now: datetime,
    *,
    settings: ConsolidationSettings | None = None,
    scheduling: SchedulingSettings | None = None,
    policy: Policy = DEFAULT_POLICY,
    ignore_limits: bool = False,
) -> tuple[KeepReason, ...]:
    """Return the keep reason of every node, by name.

    With ``ignore_limits``, as if budgets allowed all nodes at once and all
    ``consolidateAfter`` had passed: the result that is reached in the end.
    """
    context = _create_context(
        cache, get_instance_types, now, settings=settings, scheduling=scheduling, ignore_limits=ignore_limits
    )
    reasons = explain_nodes(
        (_get_state_node(cache, node) for node in cache.nodes()), replace(context, policy=policy)
    )
    return tuple(_name_group(cache, reason) for reason in reasons)


def _name_group(cache: ClusterCache, reason: KeepReason) -> KeepReason:
    """Return the reason of a node that no NodePool manages with its node group."""
    node = cache.node(reason.node)
    if node is None or reason.code != "unmanaged":
        return reason
    group = find_node_group(node.labels, node.provider_id)
    if group.kind is GroupKind.OTHER:
        return reason
    if group.kind is GroupKind.NODEPOOL:
        return replace(reason, message=describe_missing_nodepool(group.name))
    return replace(reason, message=f"it belongs to {group}, not to a NodePool that exists")


def compute_cluster_target(
    cache: ClusterCache,
    get_instance_types: GetInstanceTypes,
    now: datetime,
    *,
    scheduling: SchedulingSettings | None = None,
) -> TargetFleet:
    """Return the cheapest fleet for the pods of all nodes that consolidation may replace."""
    context = _create_context(cache, get_instance_types, now, scheduling=scheduling, ignore_limits=True)
    return compute_target_fleet((_get_state_node(cache, node) for node in cache.nodes()), context)


def _create_context(
    cache: ClusterCache,
    get_instance_types: GetInstanceTypes,
    now: datetime,
    *,
    settings: ConsolidationSettings | None = None,
    scheduling: SchedulingSettings | None = None,
    ignore_limits: bool,
) -> ExplainContext:
    types = {pool.name: get_instance_types(pool) for pool in cache.pools()}
    index = InstanceTypeIndex()

    def count_allowed(pool: NodePool, reason: DisruptionReason) -> int:
        if ignore_limits and not validate_budgets(pool.disruption.budgets):
            return len(cache.claims_in(pool.name))
        counts = count_nodes((claim, _get_node(cache, claim)) for claim in cache.claims_in(pool.name))
        allowed = get_allowed_disruptions(pool.disruption.budgets, reason, total=counts.total, now=now)
        return count_remaining(allowed.allowed, counts)

    def create_context(candidates: tuple[Candidate, ...]) -> DisruptionContext:
        excluded = {
            claim.node_name
            for pool in cache.pools()
            for claim in cache.claims_in(pool.name)
            if claim.node_name and is_within_consolidate_after(claim, pool, now) and not ignore_limits
        }
        return DisruptionContext(
            snapshot=build_provisioning_snapshot(cache, types, now),
            candidates=candidates,
            excluded_targets=frozenset(excluded),
        )

    candidate_context = CandidateContext(
        now=now,
        get_nodepool=cache.pool,
        get_instance_types=lambda pool: index.by_name(pool.name, types.get(pool.name, ())),
        get_pdbs=cache.pdbs_for,
        is_nominated=lambda provider_id, at: False,
        node_cost=scheduling.node_cost if scheduling is not None else None,
    )
    pools = cache.pools()
    budget_errors = {pool.name: "; ".join(validate_budgets(pool.disruption.budgets)) for pool in pools}
    return ExplainContext(
        candidates=candidate_context,
        count_allowed=count_allowed,
        budget_errors={name: errors for name, errors in budget_errors.items() if errors},
        create_context=create_context,
        settings=settings or ConsolidationSettings(),
        scheduling=scheduling or SchedulingSettings(),
    )


def _get_state_node(cache: ClusterCache, node: NodeObject) -> StateNode:
    claims = cache.claims_of(node.provider_id)
    return StateNode(
        provider_id=node.provider_id or node.name,
        claim=claims[0] if claims else None,
        node=node,
        pods=cache.pods_on(node.name),
    )


def _get_node(cache: ClusterCache, claim: NodeClaim) -> NodeObject | None:
    nodes = cache.nodes_of(claim.provider_id)
    return nodes[0] if nodes else None
