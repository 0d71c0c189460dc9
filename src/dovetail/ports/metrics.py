"""Metrics: typed definitions of every metric, each with its labels.

Names and labels are Karpenter's where the metric is the same, so that
dashboards and alerts keep working. Metrics of Dovetail alone begin with
``dovetail_``. Controllers and adapters report them through
``ports.telemetry.Metrics``; a missing or unknown label is a type error, and
raises ``TypeError`` at run time.
"""

from typing import Any, Final

import msgspec

from dovetail.ports.metric_types import SHORT_SECONDS, Counter, Gauge, Histogram, Metric


class NoLabels(msgspec.Struct, frozen=True):
    """A metric without labels."""


class NodeClaimCreatedLabels(msgspec.Struct, frozen=True, kw_only=True):
    """Labels of created NodeClaims."""

    reason: str
    nodepool: str
    min_values_relaxed: str
    """``true`` or ``false``."""


class NodeClaimTerminatedLabels(msgspec.Struct, frozen=True, kw_only=True):
    """Labels of terminated NodeClaims."""

    nodepool: str
    capacity_type: str
    zone: str


class DisruptionLabels(msgspec.Struct, frozen=True, kw_only=True):
    """Labels of disrupted NodeClaims and pods."""

    reason: str
    nodepool: str
    capacity_type: str
    consolidation_policy: str
    """In snake case; empty unless consolidation is the cause."""
    termination_mode: str
    """``graceful``, ``eventual`` or ``forceful``."""


class UnhealthyLabels(msgspec.Struct, frozen=True, kw_only=True):
    """Labels of NodeClaims deleted by node repair."""

    condition: str
    nodepool: str
    capacity_type: str
    image_id: str


class NodePoolLabels(msgspec.Struct, frozen=True, kw_only=True):
    """A NodePool."""

    nodepool: str


class NodeLabels(msgspec.Struct, frozen=True, kw_only=True):
    """NodePool and zone of a node."""

    nodepool: str
    zone: str


class ResourceLabels(msgspec.Struct, frozen=True, kw_only=True):
    """A resource of a NodePool."""

    nodepool: str
    resource_type: str


class BudgetLabels(msgspec.Struct, frozen=True, kw_only=True):
    """A NodePool and a disruption reason."""

    nodepool: str
    reason: str


class ReasonLabels(msgspec.Struct, frozen=True, kw_only=True):
    """A reason."""

    reason: str


class PolicyLabels(msgspec.Struct, frozen=True, kw_only=True):
    """A consolidation policy, with its options."""

    policy: str


class CodeLabels(msgspec.Struct, frozen=True, kw_only=True):
    """Response of the API server."""

    code: str
    """HTTP status code."""


class ControllerLabels(msgspec.Struct, frozen=True, kw_only=True):
    """A controller."""

    controller: str


class BoundLabels(msgspec.Struct, frozen=True, kw_only=True):
    """A lower bound."""

    bound: str
    """The relaxation that proves it: ``fluid``."""


class NameLabels(msgspec.Struct, frozen=True, kw_only=True):
    """A work queue or a lease."""

    name: str


class DecisionLabels(msgspec.Struct, frozen=True, kw_only=True):
    """Labels of disruption commands."""

    decision: str
    """``delete`` or ``replace``."""
    reason: str
    consolidation_type: str


class NodePoolDecisionLabels(msgspec.Struct, frozen=True, kw_only=True):
    """Labels of disruption commands, by NodePool."""

    decision: str
    reason: str
    consolidation_type: str
    nodepool: str


class EvaluationLabels(msgspec.Struct, frozen=True, kw_only=True):
    """A disruption method."""

    reason: str
    consolidation_type: str


class ConsolidationLabels(msgspec.Struct, frozen=True, kw_only=True):
    """A type of consolidation: ``empty``, ``single`` or ``multi``."""

    consolidation_type: str


class MessageLabels(msgspec.Struct, frozen=True, kw_only=True):
    """Kind of an interruption message."""

    message_type: str


class CategoryLabels(msgspec.Struct, frozen=True, kw_only=True):
    """Kind of a failed status check."""

    category: str


class MethodLabels(msgspec.Struct, frozen=True, kw_only=True):
    """A method of a cloud provider."""

    method: str
    provider: str


class MethodErrorLabels(msgspec.Struct, frozen=True, kw_only=True):
    """A failed method of a cloud provider."""

    method: str
    provider: str
    error: str


