"""Tells pools how the launch of one of their claims ended."""

from dovetail.codec.patches.nodepools import pool_status_patch
from dovetail.core.nodeclaim.lifecycle import LAUNCHED
from dovetail.core.nodepool.registration_health import (
    REGISTRATION_HEALTHY,
    Health,
    health,
    with_outcome,
)
from dovetail.core.nodepool.status import pool_stated
from dovetail.model.karpenter.nodeclaim import NodeClaim
from dovetail.model.karpenter.nodepool import NodePool
from dovetail.model.kube.conditions import FALSE, TRUE, is_true, status_of
from dovetail.ports.api_resources import NODE_POOLS
from dovetail.ports.event_loop import Clock
from dovetail.ports.kube_client import Kube
from dovetail.state.cluster.cache import Mirror
from dovetail.state.nodes.launch_outcomes import LaunchOutcomes


class PoolHealth:
    """Keeps the NodeRegistrationHealthy condition of pools; it informs and decides nothing."""

    def __init__(
        self, *, mirror: Mirror, kube: Kube, clock: Clock, outcomes: LaunchOutcomes
    ) -> None:
        self._mirror = mirror
        self._kube = kube
        self._clock = clock
        self._outcomes = outcomes

    async def registered(self, claim: NodeClaim) -> None:
        """Take note of a success."""
        pool = self._pool_of(claim)
        if pool is None:
            return
        if health(with_outcome(self._outcomes.of(pool), True)) is Health.HEALTHY:
            await self._state(pool, TRUE)
        self._outcomes.add(pool, True)

    async def timed_out(self, claim: NodeClaim) -> None:
        """Take note of a claim that took too long."""
        pool = self._pool_of(claim)
        if pool is None:
            return
        unhealthy = health(with_outcome(self._outcomes.of(pool), False)) is Health.UNHEALTHY
        if unhealthy and status_of(pool.conditions, REGISTRATION_HEALTHY) != FALSE:
            await self._state(pool, FALSE, *_why(claim))
        self._outcomes.add(pool, False)

    def _pool_of(self, claim: NodeClaim) -> NodePool | None:
        """Return the pool that made a claim; not one that has only the same name."""
        pool = self._mirror.pool(claim.pool) if claim.pool else None
        if pool is None or all(one.uid != pool.uid for one in claim.owners):
            return None
        return pool

    async def _state(
        self, pool: NodePool, status: str, reason: str = "", message: str = ""
    ) -> None:
        now = self._clock.now()
        after = pool_stated(pool, now, REGISTRATION_HEALTHY, status, reason, message)
        patch = pool_status_patch(pool, after)
        if patch:
            await self._kube.patch(NODE_POOLS, pool.name, patch, subresource="status")


def _why(claim: NodeClaim) -> tuple[str, str]:
    launched = claim.conditions.get(LAUNCHED)
    if launched is None or is_true(claim.conditions, LAUNCHED):
        return "RegistrationFailed", "Failed to register node"
    return launched.reason, launched.message
