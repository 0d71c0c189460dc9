"""What consolidation looks at: one picture of the cluster, and who may be moved."""

from datetime import datetime

import msgspec

from dovetail.core.disruption.candidates import Candidate
from dovetail.model import labels as label_keys
from dovetail.model.karpenter.nodeclaim import NodeClaim
from dovetail.model.karpenter.nodepool import ConsolidationPolicy, NodePool
from dovetail.model.snapshot import ClusterSnapshot


class View(msgspec.Struct, frozen=True, kw_only=True):
    """One instant of the cluster, for decisions about giving nodes back."""

    snapshot: ClusterSnapshot
    candidates: tuple[Candidate, ...] = ()
    """Machines that may be disrupted; their nodes are in the snapshot, by name."""
    closed: frozenset[str] = frozenset()
    """Nodes that pods came to or left just now (``in_window``): they take no running pods."""
    closed_for_long: frozenset[str] = frozenset()
    """Those of them for which it is not worth waiting."""


def window_end(claim: NodeClaim, pool: NodePool) -> datetime | None:
    """Return when enough time has passed since pods came or went for others to fill a node up."""
    after = pool.disruption.consolidate_after
    if not after:
        return None
    initialized = claim.conditions.get("Initialized")
    since = claim.last_pod_event or (initialized.since if initialized is not None else None)
    return None if since is None else since + after


def in_window(claim: NodeClaim, pool: NodePool, now: datetime) -> bool:
    """Tell whether pods came or went too recently for a node to be filled up by others."""
    end = window_end(claim, pool)
    return end is not None and now < end


def unfit(candidate: Candidate) -> str | None:
    """Return why a candidate is nothing for consolidation, whatever it costs."""
    pool, node = candidate.pool, candidate.node
    if pool.replicas is not None:
        return f"NodePool {pool.name!r} is static: it keeps a fixed number of nodes"
    for key in (label_keys.INSTANCE_TYPE, label_keys.CAPACITY_TYPE, label_keys.ZONE):
        if not node.labels.get(key):
            return f"its node has no label {key}, so what it costs is not known"
    if pool.disruption.consolidate_after is None:
        return f"NodePool {pool.name!r} has consolidateAfter: Never"
    if pool.disruption.policy is ConsolidationPolicy.WHEN_EMPTY:
        return f"NodePool {pool.name!r} gives back nodes only when they are empty"
    return None