class OfferingLabels(msgspec.Struct, frozen=True, kw_only=True):
    """An offering that could not be launched."""

    zone: str
    capacity_type: str
    reason: str


class BatcherLabels(msgspec.Struct, frozen=True, kw_only=True):
    """A request batcher."""

    batcher: str


class OperationLabels(msgspec.Struct, frozen=True, kw_only=True):
    """An AWS API operation."""

    operation: str


class OperationErrorLabels(msgspec.Struct, frozen=True, kw_only=True):
    """A failed AWS API operation."""

    operation: str
    code: str


class TransitionLabels(msgspec.Struct, frozen=True, kw_only=True):
    """A condition with its new status."""

    type: str
    status: str
    reason: str


_TERMINATION_SECONDS: Final = tuple(2.0**power for power in range(12))
_HOUR: Final = 3600.0
_DAY: Final = 24 * _HOUR
_LIFETIME_SECONDS: Final = (
    *(15 * 60, 30 * 60, 45 * 60, _HOUR, 2 * _HOUR, 4 * _HOUR, 6 * _HOUR, 8 * _HOUR, 10 * _HOUR),
    *(12 * _HOUR, 16 * _HOUR, 20 * _HOUR, _DAY, 2 * _DAY, 3 * _DAY, 5 * _DAY, 7 * _DAY),
    *(10 * _DAY, 15 * _DAY, 20 * _DAY, 25 * _DAY, 30 * _DAY),
)
_BATCH_SIZES: Final = (*(1.0, 2, 4, 5, 10, 15, 20, 25, 30, 40, 50, 75, 100, 125, 150, 175, 200, 225, 250),)
_BATCH_SECONDS: Final = (*(0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1, 1.25, 1.5, 2),)
_MESSAGE_SECONDS: Final = (*SHORT_SECONDS, 90.0, 120, 180, 300, 600)
"""A Spot instance is gone two minutes after its message."""

# NodeClaims.
NODECLAIMS_CREATED: Final = Counter(
    "karpenter_nodeclaims_created_total", NodeClaimCreatedLabels, "NodeClaims created."
)
NODECLAIMS_TERMINATED: Final = Counter(
    "karpenter_nodeclaims_terminated_total",
    NodeClaimTerminatedLabels,
    "NodeClaims deleted after their instance terminated.",
)
NODECLAIMS_DISRUPTED: Final = Counter(
    "karpenter_nodeclaims_disrupted_total", DisruptionLabels, "NodeClaims deleted by a controller, by reason."
)
NODECLAIMS_UNHEALTHY_DISRUPTED: Final = Counter(
    "karpenter_nodeclaims_unhealthy_disrupted_total",
    UnhealthyLabels,
    "NodeClaims deleted because their node was unhealthy.",
)
NODECLAIMS_TERMINATION_DURATION: Final = Histogram(
    "karpenter_nodeclaims_termination_duration_seconds",
    NodePoolLabels,
    "Time from the deletion of a NodeClaim until it is gone.",
    _TERMINATION_SECONDS,
)
NODECLAIMS_INSTANCE_TERMINATION_DURATION: Final = Histogram(
    "karpenter_nodeclaims_instance_termination_duration_seconds",
    NodePoolLabels,
    "Time from the request to terminate an instance until it is gone.",
    _TERMINATION_SECONDS[:-1],
)
NODECLAIM_CONDITION_TRANSITIONS: Final = Counter(
    "operator_nodeclaim_status_condition_transitions_total",
    TransitionLabels,
    "Status changes of NodeClaim conditions.",
)

# Nodes.
NODES_CREATED: Final = Counter(
    "karpenter_nodes_created_total", NodeLabels, "Nodes registered for a NodeClaim."
)
NODES_TERMINATED: Final = Counter("karpenter_nodes_terminated_total", NodeLabels, "Nodes terminated.")
NODES_DRAINED: Final = Counter("karpenter_nodes_drained_total", NodePoolLabels, "Nodes drained.")
NODES_TERMINATION_DURATION: Final = Histogram(
    "karpenter_nodes_termination_duration_seconds",
    NodePoolLabels,
    "Time from the deletion of a Node until it is gone.",
    _TERMINATION_SECONDS,
)
NODES_LIFETIME_DURATION: Final = Histogram(
    "karpenter_nodes_lifetime_duration_seconds",
    NodePoolLabels,
    "Age of nodes when they terminate.",
    _LIFETIME_SECONDS,
)

