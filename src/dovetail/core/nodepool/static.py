"""Pools with a fixed number of nodes: who is missing, and who is too many."""

from collections.abc import Iterable
from datetime import datetime
from typing import Final

import msgspec

from dovetail.core.disruption.candidates import eviction_cost
from dovetail.core.pod.eligibility import is_active, protection
from dovetail.model.karpenter.nodeclaim import NodeClaim
from dovetail.model.karpenter.nodepool import NodePool
from dovetail.model.kube.conditions import is_true
from dovetail.model.kube.pod import Pod
from dovetail.model.kube.resources import NODES, NOTHING

_LEAVING: Final = "DisruptionReason"


class Standing(msgspec.Struct, frozen=True):
    """The claims of a pool, by how long they will be there."""

    active: tuple[NodeClaim, ...] = ()
    leaving: tuple[NodeClaim, ...] = ()
    """To be replaced: they stay until what replaces them is ready."""
    deleting: tuple[NodeClaim, ...] = ()

    @property
    def total(self) -> int:
        return len(self.active) + len(self.leaving) + len(self.deleting)


def standing(claims: Iterable[NodeClaim]) -> Standing:
    """Sort the claims of a pool."""
    active: list[NodeClaim] = []
    leaving: list[NodeClaim] = []
    deleting: list[NodeClaim] = []
    for one in claims:
        leaves = is_true(one.conditions, _LEAVING)
        (deleting if one.deleting else leaving if leaves else active).append(one)
    return Standing(tuple(active), tuple(leaving), tuple(deleting))


def missing(pool: NodePool, now: Standing) -> int:
    """Tell how many claims a pool lacks; those that are to be replaced are not missing."""
    replicas = pool.replicas or 0
    if len(now.active) + len(now.leaving) >= replicas:
        return 0
    return replicas - len(now.active)


def granted(pool: NodePool, now: Standing, wanted: int) -> int:
    """Tell how many of the wanted nodes ``limits.nodes`` leaves room for."""
    limit = (pool.limits or NOTHING).get(NODES)
    if limit is None:
        return wanted
    return max(0, min(wanted, limit - now.total))


class Tenant(msgspec.Struct, frozen=True):
    """A claim and what runs on its node."""

    claim: NodeClaim
    pods: tuple[Pod, ...] = ()


def surplus(pool: NodePool, tenants: Iterable[Tenant], now: datetime) -> list[NodeClaim]:
    """Choose who goes when a pool has more active claims than it wants.

    First machines that nobody has bought yet, then those that nobody uses, then
    those whose pods cost least to move; pods that want to stay hold on longest.
    """
    ranked = sorted(tenants, key=lambda one: (_rank(one, now), one.claim.name))
    return [one.claim for one in ranked[: max(0, len(ranked) - (pool.replicas or 0))]]


def _rank(one: Tenant, now: datetime) -> tuple[int, float]:
    if not one.claim.provider_id:
        return 0, 0.0
    protected = any(is_active(pod) and protection(pod, now).active for pod in one.pods)
    if not protected and all(pod.of_daemon_set for pod in one.pods):
        return 1, 0.0
    moving = sum(eviction_cost(pod) for pod in one.pods)
    return 3 if protected else 2, moving * _life_left(one.claim, now)


def _life_left(claim: NodeClaim, now: datetime) -> float:
    """Return the share of its life that a claim has before it: 1 where it has no end."""
    if claim.expire_after is None or claim.created is None or not claim.expire_after:
        return 1.0
    left = (claim.created + claim.expire_after - now) / claim.expire_after
    return min(max(left, 0.0), 1.0)
