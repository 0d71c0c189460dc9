"""Forgets how launches ended once a pool or its node class has changed."""

from collections.abc import Iterable

import msgspec

from dovetail.controllers.nodepool.status import write_status
from dovetail.controllers.runtime.manager import Registration
from dovetail.core.nodepool.registration_health import REGISTRATION_HEALTHY
from dovetail.core.nodepool.status import pool_stated
from dovetail.model.kube.conditions import UNKNOWN
from dovetail.ports.api_resources import EC2_NODE_CLASSES, NODE_POOLS
from dovetail.ports.event_loop import Clock, Loop
from dovetail.ports.kube_client import Kube
from dovetail.state.cluster.cache import Change, Mirror
from dovetail.state.nodes.launch_outcomes import LaunchOutcomes


class RegistrationHealth:
    """Sets NodeRegistrationHealthy back to Unknown when past outcomes say nothing any more."""

    def __init__(
        self, *, mirror: Mirror, kube: Kube, clock: Clock, outcomes: LaunchOutcomes
    ) -> None:
        self._mirror = mirror
        self._kube = kube
        self._clock = clock
        self._outcomes = outcomes

    async def reconcile(self, name: str) -> None:
        # Observe.
        pool = self._mirror.pool(name)
        if pool is None or not pool.template.node_class.supported:
            return
        node_class = self._mirror.node_class(pool.template.node_class.name)
        if node_class is None:
            return

        # Decide.
        known = pool.conditions.get(REGISTRATION_HEALTHY)
        fresh = (
            known is not None
            and known.generation == pool.generation
            and pool.node_class_generation == node_class.generation
        )
        if fresh:
            return

        # Act.
        self._outcomes.reset(pool)
        after = pool_stated(
            msgspec.structs.replace(pool, node_class_generation=node_class.generation),
            self._clock.now(),
            REGISTRATION_HEALTHY,
            UNKNOWN,
            "AwaitingReconciliation",
            "object is awaiting reconciliation",
        )
        await write_status(self._kube, pool, after)


def registration(
    *, mirror: Mirror, kube: Kube, loop: Loop, outcomes: LaunchOutcomes
) -> Registration:
    """Return the controller."""

    def pools_of_class(change: Change) -> Iterable[str]:
        name = change.either.name
        return [one.name for one in mirror.pools() if one.template.node_class.name == name]

    return Registration(
        name="nodepool.registrationhealth",
        controller=RegistrationHealth(mirror=mirror, kube=kube, clock=loop, outcomes=outcomes),
        watches=[
            (NODE_POOLS, lambda change: (change.either.name,)),
            (EC2_NODE_CLASSES, pools_of_class),
        ],
    )