# NodePools.
NODEPOOLS_USAGE: Final = Gauge(
    "karpenter_nodepools_usage", ResourceLabels, "Resources of a NodePool's nodes, in cores, bytes or units."
)
NODEPOOLS_ALLOWED_DISRUPTIONS: Final = Gauge(
    "karpenter_nodepools_allowed_disruptions",
    BudgetLabels,
    "Nodes that the NodePool's budgets allow to be disrupted now.",
)
NODEPOOLS_NODES_CONSUMING_BUDGETS: Final = Gauge(
    "karpenter_nodepools_nodes_consuming_budgets",
    BudgetLabels,
    "Nodes that count against the NodePool's budgets.",
)
NODEPOOL_CONDITION_TRANSITIONS: Final = Counter(
    "operator_nodepool_status_condition_transitions_total",
    TransitionLabels,
    "Status changes of NodePool conditions.",
)

# Pods.
PODS_EVICTION_REQUESTS: Final = Counter(
    "karpenter_pods_eviction_requests_total", CodeLabels, "Eviction requests, by response code."
)
PODS_DRAINED: Final = Counter(
    "karpenter_pods_drained_total", ReasonLabels, "Pods evicted or deleted by drains."
)
PODS_DISRUPTION_INITIATED: Final = Counter(
    "karpenter_pods_disruption_initiated_total",
    DisruptionLabels,
    "Reschedulable pods on the nodes of deleted NodeClaims.",
)
PODS_SCHEDULING_DECISION_DURATION: Final = Histogram(
    "karpenter_pods_scheduling_decision_duration_seconds",
    NoLabels,
    "Time from the first sight of a pending pod to its first scheduling decision.",
)

# Scheduling.
SCHEDULER_SCHEDULING_DURATION: Final = Histogram(
    "karpenter_scheduler_scheduling_duration_seconds",
    ControllerLabels,
    "Duration of one scheduling simulation for all pending pods.",
)
SCHEDULER_QUEUE_DEPTH: Final = Gauge(
    "karpenter_scheduler_queue_depth", ControllerLabels, "Pending pods in the latest scheduling simulation."
)
SCHEDULER_UNSCHEDULABLE_PODS: Final = Gauge(
    "karpenter_scheduler_unschedulable_pods_count",
    ControllerLabels,
    "Pods that the latest scheduling simulation could not place.",
)
SCHEDULER_POSTPONED_PODS: Final = Gauge(
    "dovetail_scheduler_postponed_pods_count",
    ControllerLabels,
    "Pods that the latest scheduling simulation left to the next one, because its time was used up.",
)
SCHEDULER_COMPLEX_PODS: Final = Gauge(
    "dovetail_scheduler_complex_pods_count",
    ControllerLabels,
    "Pending pods with complex specs, which are planned after all others.",
)

# Cost.
FLEET_COST_OVER_BOUND: Final = Gauge(
    "dovetail_fleet_cost_over_bound",
    BoundLabels,
    "Price of the nodes of all NodePools, divided by a lower bound for their pods; NaN without nodes.",
)

# Voluntary disruption.
DISRUPTION_DECISIONS: Final = Counter(
    "karpenter_voluntary_disruption_decisions_total", DecisionLabels, "Disruption commands started."
)
DISRUPTION_DECISIONS_BY_NODEPOOL: Final = Counter(
    "karpenter_voluntary_disruption_decisions_by_nodepool_total",
    NodePoolDecisionLabels,
    "Disruption commands started, by NodePool.",
)
DISRUPTION_EVALUATION_DURATION: Final = Histogram(
    "karpenter_voluntary_disruption_decision_evaluation_duration_seconds",
    EvaluationLabels,
    "Duration of one evaluation by a disruption method.",
)
DISRUPTION_ELIGIBLE_NODES: Final = Gauge(
    "karpenter_voluntary_disruption_eligible_nodes",
    ReasonLabels,
    "Disruption candidates of the latest evaluation.",
)
DISRUPTION_FAILED_VALIDATIONS: Final = Counter(
    "karpenter_voluntary_disruption_failed_validations_total",
    ConsolidationLabels,
    "Candidates that failed validation before their command started.",
)
CONSOLIDATION_POLICY_FAILURES: Final = Counter(
    "dovetail_consolidation_policy_failures_total",
    PolicyLabels,
    "Calls of the consolidation policy that failed, so that every move was taken.",
)
CONSOLIDATION_POLICY_ENABLED: Final = Gauge(
    "dovetail_consolidation_policy_enabled",
    PolicyLabels,
    "1 if the consolidation policy is in use, 0 if it is switched off after failures.",
)
DISRUPTION_QUEUE_FAILURES: Final = Counter(
    "karpenter_voluntary_disruption_queue_failures_total",
    DecisionLabels,
    "Replacements that failed, so that the command was rolled back.",
)
EXPECTED_SAVINGS: Final = Gauge(
    "dovetail_disruption_expected_savings", ReasonLabels, "Amount if each command had saved what it expected."
)
REALIZED_SAVINGS: Final = Gauge(
    "dovetail_disruption_realized_savings", ReasonLabels, "Amount that disruption commands have saved."
)

