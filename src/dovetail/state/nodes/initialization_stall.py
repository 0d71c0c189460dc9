"""Nodes that registered long ago and are still not initialized."""

from datetime import datetime, timedelta
from typing import Final

from dovetail.model.karpenter.condition_types import INITIALIZED, REGISTERED
from dovetail.model.karpenter.nodeclaim import NodeClaim
from dovetail.model.kube.conditions import is_true
from dovetail.state.cluster.cache import ClusterCache

STALL_TIMEOUT: Final = timedelta(minutes=15)
"""Equal to the registration timeout; initialization does not take longer than that."""


def is_initialization_stalled(claim: NodeClaim, cache: ClusterCache, now: datetime) -> bool:
    """Return True if pods should no longer wait for a node's initialization.

    Requires that another node of the NodePool was initialized since. Otherwise the
    next node would stall as well, and nodes would be launched without end.
    """
    since = _get_transition_time(claim, REGISTERED)
    if since is None or since + STALL_TIMEOUT > now or is_true(claim.conditions, INITIALIZED):
        return False
    return any(
        (initialized := _get_transition_time(other, INITIALIZED)) is not None and initialized > since
        for other in cache.claims_in(claim.pool)
    )


def _get_transition_time(claim: NodeClaim, kind: str) -> datetime | None:
    return claim.conditions[kind].last_transition_time if is_true(claim.conditions, kind) else None
