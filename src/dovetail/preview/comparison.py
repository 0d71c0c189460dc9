"""Comparison of a play with a change to the play without it."""

from dovetail.preview.observation import Observation
from dovetail.preview.observer import Workload
from dovetail.preview.report import (
    ClusterState,
    MovedPod,
    PodWithoutNode,
    StateDifference,
    WorkloadDisruption,
)


def compare_states(after: ClusterState, without: ClusterState) -> StateDifference:
    """Return the effect of a change."""
    price = round(after.price_per_hour - without.price_per_hour, 6)
    percent = round(100 * price / without.price_per_hour, 2) if without.price_per_hour else None
    return StateDifference(
        nodes=after.nodes - without.nodes,
        price_per_hour=price,
        price_per_month=round(after.price_per_month - without.price_per_month, 2),
        price_percent=percent,
        node_cost_per_hour=round(after.node_cost_per_hour - without.node_cost_per_hour, 6),
        pods=after.pods - without.pods,
        pods_without_node=after.pods_without_node - without.pods_without_node,
        cpu_utilization=round(after.cpu_utilization - without.cpu_utilization, 4),
        memory_utilization=round(after.memory_utilization - without.memory_utilization, 4),
    )


def compare_workloads(changed: Observation, without: Observation) -> tuple[WorkloadDisruption, ...]:
    """Return all workloads that existed before the change; most evictions first.

    Replicas that a change adds need not be available from the start, and those that it
    removes need not stay: the smaller number counts.
    """
    workloads = [
        WorkloadDisruption(
            workload=format_workload(key),
            kind=key[2],
            replicas=min(summary.replicas, summary.final_replicas),
            least_available=summary.least_ready or 0,
            evictions=summary.evictions,
            evictions_without=without.workloads[key].evictions if key in without.workloads else 0,
            killed=summary.killed,
            pending_seconds=round(summary.pending_seconds, 3),
        )
        for key, summary in changed.workloads.items()
        if summary.least_ready is not None or summary.evictions or summary.killed
    ]
    return tuple(
        sorted(workloads, key=lambda entry: (-entry.evictions, -entry.killed, entry.workload, entry.kind))
    )


def compare_pods(changed: Observation, without: Observation) -> tuple[PodWithoutNode, ...]:
    """Return the pods without a node, those that the change causes first."""
    others = {workload for workload, _ in without.pods_without_node}
    entries = [
        PodWithoutNode(
            workload=format_workload(workload),
            pods=len(pods),
            example=pods[0],
            message=message,
            also_without_change=workload in others,
        )
        for (workload, message), pods in changed.pods_without_node.items()
    ]
    return tuple(sorted(entries, key=lambda entry: (entry.also_without_change, -entry.pods, entry.workload)))


def find_most_moved(observation: Observation) -> MovedPod | None:
    """Return the pod that was moved most often."""
    if observation.most_moved is None:
        return None
    pod, workload, moves = observation.most_moved
    return MovedPod(pod=pod, workload=format_workload(workload), moves=moves)


def format_workload(workload: Workload) -> str:
    """Return ``namespace/name``."""
    return f"{workload[0]}/{workload[1]}"