# Interruption.
INTERRUPTION_RECEIVED_MESSAGES: Final = Counter(
    "karpenter_interruption_received_messages_total",
    MessageLabels,
    "Messages received from the interruption queue.",
)
INTERRUPTION_DELETED_MESSAGES: Final = Counter(
    "karpenter_interruption_deleted_messages_total",
    NoLabels,
    "Messages handled and deleted from the interruption queue.",
)
INTERRUPTION_MESSAGE_QUEUE_DURATION: Final = Histogram(
    "karpenter_interruption_message_queue_duration_seconds",
    NoLabels,
    "Time from the sending of a message until it is handled.",
    _MESSAGE_SECONDS,
)
INTERRUPTION_INSTANCE_STATUS_UNHEALTHY: Final = Counter(
    "karpenter_interruption_instance_status_unhealthy_total",
    CategoryLabels,
    "Instances that fail an EC2 status check.",
)

# Cloud provider.
CLOUDPROVIDER_DURATION: Final = Histogram(
    "karpenter_cloudprovider_duration_seconds",
    MethodLabels,
    "Duration of cloud provider calls, retries and batching included.",
)
CLOUDPROVIDER_ERRORS: Final = Counter(
    "karpenter_cloudprovider_errors_total", MethodErrorLabels, "Failed cloud provider calls."
)
CLOUDPROVIDER_LAUNCH_FAILURES: Final = Counter(
    "karpenter_cloudprovider_instance_launch_failures_total",
    OfferingLabels,
    "Offerings that EC2 could not launch.",
)
CLOUDPROVIDER_TERMINATION_FAILURES: Final = Counter(
    "karpenter_cloudprovider_instance_termination_failures_total",
    NoLabels,
    "Instances that EC2 failed to terminate.",
)
CLOUDPROVIDER_BATCH_SIZE: Final = Histogram(
    "karpenter_cloudprovider_batcher_batch_size",
    BatcherLabels,
    "Requests merged into one API call.",
    _BATCH_SIZES,
)
CLOUDPROVIDER_BATCH_DURATION: Final = Histogram(
    "karpenter_cloudprovider_batcher_batch_time_seconds",
    BatcherLabels,
    "Duration of the batch window.",
    _BATCH_SECONDS,
)
AWS_REQUEST_DURATION: Final = Histogram(
    "dovetail_aws_request_duration_seconds", OperationLabels, "Duration of single AWS requests."
)
AWS_REQUEST_ERRORS: Final = Counter(
    "dovetail_aws_request_errors_total",
    OperationErrorLabels,
    "AWS requests that failed, those retried included.",
)

# Controller manager.
RECONCILE: Final = Counter(
    "controller_runtime_reconcile_total", ControllerLabels, "Reconciles, by controller."
)
RECONCILE_ERRORS: Final = Counter(
    "controller_runtime_reconcile_errors_total", ControllerLabels, "Reconciles that failed and are retried."
)
RECONCILE_DURATION: Final = Histogram(
    "controller_runtime_reconcile_time_seconds", ControllerLabels, "Duration of reconciles."
)
WORKQUEUE_DEPTH: Final = Gauge("workqueue_depth", NameLabels, "Keys that are due, by controller.")
ACTIVE_WORKERS: Final = Gauge(
    "controller_runtime_active_workers", ControllerLabels, "Running reconciles, by controller."
)
LEADER_STATUS: Final = Gauge("leader_election_master_status", NameLabels, "1 if this replica is the leader.")

METRICS: Final[tuple[Metric[Any], ...]] = tuple(
    value for value in list(globals().values()) if isinstance(value, Metric)
)
"""All of the above, in their order."""
