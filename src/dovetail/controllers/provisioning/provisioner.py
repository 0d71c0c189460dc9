"""Provisioner: creates NodeClaims for pending pods.

    pending pods -> batch window -> snapshot -> solver -> NodeClaims, nominations, Events

Pods join a batch. When its window closes, one scheduling simulation places all
pending pods on existing nodes or new NodeClaims.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final

import msgspec

from dovetail.codec.karpenter.nodeclaims import encode_nodeclaim
from dovetail.controllers.context import ControllerBase, ControllerContext
from dovetail.controllers.event_reasons import NO_COMPATIBLE_INSTANCE_TYPES
from dovetail.controllers.provisioning.batch_window import Batch
from dovetail.controllers.provisioning.displaced_pods import DisplacedPods
from dovetail.controllers.provisioning.events import PodSchedulingEvents
from dovetail.controllers.provisioning.host_groups import HostGroups
from dovetail.controllers.runtime.manager import SINGLETON, SYNC_POLL, Controller, RequeueAfter
from dovetail.controllers.scheduling_snapshot import SchedulingSnapshots
from dovetail.core.pod.eligibility import is_reschedulable
from dovetail.core.provisioning import build_planned_claim, can_provision, format_names, is_provisionable
from dovetail.core.scheduling.snapshot_update import merge_plans
from dovetail.core.scheduling.solver import solve
from dovetail.core.scheduling.unschedulable import find_nodepools_without_types
from dovetail.core.scheduling.work import ShouldStop, is_complex
from dovetail.model.karpenter.capacitybuffer import is_buffer_pod
from dovetail.model.karpenter.condition_types import INITIALIZED
from dovetail.model.karpenter.nodeclaim import NodeClaim
from dovetail.model.karpenter.nodepool import NodePool
from dovetail.model.kube.conditions import is_true
from dovetail.model.kube.pod import Pod
from dovetail.model.node import Node
from dovetail.model.plan import ExistingPlacement, Plan, PlannedNode
from dovetail.model.settings import SchedulingSettings
from dovetail.model.snapshot import ClusterSnapshot
from dovetail.ports.api_resources import NODE_CLAIMS, NODE_POOLS, PODS
from dovetail.ports.metrics import (
    NODECLAIMS_CREATED,
    PODS_SCHEDULING_DECISION_DURATION,
    SCHEDULER_COMPLEX_PODS,
    SCHEDULER_POSTPONED_PODS,
    SCHEDULER_QUEUE_DEPTH,
    SCHEDULER_SCHEDULING_DURATION,
    SCHEDULER_UNSCHEDULABLE_PODS,
    ControllerLabels,
    NodeClaimCreatedLabels,
    NoLabels,
)
from dovetail.state.cluster.cache import ObjectChange
from dovetail.state.nodes.replacements import is_awaiting_replacement
from dovetail.state.pods.scheduling_latency import SchedulingLatency
from dovetail.state.pods.scheduling_retries import PodSelection, SchedulingRetries

Solver = Callable[[ClusterSnapshot, SchedulingSettings, ShouldStop, Mapping[str, int]], Plan]
"""``core.scheduling.solver.solve``."""
RETRY_INTERVAL: Final = timedelta(seconds=10)
"""Delay before unschedulable pods are scheduled again."""
_ISOLATED_TIMEOUT: Final = timedelta(seconds=1)
"""Time for pods with complex specs in each pass; new pods wait meanwhile."""
_BUFFERS: Final = "buffers"
"""Item of a batch: the virtual pods of all CapacityBuffers."""
_BUFFER_INTERVAL: Final = timedelta(seconds=30)
"""Maximum age of the plan for CapacityBuffers: capacity may become free on any node."""
_LABELS: Final = ControllerLabels(controller="provisioner")


class Provisioner(ControllerBase):
    """Runs one scheduling simulation at a time, for all pending pods."""

    def __init__(self, context: ControllerContext, solver: Solver = solve) -> None:
        super().__init__(context)
        self._solver = solver
        self._capacity_buffers = context.capacity_buffers
        self._assignments = context.assignments
        self._nominations = context.nominations
        self._snapshots = SchedulingSnapshots(context)
        self._executor = context.executor
        self._random = context.random
        self._pod_events = PodSchedulingEvents(context)
        self._displaced_pods = DisplacedPods(context)
        self._host_groups = HostGroups(context)
        self._settings = context.scheduling_settings
        self._batch = Batch(context.batch_settings)
        self._latency = SchedulingLatency()
        self._retries = SchedulingRetries()
        self._timeout = context.batch_settings.scheduling_timeout
        self._planned_at: datetime | None = None

    def watch_buffers(self, enqueue: Callable[[str], None]) -> None:
        """Source of keys: schedule when CapacityBuffers change."""

        def handle_change() -> None:
            self._batch.add(_BUFFERS, self._loop.now())
            enqueue(SINGLETON)

        self._capacity_buffers.subscribe_changes(handle_change)

    def handle_pod(self, change: ObjectChange) -> Iterable[str]:
        """Add a pending pod to the batch, and pods whose capacity a bound pod has taken."""
        old, pod = change.old, change.new
        if pod is None:
            self._latency.remove(old.uid)
            return
        pending = [pod] if is_provisionable(pod) and not self._assignments.is_assigned(pod) else []
        if pod.node_name and (old is None or not old.node_name):
            pending = self._assignments.release_displaced(pod.node_name)
        if self._add_to_batch(pending):
            yield SINGLETON
        if self._capacity_buffers and (old is None or old.node_name != pod.node_name):
            if any(map(self._capacity_buffers.has_pods, self._get_claims(pod.node_name))):
                # The pod takes capacity of the buffer.
                self._batch.add(_BUFFERS, self._loop.now())
                yield SINGLETON

    def _get_claims(self, node_name: str) -> list[str]:
        node = self._cache.node(node_name)
        return [] if node is None else [claim.name for claim in self._cache.claims_of(node.provider_id)]

    def _add_to_batch(self, pods: Sequence[Pod]) -> bool:
        now = self._loop.now()
        for pod in pods:
            self._latency.record_pending(pod.uid, now)
            self._batch.add(pod.uid, now)
        return bool(pods)

    def handle_claim(self, change: ObjectChange) -> Iterable[str]:
        """Schedule soon when a NodeClaim is deleted: its pods need another node.

        A NodeClaim that becomes initialized may have less room than planned. For virtual
        pods of CapacityBuffers, schedule whenever their NodeClaim advances: its instance
        may have less capacity than planned.
        """
        old, new = change.old, change.new
        if new is not None and _became_initialized(old, new):
            node = self._cache.joined_node(new.provider_id)
            self._add_to_batch(self._assignments.release_displaced(node.name) if node is not None else [])
            yield SINGLETON  # Also schedules the check of pods that are not bound in time.
        if old is not None and new is not None and self._capacity_buffers.has_pods(new.name):
            if _get_progress(old) != _get_progress(new):
                self._batch.add(_BUFFERS, self._loop.now())
                yield SINGLETON
        if old is None or old.deleting or not (new is None or new.deleting):
            return
        # Its pods were batched before. After a spot interruption, the instance terminates in
        # two minutes, so the replacement must launch without delay.
        self._batch.expedite(old.name, self._loop.now())
        yield SINGLETON

    def handle_nodepool(self, change: ObjectChange) -> Iterable[str]:
        """Schedule when a NodePool becomes ready or its spec changes."""
        old, new = change.old, change.new
        if new is None or not can_provision(new):
            return
        if old is None or not can_provision(old) or old.generation != new.generation:
            if self._capacity_buffers or any(self._snapshots.get_pending_pods()):
                self._batch.add(new.name, self._loop.now())
                yield SINGLETON

    async def reconcile(self, _: str) -> RequeueAfter | None:
        """Schedule all pending pods once the batch window has closed."""
        # Observe: one instant, one snapshot.
        now = self._loop.now()
        closes = self._batch.closes_at()
        if closes is not None and closes > now:
            return RequeueAfter(closes - now)
        self._update_assignments(now)
        await self._displaced_pods.release(now)
        pods = sorted(self._snapshots.get_pending_pods(), key=lambda pod: pod.key)
        if closes is None:
            self._open_batch(pods, now)
            closes = self._batch.closes_at()
            if closes is None:
                self._record_gauges()
                is_waiting = self._assignments or self._capacity_buffers
                return RequeueAfter(self._retry_interval(now)) if is_waiting else None
            return RequeueAfter(closes - now)
        if not self._cache.has_synced():
            return SYNC_POLL
        self._batch.close()
        self._planned_at = now
        snapshot = self._snapshots.build(now)
        self._retries.observe(snapshot)
        selection = self._retries.select(snapshot.pending_pods, now)
        snapshot = msgspec.structs.replace(snapshot, pending_pods=selection.ordinary)
        pools = {pool.name: pool for pool in snapshot.nodepools}
        has_nodepools = any(map(can_provision, self._cache.pools()))

        # Decide: pure, outside the event loop.
        if pods:
            self._log.info("found provisionable pod(s)", pods=format_names(pod.key for pod in pods))
        plan = await self._solve(snapshot, self._timeout)

        # Act. In-memory updates first: they must be complete before other tasks run.
        nodes = {node.name: node for node in snapshot.nodes}
        self._capacity_buffers.record_plan(
            [(nodes[placement.node].claim, placement.pods) for placement in plan.existing],
            snapshot.pending_pods,
        )
        self._nominate_existing(plan.existing, nodes)
        errors = await self._create_claims(plan.nodes, pools)
        if selection.isolated and not errors:
            # After the NodeClaims of all other pods: these take the longest to plan.
            isolated_plan, errors = await self._provision_isolated(selection.isolated)
            plan = merge_plans(plan, isolated_plan)
        await self._host_groups.handle_plan(snapshot, plan)

        # Report.
        self._pod_events.publish_unschedulable(plan.unschedulable, has_nodepools=has_nodepools)
        self._record_metrics(pods, selection, plan, since=now)
        if errors:
            # Created NodeClaims are in the cache; the retry schedules the remaining pods.
            raise errors[0]
        return RequeueAfter(timedelta() if plan.postponed else self._retry_interval(now))

    async def _solve(self, snapshot: ClusterSnapshot, timeout: timedelta) -> Plan:
        """Run the solver for a limited time and record the pods without a node.

        In a simulation, virtual time stands still meanwhile: only steps are limited.
        """
        end = self._loop.now() + timeout
        retried = self._retries.get_last_passes()

        def run() -> tuple[Plan, dict[str, str]]:
            plan = self._solver(snapshot, self._settings, lambda: self._loop.now() >= end, retried)
            if not plan.unschedulable:
                return plan, {}
            return plan, find_nodepools_without_types(snapshot, self._settings.min_values_policy)

        plan, pools_without_types = await self._executor.run(run)
        self._publish_pools_without_types(snapshot, pools_without_types)
        self._retries.record(plan, self._loop.now())
        return plan

    async def _provision_isolated(self, pods: Sequence[Pod]) -> tuple[Plan, list[Exception]]:
        """Create NodeClaims for pods with complex specs, as far as the time allows."""
        snapshot = self._snapshots.build(self._loop.now())
        nodes = tuple(node for node in snapshot.nodes if not node.deleting)
        snapshot = msgspec.structs.replace(snapshot, pending_pods=tuple(pods), nodes=nodes)
        plan = await self._solve(snapshot, _ISOLATED_TIMEOUT)
        self._nominate_existing(plan.existing, {node.name: node for node in snapshot.nodes})
        pools = {pool.name: pool for pool in snapshot.nodepools}
        return plan, await self._create_claims(plan.nodes, pools)

    def _retry_interval(self, now: datetime) -> timedelta:
        check_at = self._displaced_pods.next_check_at(now)
        return RETRY_INTERVAL if check_at is None else max(min(RETRY_INTERVAL, check_at - now), timedelta())

    def _update_assignments(self, now: datetime) -> None:
        """Expire assignments; nominate the nodes of the others, so that none is disrupted."""
        self._assignments.expire(now)
        for claim in map(self._cache.claim, self._assignments.claims()):
            if claim is not None and claim.provider_id:
                self._nominations.nominate(claim.provider_id, now)

    def _open_batch(self, pending: Sequence[Pod], now: datetime) -> None:
        """Open a batch for pending pods, pods on deleting nodes, and CapacityBuffers."""
        for pod in pending:
            self._latency.record_pending(pod.uid, now)
            self._batch.add(pod.uid, now)
        if self._capacity_buffers and (self._planned_at or now) + _BUFFER_INTERVAL <= now:
            self._batch.add(_BUFFERS, now)
        for node in self._cache.joined_nodes():
            if not node.deleting or is_awaiting_replacement(node, self._cache):
                continue
            if any(is_reschedulable(pod) and not self._assignments.is_assigned(pod) for pod in node.pods):
                self._batch.add(node.claim or node.name, now)

    async def _create_claims(
        self, planned: Sequence[PlannedNode], pools: dict[str, NodePool]
    ) -> list[Exception]:
        """Create NodeClaims concurrently and return the errors."""
        if not planned:
            return []
        self._log.info(
            "computed new nodeclaim(s) to fit pod(s)",
            nodeclaims=len(planned),
            pods=sum(len(node.pods) for node in planned),
        )
        results = await self._loop.gather(
            [self._create_claim(node, pools[node.nodepool]) for node in planned]
        )
        return [result for result in results if isinstance(result, Exception)]

    async def _create_claim(self, node: PlannedNode, pool: NodePool) -> None:
        name = f"{pool.name}-{self._random.alphanumeric(5)}"
        claim = build_planned_claim(node, pool, name=name)
        # Before the write: the watch event of the NodeClaim must find its pods assigned.
        self._assignments.assign(name, node.pods)
        self._capacity_buffers.record_launch(name, node.pods)
        await self._kube.create(NODE_CLAIMS, encode_nodeclaim(claim))
        self._log.info(
            "created nodeclaim",
            nodepool=pool.name,
            nodeclaim=name,
            requests=claim.requests.to_quantities(),
            instance_types=format_names(instance_type.name for instance_type in node.instance_types),
        )
        self._metrics.inc(
            NODECLAIMS_CREATED,
            NodeClaimCreatedLabels(
                reason="provisioned",
                nodepool=pool.name,
                min_values_relaxed=str(node.min_values_relaxed).lower(),
            ),
        )
        for pod in _without_buffer_pods(node.pods):
            self._pod_events.publish_nominated(pod, f"nodeclaim/{name}")

    def _nominate_existing(self, placements: Sequence[ExistingPlacement], nodes: Mapping[str, Node]) -> None:
        """Nominate the target nodes of pods, so that they are not disrupted."""
        now = self._loop.now()
        unready = []
        for placement in placements:
            node, pods = nodes[placement.node], _without_buffer_pods(placement.pods)
            if not pods:
                continue  # Virtual pods of CapacityBuffers do not nominate nodes.
            if node.claim and not node.initialized:
                self._assignments.assign(node.claim, placement.pods)
                unready.append(placement)
            self._nominations.nominate(node.provider_id or node.name, now)
            for pod in pods:
                self._pod_events.publish_nominated(pod, f"node/{placement.node}")
        if unready:
            self._log.info(
                "computed unready node(s) will fit pod(s)",
                nodes=len(unready),
                pods=sum(len(placement.pods) for placement in unready),
            )

    def _publish_pools_without_types(self, snapshot: ClusterSnapshot, excluded: Mapping[str, str]) -> None:
        for pool in snapshot.nodepools:
            if pool.name in excluded:
                self._events.publish(
                    pool, NO_COMPATIBLE_INSTANCE_TYPES, f"NodePool {pool.name}: {excluded[pool.name]}"
                )

    def _record_metrics(
        self, pods: Sequence[Pod], selection: PodSelection, plan: Plan, *, since: datetime
    ) -> None:
        now = self._loop.now()
        pending = {pod.uid for pod in pods}
        without_node = {result.pod.uid for result in plan.unschedulable}
        without_node |= {pod.uid for pod in selection.waiting}
        postponed = {pod.uid for pod in plan.postponed}
        self._record_gauges(
            pending=len(pods),
            unschedulable=len(without_node & pending),
            postponed=len(postponed & pending),
            complex_pods=sum(is_complex(pod.spec) for pod in pods),
        )
        self._metrics.observe(SCHEDULER_SCHEDULING_DURATION, (now - since).total_seconds(), _LABELS)
        for pod in pods:
            if pod.uid in postponed:
                continue
            duration = self._latency.record_decision(pod.uid, now)
            if duration is not None:
                self._metrics.observe(PODS_SCHEDULING_DECISION_DURATION, duration.total_seconds(), NoLabels())

    def _record_gauges(
        self, *, pending: int = 0, unschedulable: int = 0, postponed: int = 0, complex_pods: int = 0
    ) -> None:
        self._metrics.set(SCHEDULER_QUEUE_DEPTH, pending, _LABELS)
        self._metrics.set(SCHEDULER_UNSCHEDULABLE_PODS, unschedulable, _LABELS)
        self._metrics.set(SCHEDULER_POSTPONED_PODS, postponed, _LABELS)
        self._metrics.set(SCHEDULER_COMPLEX_PODS, complex_pods, _LABELS)


def controller(context: ControllerContext, solver: Solver = solve) -> Controller:
    """Return the registration of this controller."""
    reconciler = Provisioner(context, solver)
    return Controller(
        name="provisioner",
        reconciler=reconciler,
        watches=(
            (PODS, reconciler.handle_pod),
            (NODE_CLAIMS, reconciler.handle_claim),
            (NODE_POOLS, reconciler.handle_nodepool),
        ),
        sources=(reconciler.watch_buffers,),
    )


def _became_initialized(old: NodeClaim | None, new: NodeClaim) -> bool:
    was_initialized = old is not None and is_true(old.conditions, INITIALIZED)
    return not was_initialized and is_true(new.conditions, INITIALIZED)


def _get_progress(claim: NodeClaim) -> tuple[bool, bool]:
    """Return whether the instance of a NodeClaim is known, and its node is initialized."""
    return bool(claim.provider_id), is_true(claim.conditions, INITIALIZED)


def _without_buffer_pods(pods: Iterable[Pod]) -> list[Pod]:
    """Drop the virtual pods of CapacityBuffers: they do not exist in the API."""
    return [pod for pod in pods if not is_buffer_pod(pod)]
