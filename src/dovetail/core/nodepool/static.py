"""Static NodePools: number of missing NodeClaims, and surplus ones to delete."""

from collections.abc import Iterable
from datetime import datetime

import msgspec

from dovetail.core.disruption.candidates import eviction_cost
from dovetail.core.pod.eligibility import get_protection, is_active
from dovetail.model.karpenter.condition_types import DISRUPTION_REASON
from dovetail.model.karpenter.nodeclaim import NodeClaim
from dovetail.model.karpenter.nodepool import NodePool
from dovetail.model.kube.conditions import is_true
from dovetail.model.kube.pod import Pod
from dovetail.model.kube.resources import NO_RESOURCES, NODES


class StaticPoolClaims(msgspec.Struct, frozen=True):
    """NodeClaims of a NodePool by state."""

    active: tuple[NodeClaim, ...] = ()
    disrupting: tuple[NodeClaim, ...] = ()
    """Kept until their replacement is initialized."""
    deleting: tuple[NodeClaim, ...] = ()

    @property
    def total(self) -> int:
        return len(self.active) + len(self.disrupting) + len(self.deleting)


def group_claims(claims: Iterable[NodeClaim]) -> StaticPoolClaims:
    """Group the NodeClaims of a NodePool by state."""
    active: list[NodeClaim] = []
    leaving: list[NodeClaim] = []
    deleting: list[NodeClaim] = []
    for claim in claims:
        leaves = is_true(claim.conditions, DISRUPTION_REASON)
        (deleting if claim.deleting else leaving if leaves else active).append(claim)
    return StaticPoolClaims(tuple(active), tuple(leaving), tuple(deleting))


def count_missing(pool: NodePool, claims: StaticPoolClaims) -> int:
    """Return the number of missing NodeClaims; those being replaced are not missing."""
    replicas = pool.replicas or 0
    if len(claims.active) + len(claims.disrupting) >= replicas:
        return 0
    return replicas - len(claims.active)


def limit_to_headroom(pool: NodePool, claims: StaticPoolClaims, count: int) -> int:
    """Return ``count``, reduced to what ``limits.nodes`` allows."""
    limit = (pool.limits or NO_RESOURCES).get(NODES)
    if limit is None:
        return count
    return max(0, min(count, limit - claims.total))


class ClaimPods(msgspec.Struct, frozen=True):
    """A NodeClaim and the pods on its node."""

    claim: NodeClaim
    pods: tuple[Pod, ...] = ()


def select_surplus(pool: NodePool, claims: Iterable[ClaimPods], now: datetime) -> list[NodeClaim]:
    """Select NodeClaims to delete if there are more active ones than replicas.

    Order: not launched, empty, lowest disruption cost, with protected pods.
    """
    ranked = sorted(claims, key=lambda entry: (_get_deletion_rank(entry, now), entry.claim.name))
    return [entry.claim for entry in ranked[: max(0, len(ranked) - (pool.replicas or 0))]]


def _get_deletion_rank(entry: ClaimPods, now: datetime) -> tuple[int, float]:
    if not entry.claim.provider_id:
        return 0, 0.0
    is_protected = any(is_active(pod) and get_protection(pod, now).active for pod in entry.pods)
    if not is_protected and all(pod.is_owned_by_daemon_set for pod in entry.pods):
        return 1, 0.0
    cost = sum(eviction_cost(pod) for pod in entry.pods)
    return 3 if is_protected else 2, cost * _get_remaining_lifetime(entry.claim, now)


def _get_remaining_lifetime(claim: NodeClaim, now: datetime) -> float:
    """Return the remaining share of a NodeClaim's lifetime; 1 without expiration."""
    if claim.expire_after is None or claim.created is None or not claim.expire_after:
        return 1.0
    share = (claim.created + claim.expire_after - now) / claim.expire_after
    return min(max(share, 0.0), 1.0)
