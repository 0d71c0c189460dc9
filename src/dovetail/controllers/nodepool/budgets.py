"""Says of pools that nothing of theirs is disrupted, because a budget cannot be read."""

from typing import Final

import msgspec

from dovetail.controllers.nodepool.status import write_status
from dovetail.controllers.runtime.manager import Registration
from dovetail.core.conditions import cleared
from dovetail.core.disruption.budgets import mistakes
from dovetail.core.nodepool.status import pool_stated
from dovetail.model.kube.conditions import FALSE
from dovetail.ports.api_resources import NODE_POOLS
from dovetail.ports.event_loop import Clock, Loop
from dovetail.ports.kube_client import Kube
from dovetail.ports.telemetry import Events
from dovetail.state.cluster.cache import Mirror

BUDGETS_VALID: Final = "DisruptionBudgetsValid"
"""A condition that is there only while it is False; whether the pool is Ready does not hang on
it, for what cannot be disrupted can still be bought."""
INVALID: Final = "InvalidDisruptionBudget"


class Budgets:
    """Keeps the condition, and warns once a pool's budgets come to be wrong."""

    def __init__(self, *, mirror: Mirror, kube: Kube, clock: Clock, events: Events) -> None:
        self._mirror = mirror
        self._kube = kube
        self._clock = clock
        self._events = events

    async def reconcile(self, name: str) -> None:
        # Observe.
        pool = self._mirror.pool(name)
        if pool is None or not pool.template.node_class.supported:
            return

        # Decide.
        wrong = mistakes(pool.disruption.budgets)
        message = f"no node of this pool is disrupted: {'; '.join(wrong)}"
        if wrong:
            now = self._clock.now()
            after = pool_stated(pool, now, BUDGETS_VALID, FALSE, INVALID, message)
        else:
            after = msgspec.structs.replace(
                pool, conditions=cleared(pool.conditions, BUDGETS_VALID)
            )

        # Act.
        await write_status(self._kube, pool, after)

        # Tell.
        if wrong and pool.conditions.get(BUDGETS_VALID) != after.conditions[BUDGETS_VALID]:
            self._events.publish(
                NODE_POOLS, name, uid=pool.uid, reason=INVALID, message=message, warning=True
            )


def registration(*, mirror: Mirror, kube: Kube, loop: Loop, events: Events) -> Registration:
    """Return the controller."""
    return Registration(
        name="nodepool.budgets",
        controller=Budgets(mirror=mirror, kube=kube, clock=loop, events=events),
        watches=[(NODE_POOLS, lambda change: (change.either.name,))],
    )
