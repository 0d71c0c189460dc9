"""Registration health: whether nodes of a NodePool register after their launch.

The NodeRegistrationHealthy condition informs users; nothing depends on it.
"""

import msgspec

from dovetail.controllers.context import ControllerBase, ControllerContext
from dovetail.controllers.nodepool.readiness import enqueue_pools_of_class
from dovetail.controllers.patches import write_pool_status
from dovetail.controllers.runtime.manager import Controller, enqueue_object
from dovetail.core.nodepool.registration_health import Health, add_outcome, get_health
from dovetail.core.nodepool.status import set_nodepool_condition
from dovetail.model.karpenter.condition_types import LAUNCHED, NODE_REGISTRATION_HEALTHY
from dovetail.model.karpenter.nodeclaim import NodeClaim
from dovetail.model.karpenter.nodepool import NodePool
from dovetail.model.kube.conditions import FALSE, TRUE, UNKNOWN, condition_status, is_true
from dovetail.ports.api_resources import EC2_NODE_CLASSES, NODE_POOLS


class RegistrationOutcomes(ControllerBase):
    """Records whether NodeClaims are registered, and sets the condition accordingly."""

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._launch_outcomes = context.launch_outcomes

    async def record_success(self, claim: NodeClaim) -> None:
        """Record that a NodeClaim is registered."""
        pool = self._get_owner(claim)
        if pool is None:
            return
        if get_health(add_outcome(self._launch_outcomes.get(pool), True)) is Health.HEALTHY:
            await self._set_condition(pool, TRUE)
        self._launch_outcomes.record(pool, True)

    async def record_timeout(self, claim: NodeClaim) -> None:
        """Record that a NodeClaim was not launched or registered in time."""
        pool = self._get_owner(claim)
        if pool is None:
            return
        unhealthy = get_health(add_outcome(self._launch_outcomes.get(pool), False)) is Health.UNHEALTHY
        if unhealthy and condition_status(pool.conditions, NODE_REGISTRATION_HEALTHY) != FALSE:
            launched = claim.conditions.get(LAUNCHED)
            reason, message = "RegistrationFailed", "Failed to register node"
            if launched is not None and not is_true(claim.conditions, LAUNCHED):
                reason, message = launched.reason, launched.message
            await self._set_condition(pool, FALSE, reason, message)
        self._launch_outcomes.record(pool, False)

    def _get_owner(self, claim: NodeClaim) -> NodePool | None:
        """Return the NodePool that owns a NodeClaim; not a new one with the same name."""
        pool = self._cache.pool(claim.pool) if claim.pool else None
        if pool is None or all(owner.uid != pool.uid for owner in claim.owner_references):
            return None
        return pool

    async def _set_condition(self, pool: NodePool, status: str, reason: str = "", message: str = "") -> None:
        now = self._loop.now()
        after = set_nodepool_condition(pool, now, NODE_REGISTRATION_HEALTHY, status, reason, message)
        await write_pool_status(self._kube, pool, after)


class RegistrationHealthController(ControllerBase):
    """Resets condition and outcomes when the NodePool or its node class changes."""

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._launch_outcomes = context.launch_outcomes

    async def reconcile(self, name: str) -> None:
        # Observe.
        pool = self._cache.pool(name)
        if pool is None or not pool.template.node_class.is_supported:
            return
        node_class = self._cache.node_class(pool.template.node_class.name)
        if node_class is None:
            return

        # Decide.
        condition = pool.conditions.get(NODE_REGISTRATION_HEALTHY)
        is_current = (
            condition is not None
            and condition.observed_generation == pool.generation
            and pool.node_class_generation == node_class.generation
        )
        if is_current:
            return

        # Act.
        self._launch_outcomes.reset(pool)
        after = set_nodepool_condition(
            msgspec.structs.replace(pool, node_class_generation=node_class.generation),
            self._loop.now(),
            NODE_REGISTRATION_HEALTHY,
            UNKNOWN,
            "AwaitingReconciliation",
            "object is awaiting reconciliation",
        )
        await write_pool_status(self._kube, pool, after)


def controller(context: ControllerContext) -> Controller:
    """Return the registration of this controller."""
    return Controller(
        name="nodepool.registrationhealth",
        reconciler=RegistrationHealthController(context),
        watches=[(NODE_POOLS, enqueue_object), (EC2_NODE_CLASSES, enqueue_pools_of_class(context.cache))],
    )
