"""Observation: what one play was like, without the cluster it was played in."""

from collections import Counter
from collections.abc import Iterator
from datetime import datetime
from math import inf

import msgspec

from dovetail.controllers.scheduling_snapshot import SchedulingSnapshots
from dovetail.core.cost.fleet_gap import measure_fleet
from dovetail.core.pod.eligibility import get_blocking_pdbs, get_protection, is_active, is_drainable
from dovetail.core.scheduling.plan_cost import get_node_cost
from dovetail.model import labels as label_keys
from dovetail.model.karpenter.condition_types import DRIFTED
from dovetail.model.karpenter.nodeclaim import NodeClaim
from dovetail.model.kube.conditions import is_true
from dovetail.model.kube.resources import CPU, MEMORY
from dovetail.model.snapshot import ClusterSnapshot
from dovetail.ports.api_resources import PODS
from dovetail.preview.observer import Eviction, ObservedNode, Observer, Workload
from dovetail.preview.play import Played
from dovetail.preview.report import HOURS_PER_MONTH, ClusterState, Course, KeptNode, Sample, thin_samples
from dovetail.simulator.apiserver.storage.frozen_object import get_field
from dovetail.simulator.cluster import SimulatedCluster
from dovetail.state.cluster.cache import ClusterCache


class WorkloadSummary(msgspec.Struct, frozen=True, kw_only=True):
    """A workload from the start to the end of a play."""

    replicas: int
    final_replicas: int
    least_ready: int | None
    """None: it did not exist at the start."""
    evictions: int
    killed: int
    pending_seconds: float


class Observation(msgspec.Struct, frozen=True, kw_only=True):
    """Result of one play."""

    started: datetime
    played_seconds: float
    before: ClusterState
    after: ClusterState
    course: Course
    nodes: tuple[ObservedNode, ...]
    evictions: tuple[Eviction, ...]
    workloads: dict[Workload, WorkloadSummary]
    most_moved: tuple[str, Workload, int] | None
    kept_nodes: tuple[KeptNode, ...]
    pods_without_node: dict[tuple[Workload, str], list[str]]
    """Workload and message → pods."""


def summarize(
    cluster: SimulatedCluster, observer: Observer, played: Played, before: ClusterState
) -> Observation:
    """Return what was observed, when a play has ended."""
    after = measure_state(cluster)
    return Observation(
        started=observer.started,
        played_seconds=played.seconds,
        before=before,
        after=after,
        course=_summarize_course(observer, played, before, after),
        nodes=tuple(observer.nodes.values()),
        evictions=tuple(observer.evictions),
        workloads={
            key: WorkloadSummary(
                replicas=workload.replicas,
                final_replicas=observer.final_replicas(key),
                least_ready=workload.least_ready,
                evictions=workload.evictions,
                killed=workload.killed,
                pending_seconds=workload.pending_seconds,
            )
            for key, workload in observer.workloads.items()
        },
        most_moved=observer.most_moved,
        kept_nodes=tuple(_find_kept_nodes(cluster)),
        pods_without_node=_group_pending(cluster, observer),
    )


def measure_state(cluster: SimulatedCluster) -> ClusterState:
    """Measure a cluster now."""
    cache = cluster.operator.cache
    price = cluster.ec2.billing.price_per_hour()
    snapshot = SchedulingSnapshots(cluster.operator.context).build(cluster.clock.now())
    gap = measure_fleet(snapshot)
    node_cost = cluster.operator.context.scheduling_settings.node_cost
    # Nodes of earlier settings may be cheaper than any that the NodePools can launch now.
    # Nodes of unknown types have no price and no bound.
    is_bound = gap.ratio is not None and 1 <= gap.ratio < inf
    pods = 0
    requested: Counter[str] = Counter()
    allocatable: Counter[str] = Counter()
    for node in cache.nodes():
        allocatable.update({name: node.allocatable.get(name, 0) for name in (CPU, MEMORY)})
        running = [pod for pod in cache.pods_on(node.name) if not pod.is_terminal]
        pods += len(running)
        for pod in running:
            requested.update({name: pod.spec.requests.get(name, 0) for name in (CPU, MEMORY)})
    return ClusterState(
        nodes=len(cache.nodes()),
        price_per_hour=round(price, 6),
        price_per_month=round(price * HOURS_PER_MONTH, 2),
        node_cost_per_hour=round(_sum_node_costs(snapshot, node_cost), 6),
        pods=pods,
        pods_without_node=sum(map(is_active, cache.unbound_pods())),
        cpu_utilization=round(requested[CPU] / (allocatable[CPU] or 1), 4),
        memory_utilization=round(requested[MEMORY] / (allocatable[MEMORY] or 1), 4),
        lower_bound=round(gap.bound.price, 6) if is_bound else None,
        over_bound=round(gap.ratio or 0.0, 4) if is_bound else None,
    )


