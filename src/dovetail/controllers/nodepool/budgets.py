"""Budgets: reports NodePools whose nodes are not disrupted because a budget is invalid."""

from typing import Final

import msgspec

from dovetail.controllers.context import ControllerBase, ControllerContext
from dovetail.controllers.event_reasons import INVALID_DISRUPTION_BUDGET
from dovetail.controllers.patches import write_pool_status
from dovetail.controllers.runtime.manager import Controller, enqueue_object
from dovetail.core.conditions import clear_condition
from dovetail.core.disruption.budgets import validate_budgets
from dovetail.core.nodepool.status import set_nodepool_condition
from dovetail.model.kube.conditions import FALSE
from dovetail.ports.api_resources import NODE_POOLS

BUDGETS_VALID: Final = "DisruptionBudgetsValid"
"""Condition that exists only while it is False.

Ready does not depend on it: nodes can be launched though none is disrupted.
"""


class BudgetsController(ControllerBase):
    """Sets the condition, and publishes an Event when budgets become invalid."""

    async def reconcile(self, name: str) -> None:
        # Observe.
        pool = self._cache.pool(name)
        if pool is None or not pool.template.node_class.is_supported:
            return

        # Decide.
        errors = validate_budgets(pool.disruption.budgets)
        message = f"no node of this pool is disrupted: {'; '.join(errors)}"
        if errors:
            reason = INVALID_DISRUPTION_BUDGET.reason
            after = set_nodepool_condition(pool, self._loop.now(), BUDGETS_VALID, FALSE, reason, message)
        else:
            after = msgspec.structs.replace(pool, conditions=clear_condition(pool.conditions, BUDGETS_VALID))

        # Act.
        await write_pool_status(self._kube, pool, after)

        # Report.
        if errors and pool.conditions.get(BUDGETS_VALID) != after.conditions[BUDGETS_VALID]:
            self._events.publish(pool, INVALID_DISRUPTION_BUDGET, message)


def controller(context: ControllerContext) -> Controller:
    """Return the registration of this controller."""
    reconciler = BudgetsController(context)
    return Controller(name="nodepool.budgets", reconciler=reconciler, watches=[(NODE_POOLS, enqueue_object)])
