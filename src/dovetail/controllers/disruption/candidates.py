"""Candidate selection: the nodes that a method may disrupt, and what budgets allow."""

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Final

import msgspec
from msgspec.structs import replace

from dovetail.controllers.context import ControllerBase, ControllerContext
from dovetail.controllers.disruption.events import DisruptionEvents
from dovetail.controllers.disruption.pod_budgets import BudgetKey, PodBudgets
from dovetail.controllers.disruption.triggers import DisruptionTriggers
from dovetail.controllers.scheduling_snapshot import SchedulingSnapshots
from dovetail.core.disruption.budgets import UNLIMITED, count_nodes, count_remaining, get_allowed_disruptions
from dovetail.core.disruption.candidates import (
    Candidate,
    CandidateContext,
    DisruptionBlocked,
    StateNode,
    check_disruptable,
    get_node_price,
    may_be_blocked_by_pods,
)
from dovetail.core.disruption.command import KeepReason
from dovetail.core.disruption.context import DisruptionContext, get_consolidate_after_end
from dovetail.core.disruption.method import Method
from dovetail.core.nodepool.static import group_claims, limit_to_headroom
from dovetail.core.scheduling.plan_cost import get_node_cost
from dovetail.model.cloud.instance_type import InstanceType
from dovetail.model.karpenter.condition_types import DRIFTED
from dovetail.model.karpenter.nodeclaim import NodeClaim
from dovetail.model.karpenter.nodepool import NodePool
from dovetail.model.kube.conditions import is_true
from dovetail.ports.api_resources import NODE_CLAIMS, NODE_POOLS
from dovetail.ports.metrics import (
    DISRUPTION_ELIGIBLE_NODES,
    NODEPOOLS_ALLOWED_DISRUPTIONS,
    NODEPOOLS_NODES_CONSUMING_BUDGETS,
    BudgetLabels,
    ReasonLabels,
)
from dovetail.state.cluster.cache import ObjectChange
from dovetail.state.instancetypes.by_name import InstanceTypeIndex
from dovetail.state.nodes.replacements import Replacements

RESCAN_DELAY: Final = timedelta(seconds=10)
"""Delay of the next scan while an eligible node is blocked.

Some blockers end without watch event, such as a nomination that expires.
"""
NODES_PER_SLICE: Final = 100
"""Nodes evaluated before the event loop runs other work; with their pods about 10 ms."""
_LONG_EXCLUSION: Final = timedelta(minutes=5)
"""Beyond this, it is cheaper to launch a node than to wait until a node may receive pods."""

_RESTING: Final = "it was launched a short time ago for pods that consolidation had moved"


class CandidateScan(msgspec.Struct, frozen=True, kw_only=True):
    """Result of one scan for candidates of a method."""

    candidates: tuple[Candidate, ...] = ()
    next_eligible_at: datetime | None = None
    """When the next node becomes eligible if nothing changes until then."""
    retry_blocked_at: datetime | None = None
    """When to check blocked nodes again."""

    @property
    def rescan_at(self) -> datetime | None:
        """When time alone may change the result."""
        times = (self.next_eligible_at, self.retry_blocked_at)
        return min((time for time in times if time is not None), default=None)


class _NotCandidate(msgspec.Struct, frozen=True):
    """A node that is not a candidate now."""

    eligible_at: datetime | None = None
    """When it becomes eligible; None if that is not a matter of time."""
    is_blocked: bool = False
    """It is eligible, but something prevents its disruption."""


class _KnownCandidate(msgspec.Struct, frozen=True, kw_only=True):
    """A candidate of an earlier scan, and what it depends on."""

    state_node: StateNode
    candidate: Candidate
    types: Mapping[str, InstanceType]
    selectors_version: int
    """Of the PodDisruptionBudgets."""
    budgets: frozenset[BudgetKey]
    """Those of its pods, one at most for each; all allowed a disruption."""