def _sum_node_costs(snapshot: ClusterSnapshot, setting: float | None) -> float:
    costs = {
        pool.name: get_node_cost(pool, snapshot.instance_types.get(pool.name, ()), setting)
        for pool in snapshot.nodepools
    }
    return sum(costs.get(node.pool, 0.0) for node in snapshot.nodes)


def _summarize_course(
    observer: Observer, played: Played, before: ClusterState, after: ClusterState
) -> Course:
    disrupted = [node for node in observer.nodes.values() if node.disrupted is not None]
    workloads = observer.workloads.values()
    samples = tuple(observer.samples)
    return Course(
        duration=round((observer.last_move - observer.started).total_seconds(), 3),
        at_rest=played.at_rest,
        launched=sum(node.created is not None for node in observer.nodes.values()),
        terminated=sum(node.gone is not None for node in disrupted),
        reasons=dict(sorted(Counter(node.reason for node in disrupted).items())),
        evictions=len(observer.evictions),
        killed=sum(workload.killed for workload in workloads),
        peak_nodes=max(sample.nodes for sample in samples),
        peak_price_per_hour=max(sample.price for sample in samples),
        surge_cost=round(
            _integrate_above(samples, max(before.price_per_hour, after.price_per_hour), played.seconds), 6
        ),
        samples=thin_samples(samples),
    )


def _integrate_above(samples: tuple[Sample, ...], base: float, end: float) -> float:
    """Return the USD spent above a price per hour."""
    ends = [sample.at for sample in samples[1:]] + [end]
    return sum(
        max(0.0, sample.price - base) * (until - sample.at) / 3600
        for sample, until in zip(samples, ends, strict=True)
    )


def _find_kept_nodes(cluster: SimulatedCluster) -> Iterator[KeptNode]:
    """Yield the nodes that are drifted or being deleted and still there, by name."""
    cache, now = cluster.operator.cache, cluster.clock.now()
    prices = {launch.provider_id: launch.price for launch in cluster.ec2.billing.launches}
    for claim in sorted(cache.claims(), key=lambda claim: claim.node_name or claim.name):
        has_drifted = is_true(claim.conditions, DRIFTED)
        if not (claim.deleting or has_drifted):
            continue
        message, blocker = _find_blocker(cache, claim, now)
        yield KeptNode(
            node=claim.node_name or claim.name,
            nodepool=claim.pool,
            price_per_hour=round(prices.get(claim.provider_id, 0.0), 6),
            reason="Deleting" if claim.deleting else DRIFTED,
            message=message,
            blocker=blocker,
        )


def _find_blocker(cache: ClusterCache, claim: NodeClaim, now: datetime) -> tuple[str, str]:
    """Return what keeps a node, and the object to change."""
    pods = [pod for pod in cache.pods_on(claim.node_name) if is_drainable(pod, now)]
    node = cache.node(claim.node_name)
    if node is not None and node.annotations.get(label_keys.DO_NOT_DISRUPT) == "true":
        return f"it has the annotation {label_keys.DO_NOT_DISRUPT}", f"Node {node.name}"
    for pod in pods:
        if is_active(pod) and get_protection(pod, now).active:
            return f"Pod {pod.key} has the annotation {label_keys.DO_NOT_DISRUPT}", f"Pod {pod.key}"
    for pod in pods:
        blocking = get_blocking_pdbs(pod, cache.pdbs_for(pod), now)
        if blocking:
            names = ", ".join(f"{pdb.namespace}/{pdb.name}" for pdb in blocking)
            return f"{names} allows no eviction of Pod {pod.key}", f"PodDisruptionBudget {names}"
    if claim.deleting:
        waiting = [pod.key for pod in pods if pod.deleting]
        return (f"it waits for Pod {waiting[0]} to end" if waiting else "it is still being drained"), ""
    pool = cache.pool(claim.pool)
    if pool is not None and any(budget.nodes.strip("%") == "0" for budget in pool.disruption.budgets):
        return f"a budget of NodePool {pool.name} allows no disruption", f"NodePool {pool.name}"
    return "its pods find no other node, or its turn has not come", ""


def _group_pending(cluster: SimulatedCluster, observer: Observer) -> dict[tuple[Workload, str], list[str]]:
    """Group the pods without a node by workload and message."""
    pending = dict(observer.pending_pods())
    groups: dict[tuple[Workload, str], list[str]] = {}
    for pod, workload in sorted(pending.items()):
        groups.setdefault((workload, _read_condition(cluster, pod)), []).append(pod)
    return groups


def _read_condition(cluster: SimulatedCluster, pod: str) -> str:
    """Return kube-scheduler's message about a pod."""
    namespace, _, name = pod.partition("/")
    obj = cluster.api.get(PODS, name, namespace)
    for condition in get_field(obj, "status", "conditions") or ():
        if condition["type"] == "PodScheduled" and condition.get("message"):
            return str(condition["message"])
    return "it is not scheduled yet"
