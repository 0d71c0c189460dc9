"""Cluster cache, prices, explanations and decisions → document of the view."""

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any

import msgspec

from dovetail.core.disruption.command import KeepReason
from dovetail.core.disruption.explain import TargetFleet
from dovetail.core.scheduling.plan_cost import get_node_cost
from dovetail.model.cloud.instance_type import InstanceType
from dovetail.model.karpenter.nodeclaim import NodeClaim
from dovetail.model.kube.resources import Resources
from dovetail.model.node import Node, NodeObject
from dovetail.model.plan import Plan
from dovetail.state.cluster.cache import ClusterCache
from dovetail.state.explain.blockers import BlockedSavings, group_by_blocker
from dovetail.state.instancetypes.by_name import InstanceTypeIndex
from dovetail.state.nodes.pending_claims import PendingClaims
from dovetail.view.claims import build_claim, is_in_flight, measure_durations
from dovetail.view.document import (
    HOURS_PER_MONTH,
    BlockerView,
    ClusterInfo,
    DecisionView,
    NodeClaimView,
    NodePoolView,
    NodeState,
    NodeView,
    Notice,
    PendingPodView,
    SavingsView,
    Totals,
    Usage,
    View,
)
from dovetail.view.nodepools import PoolNodes, build_nodepool
from dovetail.view.nodes import NodeInput, build_keep, build_node
from dovetail.view.pending import PodOutlooks, build_pending_pod, find_assigned_claims
from dovetail.view.prices import FindPrice, no_price

Types = Mapping[str, tuple[InstanceType, ...]]


class Explanations(msgspec.Struct, frozen=True, kw_only=True):
    """Evaluations of the whole cluster, which take longer than a document."""

    keep_reasons: tuple[KeepReason, ...] = ()
    blocked: tuple[BlockedSavings, ...] | None = None
    """Savings without each blocker; None: blockers are grouped from the keep reasons."""
    target: TargetFleet | None = None
    lower_bound: float | None = None
    """Price per hour below which no nodes of NodePools can run the pods."""
    plan: Plan | None = None
    """Plan for all pending pods."""
    at: datetime | None = None
    """The instant that was evaluated; None: nothing has been evaluated."""


class ViewInputs(msgspec.Struct, frozen=True, kw_only=True):
    """Input of a document beside the cluster cache."""

    now: datetime
    types: Types = msgspec.field(default_factory=dict)
    """NodePool → its instance types with prices; the same tuples while they do not change."""
    cluster: ClusterInfo = ClusterInfo()
    explanations: Explanations = Explanations()
    decisions: tuple[DecisionView, ...] = ()
    savings: SavingsView = SavingsView()
    notices: tuple[Notice, ...] = ()
    evictions: int = 0
    find_price: FindPrice = no_price
    """For nodes that no NodePool has an offering for."""
    node_cost: float | None = None
    """Setting for the cost of a node beyond its instance; None: of the node class."""


def build_view(cache: ClusterCache, inputs: ViewInputs) -> View:
    """Return the document of a cluster that is read once."""
    return ViewBuilder(cache).build(inputs)


class _BuiltNode(msgspec.Struct, frozen=True):
    """A node of the view, and what it was built from."""

    source: NodeInput
    view: NodeView
    capacity: Resources


