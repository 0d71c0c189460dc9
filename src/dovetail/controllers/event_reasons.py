"""Reasons of the Kubernetes Events that controllers publish.

Reasons are Karpenter's where the event is the same.
"""

from datetime import timedelta
from typing import Final

from dovetail.ports.telemetry import EventRate, EventReason

# Provisioning.
NOMINATED: Final = EventReason("Nominated", rate=EventRate(burst=10, per_second=5))
FAILED_SCHEDULING: Final = EventReason(
    "FailedScheduling", is_warning=True, dedupe_timeout=timedelta(minutes=5)
)
NO_COMPATIBLE_INSTANCE_TYPES: Final = EventReason(
    "NoCompatibleInstanceTypes", is_warning=True, dedupe_timeout=timedelta(minutes=1)
)

# NodeClaim lifecycle.
INSUFFICIENT_CAPACITY: Final = EventReason("InsufficientCapacityError", is_warning=True)
BURSTABLE_INSTANCE_TYPE: Final = EventReason("BurstableInstanceType", rate=EventRate(burst=10, per_second=1))
UNREGISTERED_TAINT_MISSING: Final = EventReason("UnregisteredTaintMissing", is_warning=True)
FAILED_CONSISTENCY_CHECK: Final = EventReason("FailedConsistencyCheck", is_warning=True)
TERMINATION_GRACE_PERIOD_EXPIRING: Final = EventReason("TerminationGracePeriodExpiring", is_warning=True)

# Node termination.
FAILED_DRAINING: Final = EventReason("FailedDraining", is_warning=True)
AWAITING_VOLUME_DETACHMENT: Final = EventReason("AwaitingVolumeDetachment")
EVICTED: Final = EventReason("Evicted")
DISRUPTED: Final = EventReason("Disrupted")
"""The pod is deleted, not evicted, because its node's deadline is near."""
NODE_REPAIR_BLOCKED: Final = EventReason(
    "NodeRepairBlocked", is_warning=True, dedupe_timeout=timedelta(minutes=15)
)

# Do-not-disrupt annotations of pods.
INVALID_DO_NOT_DISRUPT_ANNOTATION: Final = EventReason("InvalidDoNotDisruptAnnotation", is_warning=True)
DO_NOT_DISRUPT_UNTIL: Final = EventReason("DoNotDisruptUntil")
DO_NOT_DISRUPT_GRACE_PERIOD_ELAPSED: Final = EventReason("DoNotDisruptGracePeriodElapsed")

# Disruption. Kubernetes keeps Events for an hour; why a node is not consolidated is
# repeated after 45 minutes, so that one Event is always there.
DISRUPTION_BLOCKED: Final = EventReason("DisruptionBlocked")
NODEPOOL_DISRUPTION_BLOCKED: Final = EventReason("DisruptionBlocked", dedupe_timeout=timedelta(minutes=1))
UNCONSOLIDATABLE: Final = EventReason(
    "Unconsolidatable",
    dedupe_timeout=timedelta(minutes=45),
    # A scan of a large cluster finds thousands. The others follow in later scans, before
    # the first ones are repeated.
    rate=EventRate(burst=500, per_second=2),
)
CONSOLIDATION_CANDIDATE: Final = EventReason("ConsolidationCandidate")
CONSOLIDATION_APPROVED: Final = EventReason("ConsolidationApproved")
CONSOLIDATION_REJECTED: Final = EventReason("ConsolidationRejected")
CONSOLIDATION_POLICY_FAILED: Final = EventReason("ConsolidationPolicyFailed", is_warning=True)
"""Not in Karpenter: a policy of ``dovetail run --policy`` failed."""
DISRUPTION_LAUNCHING: Final = EventReason("DisruptionLaunching")
DISRUPTION_WAITING_READINESS: Final = EventReason("DisruptionWaitingReadiness")
DISRUPTION_TERMINATING: Final = EventReason("DisruptionTerminating")

# Interruption.
SPOT_INTERRUPTED: Final = EventReason("SpotInterrupted", is_warning=True)
SPOT_REBALANCE_RECOMMENDATION: Final = EventReason("SpotRebalanceRecommendation")
INSTANCE_UNHEALTHY: Final = EventReason("InstanceUnhealthy", is_warning=True)
INSTANCE_STOPPING: Final = EventReason("InstanceStopping", is_warning=True)
INSTANCE_TERMINATING: Final = EventReason("InstanceTerminating", is_warning=True)
CAPACITY_RESERVATION_INTERRUPTED: Final = EventReason(
    "CapacityReservationInstanceInterrupted", is_warning=True
)
TERMINATING_ON_INTERRUPTION: Final = EventReason("TerminatingOnInterruption", is_warning=True)
ZONAL_SHIFT_ACTIVE: Final = EventReason("ZonalShiftActive", is_warning=True)
ZONAL_SHIFT_CLEARED: Final = EventReason("ZonalShiftCleared")

# NodePools and node classes.
INVALID_DISRUPTION_BUDGET: Final = EventReason("InvalidDisruptionBudget", is_warning=True)
WAITING_ON_NODECLAIM_TERMINATION: Final = EventReason("WaitingOnNodeClaimTermination")


def condition_transition(condition_type: str) -> EventReason:
    """Return the reason of a condition's change: its type, as in Karpenter."""
    return EventReason(condition_type)
