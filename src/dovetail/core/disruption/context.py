"""Disruption context: one snapshot of the cluster with its candidates."""

from datetime import datetime

import msgspec

from dovetail.core.disruption.candidates import Candidate
from dovetail.model import labels as label_keys
from dovetail.model.karpenter.condition_types import INITIALIZED
from dovetail.model.karpenter.nodeclaim import NodeClaim
from dovetail.model.karpenter.nodepool import ConsolidationPolicy, NodePool
from dovetail.model.snapshot import ClusterSnapshot


class DisruptionContext(msgspec.Struct, frozen=True, kw_only=True):
    """The cluster at one instant, as input of drift and consolidation."""

    snapshot: ClusterSnapshot
    candidates: tuple[Candidate, ...] = ()
    """Their nodes are in the snapshot, by name."""
    excluded_targets: frozenset[str] = frozenset()
    """Nodes that receive no rescheduled pods, such as those with a recent pod event."""
    long_excluded_targets: frozenset[str] = frozenset()
    """The subset for which waiting is not worth it."""


def get_consolidate_after_end(claim: NodeClaim, pool: NodePool) -> datetime | None:
    """Return when ``consolidateAfter`` has passed since the last pod event.

    Counts from initialization if there was no pod event. None: there is no such
    time, so the node can receive pods of other nodes.
    """
    consolidate_after = pool.disruption.consolidate_after
    if not consolidate_after:
        return None
    initialized = claim.conditions.get(INITIALIZED)
    since = claim.last_pod_event or (initialized.last_transition_time if initialized is not None else None)
    return None if since is None else since + consolidate_after


def is_within_consolidate_after(claim: NodeClaim, pool: NodePool, now: datetime) -> bool:
    """Return True if the last pod event is too recent to move other pods to the node."""
    end = get_consolidate_after_end(claim, pool)
    return end is not None and now < end


def get_unconsolidatable_reason(candidate: Candidate) -> str | None:
    """Return why a candidate cannot be consolidated, whatever it costs; None: it can."""
    pool, node = candidate.pool, candidate.node
    if pool.replicas is not None:
        return f"NodePool {pool.name!r} is static: it keeps a fixed number of nodes"
    for key in (label_keys.INSTANCE_TYPE, label_keys.CAPACITY_TYPE, label_keys.ZONE):
        if not node.labels.get(key):
            return f"its node has no label {key}, so its offering is unknown"
    if pool.disruption.consolidate_after is None:
        return f"NodePool {pool.name!r} has consolidateAfter: Never"
    if pool.disruption.policy is ConsolidationPolicy.WHEN_EMPTY:
        return f"NodePool {pool.name!r} has consolidationPolicy: WhenEmpty"
    return None