class ViewBuilder:
    """Builds documents of one cluster; what has not changed is the same object as before."""

    def __init__(self, cache: ClusterCache) -> None:
        self._cache = cache
        self._types = InstanceTypeIndex()
        self._pending_claims = PendingClaims()
        self._nodes: dict[str, _BuiltNode] = {}
        self._keep_reasons: tuple[object, dict[str, KeepReason]] = (None, {})
        self._outlooks: tuple[object, PodOutlooks] = (None, PodOutlooks(None))
        self._durations: tuple[object, dict[str, timedelta]] = (None, {})
        self._latest: dict[str, dict[str, Any]] = {}

    def build(self, inputs: ViewInputs) -> View:
        """Return the document at ``inputs.now``."""
        nodes, sums = self._build_nodes(inputs)
        claims = self._build_claims()
        pending = self._build_pending_pods(inputs)
        blockers = _build_blockers(inputs.explanations)
        return View(
            at=inputs.now,
            cluster=inputs.cluster,
            totals=_build_totals(nodes.values(), pending, claims, blockers, inputs),
            savings=inputs.savings,
            node_pools=self._keep("node_pools", self._build_nodepools(inputs, sums)),
            nodes=nodes,
            pending_pods=self._keep("pending_pods", pending),
            node_claims=self._keep("node_claims", claims),
            decisions=self._keep("decisions", {decision.key: decision for decision in inputs.decisions}),
            blockers=self._keep("blockers", blockers),
            notices=self._keep("notices", {notice.code: notice for notice in inputs.notices}),
        )

    def prepare(self, inputs: ViewInputs) -> Iterator[None]:
        """Build the nodes that have changed, one per step, so that ``build`` need not.

        The cluster may change between two steps.
        """
        for key, source in list(self._get_sources(inputs)):
            before = self._nodes.get(key)
            if before is None or not _is_same(before.source, source):
                self._nodes[key] = self._build_node(key, source)
                yield

    def _keep(self, collection: str, built: dict[str, Any]) -> dict[str, Any]:
        """Return the entries of a collection, each that is equal to before as the same object."""
        before = self._latest.get(collection, {})
        kept = {key: old if (old := before.get(key)) == entry else entry for key, entry in built.items()}
        self._latest[collection] = kept
        return kept

    # -- Nodes ---------------------------------------------------------------------------------

    def _build_nodes(self, inputs: ViewInputs) -> tuple[dict[str, NodeView], dict[str, PoolNodes]]:
        built: dict[str, _BuiltNode] = {}
        sums: dict[str, PoolNodes] = {}
        for key, source in self._get_sources(inputs):
            entry = self._build_node(key, source)
            built[key] = entry
            sums.setdefault(entry.view.node_pool, PoolNodes()).add(entry.view, entry.capacity)
        self._nodes = built
        return {key: entry.view for key, entry in built.items()}, sums

    def _build_node(self, key: str, source: NodeInput) -> _BuiltNode:
        before = self._nodes.get(key)
        if before is not None and _is_same(before.source, source):
            return before
        if before is not None and _is_same(msgspec.structs.replace(before.source, keep=source.keep), source):
            # An evaluation gives many nodes another keep reason, and nothing else.
            view = msgspec.structs.replace(before.view, keep=build_keep(source.keep))
            return _BuiltNode(source, view, before.capacity)
        view = build_node(source)
        if view.key != key:
            view = msgspec.structs.replace(view, key=key)
        if before is not None and before.view == view:
            view = before.view
        return _BuiltNode(source, view, source.node.effective_capacity())

    def _get_sources(self, inputs: ViewInputs) -> Iterator[tuple[str, NodeInput]]:
        """Yield all nodes by their keys in the document."""
        cache = self._cache
        keys: set[str] = set()
        pools = {pool.name: pool for pool in cache.pools()}
        types = {name: self._types.by_name(name, inputs.types.get(name, ())) for name in pools}
        costs = {
            name: get_node_cost(pool, inputs.types.get(name, ()), inputs.node_cost)
            for name, pool in pools.items()
        }
        self._types.retain(pools.keys())
        keep_reasons = self._index_keep_reasons(inputs.explanations.keep_reasons)
        for node in (*cache.joined_nodes(), *self._get_pending_nodes(inputs)):
            key = node.claim or node.name
            if key in keys:
                # An unmanaged node with the name of a NodeClaim.
                key = f"{key}/{node.provider_id}"
            keys.add(key)
            yield (
                key,
                NodeInput(
                    node=node,
                    node_object=cache.node(node.name),
                    claim=cache.claim(node.claim) if node.claim else None,
                    keep=keep_reasons.get(node.name),
                    types=types.get(node.pool, {}),
                    node_cost=costs.get(node.pool, 0.0),
                    find_price=inputs.find_price,
                ),
            )

    def _get_pending_nodes(self, inputs: ViewInputs) -> Iterator[Node]:
        """Return NodeClaims without an instance as the cheapest nodes that they can become."""
        for claim in self._cache.pending_claims():
            types = inputs.types.get(claim.pool, ())
            yield self._pending_claims.as_node(claim, types, assume_cheapest=True)

    def _index_keep_reasons(self, reasons: tuple[KeepReason, ...]) -> dict[str, KeepReason]:
        if self._keep_reasons[0] is not reasons:
            before = self._keep_reasons[1]
            index = {
                reason.node: old if (old := before.get(reason.node)) == reason else reason
                for reason in reasons
            }
            self._keep_reasons = (reasons, index)
        return self._keep_reasons[1]

    # -- NodePools, NodeClaims and pending pods --------------------------------------------------

    def _build_nodepools(self, inputs: ViewInputs, sums: Mapping[str, PoolNodes]) -> dict[str, NodePoolView]:
        return {
            pool.name: build_nodepool(
                pool, sums.get(pool.name, PoolNodes()), self._get_claims_with_node(pool.name), inputs.now
            )
            for pool in sorted(self._cache.pools(), key=lambda pool: pool.name)
        }

    def _get_claims_with_node(self, pool: str) -> Iterator[tuple[NodeClaim, NodeObject | None]]:
        for claim in self._cache.claims_in(pool):
            nodes = self._cache.nodes_of(claim.provider_id) if claim.provider_id else ()
            yield claim, nodes[0] if nodes else None

    def _build_claims(self) -> dict[str, NodeClaimView]:
        claims = self._cache.claims()
        durations = self._measure_durations(claims)
        return {claim.name: build_claim(claim, durations) for claim in claims if is_in_flight(claim)}

    def _measure_durations(self, claims: Iterable[NodeClaim]) -> dict[str, timedelta]:
        if self._durations[0] is not claims:
            self._durations = (claims, measure_durations(claims))
        return self._durations[1]

    def _build_pending_pods(self, inputs: ViewInputs) -> dict[str, PendingPodView]:
        pods = [pod for pod in self._cache.unbound_pods() if not pod.is_terminal and not pod.deleting]
        if not pods:
            return {}
        plan = inputs.explanations.plan
        if self._outlooks[0] is not plan:
            self._outlooks = (plan, PodOutlooks(plan))
        claims = self._cache.claims()
        assigned = find_assigned_claims(claims, inputs.now)
        durations = self._measure_durations(claims)
        return {
            pod.key: build_pending_pod(pod, self._outlooks[1], assigned.get(pod.uid), durations)
            for pod in sorted(pods, key=lambda pod: pod.key)
        }


