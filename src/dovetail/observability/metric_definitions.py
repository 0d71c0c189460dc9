"""Every metric that is told, in one list: its kind, its labels, what it means.

Names and labels are Karpenter's where the thing is the same, so that dashboards and
alerts go on working; what is ours alone is named ``dovetail_…``.
"""

from enum import StrEnum
from typing import Final

import msgspec


class Kind(StrEnum):
    """What Prometheus makes of a metric."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


class Metric(msgspec.Struct, frozen=True):
    """One metric, before anything was counted."""

    name: str
    kind: Kind
    labels: tuple[str, ...]
    help: str
    buckets: tuple[float, ...] = ()


_SHORT: Final = (
    *(0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7, 0.8),
    *(0.9, 1.0, 1.25, 1.5, 1.75, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5, 6, 7, 8, 9, 10, 15, 20, 25),
    *(30, 40, 50, 60),
)
"""Seconds of things that ought to be quick."""
_ENDINGS: Final = tuple(2.0**power for power in range(12))
_HOUR: Final = 3600.0
_DAY: Final = 24 * _HOUR
_LIFETIMES: Final = (
    *(15 * 60, 30 * 60, 45 * 60, _HOUR, 2 * _HOUR, 4 * _HOUR, 6 * _HOUR, 8 * _HOUR, 10 * _HOUR),
    *(12 * _HOUR, 16 * _HOUR, 20 * _HOUR, _DAY, 2 * _DAY, 3 * _DAY, 5 * _DAY, 7 * _DAY),
    *(10 * _DAY, 15 * _DAY, 20 * _DAY, 25 * _DAY, 30 * _DAY),
)
_SIZES: Final = (1.0, 2, 4, 5, 10, 15, 20, 25, 30, 40, 50, 75, 100, 125, 150, 175, 200, 225, 250)
_WINDOWS: Final = (0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1, 1.25, 1.5, 2)

_DISRUPTED: Final = (
    *("reason", "nodepool", "capacity_type"),
    *("consolidation_policy", "termination_mode"),
)
_DECIDED: Final = ("decision", "reason", "consolidation_type")
_TRANSITION: Final = ("type", "status", "reason")


def _counter(name: str, labels: tuple[str, ...], told: str) -> Metric:
    return Metric(name, Kind.COUNTER, labels, told)


def _gauge(name: str, labels: tuple[str, ...], told: str) -> Metric:
    return Metric(name, Kind.GAUGE, labels, told)


def _histogram(
    name: str, labels: tuple[str, ...], told: str, buckets: tuple[float, ...] = _SHORT
) -> Metric:
    return Metric(name, Kind.HISTOGRAM, labels, told, buckets)


METRICS: Final = (
    # Claims.
    _counter(
        "karpenter_nodeclaims_created_total",
        ("reason", "nodepool", "min_values_relaxed"),
        "NodeClaims created.",
    ),
    _counter(
        "karpenter_nodeclaims_terminated_total",
        ("nodepool", "capacity_type", "zone"),
        "NodeClaims that are gone, and their machines with them.",
    ),
    _counter(
        "karpenter_nodeclaims_disrupted_total",
        _DISRUPTED,
        "NodeClaims that were made to go, and why.",
    ),
    _counter(
        "karpenter_nodeclaims_unhealthy_disrupted_total",
        ("condition", "nodepool", "capacity_type", "image_id"),
        "NodeClaims that were made to go because their nodes were ill.",
    ),
    _histogram(
        "karpenter_nodeclaims_termination_duration_seconds",
        ("nodepool",),
        "From the deletion of a NodeClaim to its end.",
        _ENDINGS,
    ),
    _histogram(
        "karpenter_nodeclaims_instance_termination_duration_seconds",
        ("nodepool",),
        "From the order to terminate a machine to its end.",
        _ENDINGS[:-1],
    ),
    # Nodes.
    _counter(
        "karpenter_nodes_created_total", ("nodepool", "zone"), "Nodes that joined for a NodeClaim."
    ),
    _counter("karpenter_nodes_terminated_total", ("nodepool", "zone"), "Nodes that are gone."),
    _counter("karpenter_nodes_drained_total", ("nodepool",), "Nodes that pods have left."),
    _histogram(
        "karpenter_nodes_termination_duration_seconds",
        ("nodepool",),
        "From the deletion of a node to its end.",
        _ENDINGS,
    ),
    _histogram(
        "karpenter_nodes_lifetime_duration_seconds",
        ("nodepool",),
        "How old nodes became.",
        _LIFETIMES,
    ),
    # NodePools.
    _gauge(
        "karpenter_nodepools_usage",
        ("nodepool", "resource_type"),
        "What a NodePool's nodes have, in cores, bytes or pieces.",
    ),
    _gauge(
        "karpenter_nodepools_allowed_disruptions",
        ("nodepool", "reason"),
        "How many nodes the NodePool's budgets let go now.",
    ),
    _gauge(
        "karpenter_nodepools_nodes_consuming_budgets",
        ("nodepool", "reason"),
        "Nodes that count against the NodePool's budgets.",
    ),
    # Pods.
    _counter(
        "karpenter_pods_eviction_requests_total", ("code",), "Evictions asked for, by answer."
    ),
    _counter("karpenter_pods_drained_total", ("reason",), "Pods evicted from nodes that go."),
    _counter(
        "karpenter_pods_disruption_initiated_total",
        _DISRUPTED,
        "Pods on nodes that were made to go, and need another.",
    ),
    _histogram(
        "karpenter_pods_scheduling_decision_duration_seconds",
        (),
        "From the first sight of a waiting pod to the first decision on it.",
    ),
    # Planning.
    _histogram(
        "karpenter_scheduler_scheduling_duration_seconds",
        ("controller",),
        "How long a plan for all waiting pods took.",
    ),
    _gauge(
        "karpenter_scheduler_queue_depth",
        ("controller",),
        "Pods that the latest plan was made for.",
    ),
    _gauge(
        "karpenter_scheduler_unschedulable_pods_count",
        ("controller",),
        "Pods for which the latest plan found no place.",
    ),
    # Nodes given back or replaced on our own account.
    _counter(
        "karpenter_voluntary_disruption_decisions_total", _DECIDED, "Decisions to disrupt nodes."
    ),
    _counter(
        "karpenter_voluntary_disruption_decisions_by_nodepool_total",
        (*_DECIDED, "nodepool"),
        "Decisions to disrupt nodes, by NodePool.",
    ),
    _histogram(
        "karpenter_voluntary_disruption_decision_evaluation_duration_seconds",
        ("reason", "consolidation_type"),
        "How long it took to look for nodes to disrupt.",
    ),
    _gauge(
        "karpenter_voluntary_disruption_eligible_nodes",
        ("reason",),
        "Nodes that might be disrupted.",
    ),
    _counter(
        "karpenter_voluntary_disruption_failed_validations_total",
        ("consolidation_type",),
        "Nodes that a second look spared.",
    ),
    _counter(
        "karpenter_voluntary_disruption_queue_failures_total",
        _DECIDED,
        "Decisions that could not be carried out.",
    ),
    # AWS's warnings.
    _counter(
        "karpenter_interruption_received_messages_total", ("message_type",), "Warnings received."
    ),
    _counter("karpenter_interruption_deleted_messages_total", (), "Warnings dealt with."),
    _histogram(
        "karpenter_interruption_message_queue_duration_seconds",
        (),
        "From the sending of a warning to its being dealt with.",
    ),
    _counter(
        "karpenter_interruption_instance_status_unhealthy_total",
        ("category",),
        "Machines that fail the cloud's own checks.",
    ),
    # The cloud.
    _histogram(
        "karpenter_cloudprovider_duration_seconds",
        ("method", "provider"),
        "How long the cloud took for what controllers asked of it, tries and waits included.",
    ),
    _counter(
        "karpenter_cloudprovider_errors_total",
        ("method", "provider", "error"),
        "What controllers asked of the cloud in vain.",
    ),
    _counter(
        "karpenter_cloudprovider_instance_launch_failures_total",
        ("zone", "capacity_type", "reason"),
        "Offerings that EC2 did not sell when asked.",
    ),
    _counter(
        "karpenter_cloudprovider_instance_termination_failures_total",
        (),
        "Machines that EC2 did not terminate when asked.",
    ),
    _histogram(
        "karpenter_cloudprovider_batcher_batch_size",
        ("batcher",),
        "How many shared one call.",
        _SIZES,
    ),
    _histogram(
        "karpenter_cloudprovider_batcher_batch_time_seconds",
        ("batcher",),
        "How long the first waited for company.",
        _WINDOWS,
    ),
    _histogram(
        "dovetail_aws_request_duration_seconds",
        ("operation",),
        "How long AWS took for single requests.",
    ),
    _counter(
        "dovetail_aws_request_errors_total",
        ("operation", "code"),
        "Requests that AWS refused or did not answer; those tried again included.",
    ),
    # Controllers.
    _counter("controller_runtime_reconcile_total", ("controller",), "Looks that controllers took."),
    _counter(
        "controller_runtime_reconcile_errors_total",
        ("controller",),
        "Looks that ended with an error, and are repeated.",
    ),
    _gauge("workqueue_depth", ("name",), "Looks that are due, by controller."),
    _gauge("controller_runtime_active_workers", ("controller",), "Looks under way."),
    _gauge("leader_election_master_status", ("name",), "1: this replica leads."),
    _histogram(
        "controller_runtime_reconcile_time_seconds", ("controller",), "How long a look took."
    ),
    _counter(
        "operator_nodeclaim_status_condition_transitions_total",
        _TRANSITION,
        "Changes of NodeClaims' conditions.",
    ),
    _counter(
        "operator_nodepool_status_condition_transitions_total",
        _TRANSITION,
        "Changes of NodePools' conditions.",
    ),
)