class CandidateFinder(ControllerBase):
    """Finds candidates in the cluster cache and publishes why other nodes are kept."""

    def __init__(
        self, context: ControllerContext, *, triggers: DisruptionTriggers, events: DisruptionEvents
    ) -> None:
        super().__init__(context)
        self._assignments = context.assignments
        self._nominations = context.nominations
        self._node_cost = context.scheduling_settings.node_cost
        self._triggers = triggers
        self._keep_reasons = context.keep_reasons
        self._disruption_events = events
        self._snapshots = SchedulingSnapshots(context)
        self._replacements = Replacements(context.cache)
        self._eligible_counts: dict[Method, int] = {}
        self._types = InstanceTypeIndex()
        self._pod_budgets = PodBudgets(context.cache)
        self._known_candidates: dict[str, _KnownCandidate] = {}
        """Provider ID → candidate of an earlier scan."""
        context.cache.subscribe(NODE_CLAIMS, self._forget_candidate)
        context.cache.subscribe(NODE_POOLS, self._types.handle_nodepool)

    async def scan(self, method: Method, now: datetime) -> CandidateScan:
        """Return the method's candidates.

        Yields to the event loop between slices, so that the nodes are not seen at
        one instant: commands check their candidates again when they start.
        """
        candidates: list[Candidate] = []
        eligible_times: list[datetime] = []
        any_blocked = False
        context = self._get_candidate_context(now)
        trigger = method.trigger_condition
        listed = self._cache.claims()
        if trigger:
            listed = [claim for claim in listed if is_true(claim.conditions, trigger)]
        for number, listed_claim in enumerate(listed, 1):
            if number % NODES_PER_SLICE == 0:
                await self._loop.sleep(timedelta())
            # Other work changes NodeClaims only between slices.
            is_current = number < NODES_PER_SLICE
            claim = listed_claim if is_current else self._cache.claim(listed_claim.name)
            if claim is None or claim.deleting or not claim.provider_id:
                continue
            if trigger and not is_true(claim.conditions, trigger):
                continue
            if method.needs_empty_nodes and not self._triggers.state_nodes.may_be_empty(claim):
                continue
            result = self._evaluate(claim, method, context)
            if isinstance(result, Candidate):
                candidates.append(result)
                continue
            any_blocked = any_blocked or result.is_blocked
            if result.eligible_at is not None:
                eligible_times.append(result.eligible_at)
        self._eligible_counts[method] = len(candidates)
        # Methods may share a reason, and with it the gauge.
        count = sum(
            eligible for other, eligible in self._eligible_counts.items() if other.reason is method.reason
        )
        self._metrics.set(DISRUPTION_ELIGIBLE_NODES, count, ReasonLabels(reason=method.reason.lower()))
        return CandidateScan(
            candidates=tuple(candidates),
            next_eligible_at=min(eligible_times, default=None),
            retry_blocked_at=now + RESCAN_DELAY if any_blocked else None,
        )

    def _evaluate(
        self, claim: NodeClaim, method: Method, context: CandidateContext
    ) -> Candidate | _NotCandidate:
        """Check eligibility, backoff and blockers of one node, in this order."""
        state_node = self._triggers.state_nodes.get(claim)
        eligibility = method.check_eligibility(state_node, self._cache.pool(claim.pool), context.now)
        if eligibility.disabled_by and state_node.node is not None:
            self._disruption_events.publish_unconsolidatable(state_node, eligibility.disabled_by)
            if not is_true(claim.conditions, DRIFTED):
                self._record_kept(state_node, claim.pool, "setting", eligibility.disabled_by)
        if not eligibility.is_eligible or self._replacements.is_replaced(claim):
            return _NotCandidate(eligible_at=eligibility.eligible_at)
        blocked_until = self._triggers.get_backoff(claim, method) or self._get_rest_end(state_node, method)
        if blocked_until is not None:
            return _NotCandidate(eligible_at=blocked_until)
        if state_node.may_have_protected_pods:
            self._disruption_events.publish_pod_events(state_node.pods, context.now)
        result = self._check_disruptable(state_node, context, method)
        if isinstance(result, DisruptionBlocked):
            self._disruption_events.publish_blocked(state_node, result.message)
            if result.message:
                self._record_kept(state_node, claim.pool, "spared", result.message)
            return _NotCandidate(is_blocked=True)
        ineligible_reason = method.get_ineligible_reason(result)
        if ineligible_reason is not None:
            self._disruption_events.publish_unconsolidatable(state_node, ineligible_reason)
            self._record_kept(state_node, claim.pool, "unfit", ineligible_reason)
            return _NotCandidate()
        return result

    def _check_disruptable(
        self, state_node: StateNode, context: CandidateContext, method: Method
    ) -> Candidate | DisruptionBlocked:
        """Return ``check_disruptable``, from an earlier scan if that result still holds."""
        known = self._known_candidates.get(state_node.provider_id)
        if known is not None and known.state_node is state_node:
            candidate = self._update_candidate(known, context)
            if candidate is not None:
                return candidate
        result = check_disruptable(state_node, context, method.disruption_class)
        # Without protected pods, which end their protection with time, and without pods that
        # may block other methods.
        if isinstance(result, Candidate) and not may_be_blocked_by_pods(state_node, context):
            self._known_candidates[state_node.provider_id] = _KnownCandidate(
                state_node=state_node,
                candidate=result,
                types=self._get_types(result.pool),
                selectors_version=self._pod_budgets.selectors_version,
                budgets=frozenset(
                    key
                    for group in state_node.pod_groups or ()
                    for key in self._pod_budgets.get_keys(group.pods[0])
                ),
            )
        return result

    def _update_candidate(self, known: _KnownCandidate, context: CandidateContext) -> Candidate | None:
        """Return the candidate of an unchanged state node; None: it must be checked again."""
        candidate, budgets = known.candidate, self._pod_budgets
        if known.selectors_version != budgets.selectors_version or known.budgets & budgets.exhausted:
            return None
        pool = self._cache.pool(candidate.claim.pool)
        if pool is None or self._get_types(pool) is not known.types:
            return None
        if self._is_nominated(candidate.provider_id, context.now):
            return None
        if pool is not candidate.pool:
            node_cost = get_node_cost(pool, known.types.values(), context.node_cost)
            candidate = candidate.with_pool(pool, node_cost)
            self._known_candidates[candidate.provider_id] = replace(known, candidate=candidate)
        return candidate

    def _get_rest_end(self, state_node: StateNode, method: Method) -> datetime | None:
        claim = state_node.claim
        end = self._triggers.get_rest_end(claim, method) if claim is not None else None
        if end is not None and claim is not None:
            self._record_kept(state_node, claim.pool, "young", _RESTING)
        return end

    def _record_kept(self, state_node: StateNode, pool_name: str, code: str, message: str) -> None:
        node, pool = state_node.node, self._cache.pool(pool_name)
        if node is None:
            return
        price = get_node_price(node, self._get_types(pool), state_node.pods) if pool is not None else 0.0
        reason = KeepReason(node=node.name, price=price, code=code, message=message)
        self._keep_reasons.record([reason])

    def _forget_candidate(self, change: ObjectChange) -> None:
        if change.new is None:
            self._known_candidates.pop(change.old.provider_id, None)

    def is_still_valid(self, candidate: Candidate, method: Method, now: datetime) -> bool:
        """Return True if a tainted candidate is as it was when it was selected.

        A pod that was bound in between has no place in the command's plan. Pods
        that are gone do not matter.
        """
        claim = self._cache.claim(candidate.claim.name)
        if claim is None or claim.deleting:
            return False
        state_node = self._triggers.state_nodes.get(claim)
        pool = self._cache.pool(claim.pool)
        if not method.check_eligibility(state_node, pool, now).is_eligible:
            return False
        context = self._get_candidate_context(now, frozenset({candidate.provider_id}))
        result = check_disruptable(state_node, context, method.disruption_class)
        if isinstance(result, DisruptionBlocked):
            return False
        planned = {pod.uid for pod in candidate.reschedulable_pods}
        return all(pod.uid in planned for pod in result.reschedulable_pods)

    def get_allowed_disruptions(
        self, candidates: Iterable[Candidate], method: Method, now: datetime
    ) -> dict[str, int]:
        """Return how many more nodes of each candidate's NodePool may be disrupted."""
        pools = {candidate.pool.name: candidate.pool for candidate in candidates}
        return {name: self._get_allowed(pool, method, now) for name, pool in sorted(pools.items())}

    def _get_allowed(self, pool: NodePool, method: Method, now: datetime) -> int:
        counts = count_nodes(
            (claim, self._triggers.get_node(claim)) for claim in self._cache.claims_in(pool.name)
        )
        allowed = get_allowed_disruptions(pool.disruption.budgets, method.reason, total=counts.total, now=now)
        for error in allowed.errors:
            self._log.error("invalid disruption budget", nodepool=pool.name, error=error)
        remaining = count_remaining(allowed.allowed, counts)
        labels = BudgetLabels(nodepool=pool.name, reason=method.reason.value)
        self._metrics.set(NODEPOOLS_ALLOWED_DISRUPTIONS, remaining, labels)
        self._metrics.set(NODEPOOLS_NODES_CONSUMING_BUDGETS, counts.disrupting, labels)
        if remaining == 0 and counts.total > 0:
            self._disruption_events.publish_budget_exhausted(pool, method.reason, allowed.errors)
        return remaining

    def get_limit_headroom(self, candidates: Iterable[Candidate]) -> dict[str, int]:
        """Return how many nodes each static NodePool may launch beside the existing ones.

        0 for a NodePool with surplus nodes: static scale-down removes those first.
        """
        headroom = {}
        pools = {
            candidate.pool.name: candidate.pool
            for candidate in candidates
            if candidate.pool.replicas is not None
        }
        for name, pool in sorted(pools.items()):
            claims = group_claims(self._cache.claims_in(name))
            has_surplus = len(claims.active) > (pool.replicas or 0)
            headroom[name] = 0 if has_surplus else limit_to_headroom(pool, claims, UNLIMITED)
        return headroom

    def get_context(self, candidates: tuple[Candidate, ...], now: datetime) -> DisruptionContext:
        """Return a snapshot of the whole cluster."""
        exclusion_ends = dict(self._get_exclusion_ends(now))
        return DisruptionContext(
            snapshot=self._snapshots.build(now),
            candidates=candidates,
            excluded_targets=frozenset(exclusion_ends),
            long_excluded_targets=frozenset(
                name for name, end in exclusion_ends.items() if end > now + _LONG_EXCLUSION
            ),
        )

    def _get_exclusion_ends(self, now: datetime) -> Iterable[tuple[str, datetime]]:
        """Yield nodes within ``consolidateAfter``, which receive no pods, and its end."""
        for pool in self._cache.pools():
            if pool.disruption.consolidate_after:
                for claim in self._cache.claims_in(pool.name):
                    end = get_consolidate_after_end(claim, pool)
                    if claim.node_name and end is not None and now < end:
                        yield claim.node_name, end

    def _get_candidate_context(
        self, now: datetime, tainted_by_command: frozenset[str] = frozenset()
    ) -> CandidateContext:
        self._pod_budgets.refresh()
        return CandidateContext(
            now=now,
            get_nodepool=self._cache.pool,
            get_instance_types=self._get_types,
            get_pdbs=self._pod_budgets.get,
            is_nominated=self._is_nominated,
            tainted_by_command=tainted_by_command,
            node_cost=self._node_cost,
        )

    def _is_nominated(self, provider_id: str, now: datetime) -> bool:
        """Return True if pending pods are expected on a node."""
        if self._nominations.is_nominated(provider_id, now):
            return True
        claims = self._cache.claims_of(provider_id)
        return any(self._assignments.pods_of(claim.name) for claim in claims)

    def _get_types(self, pool: NodePool) -> Mapping[str, InstanceType]:
        return self._types.by_name(pool.name, self._cloud_provider.instance_types(pool))