def _is_same(before: NodeInput, after: NodeInput) -> bool:
    """Return True if a node cannot have changed: all that it is built from is the same object."""
    return (
        before.node is after.node
        and before.node_object is after.node_object
        and before.claim is after.claim
        and before.keep is after.keep
        and before.types is after.types
        and before.find_price is after.find_price
        and before.node_cost == after.node_cost
    )


def _build_blockers(explanations: Explanations) -> dict[str, BlockerView]:
    blocked = explanations.blocked
    if blocked is None:
        blocked = group_by_blocker(explanations.keep_reasons)
    return {
        f"{entry.blocker.kind}/{entry.blocker.name}": BlockerView(
            key=f"{entry.blocker.kind}/{entry.blocker.name}",
            kind=entry.blocker.kind,
            name=entry.blocker.name,
            message=entry.message,
            nodes=entry.nodes,
            price_per_hour=entry.price,
            saving_per_hour=entry.saving,
        )
        for entry in blocked
    }


def _build_totals(
    nodes: Iterable[NodeView],
    pending: Mapping[str, PendingPodView],
    claims: Mapping[str, NodeClaimView],
    blockers: Mapping[str, BlockerView],
    inputs: ViewInputs,
) -> Totals:
    total = PoolNodes()
    ready = pods = unpriced = 0
    price_of_others = 0.0
    for node in nodes:
        total.add(node, _NO_CAPACITY)
        ready += node.state is NodeState.READY
        pods += node.pods.requested
        unpriced += node.price_per_hour is None
        price_of_others += 0.0 if node.node_pool else node.price_per_hour or 0.0
    explanations = inputs.explanations
    target, bound = explanations.target, explanations.lower_bound
    if bound is not None:
        bound += price_of_others
    savings = [entry.saving_per_hour for entry in blockers.values()]
    computed = [saving for saving in savings if saving is not None]
    return Totals(
        nodes=total.nodes,
        ready_nodes=ready,
        pods=pods,
        pending_pods=len(pending),
        evictions=inputs.evictions,
        node_claims=len(claims),
        price_per_hour=total.price,
        price_per_month=total.price * HOURS_PER_MONTH,
        unpriced_nodes=unpriced,
        node_cost_per_hour=total.node_cost,
        cpu=Usage(requested=total.cpu_requested, allocatable=total.cpu_allocatable),
        memory=Usage(requested=total.memory_requested, allocatable=total.memory_allocatable),
        target_per_hour=None if target is None else total.price - target.price + target.target_price,
        lower_bound_per_hour=bound,
        gap_per_hour=None if bound is None else total.price - bound,
        available_saving_per_hour=sum(reason.saving for reason in explanations.keep_reasons),
        blocked_saving_per_hour=sum(computed) if computed else None,
        blocked_price_per_hour=sum(entry.price_per_hour for entry in blockers.values()),
        evaluated_at=explanations.at,
    )


_NO_CAPACITY = Resources()
