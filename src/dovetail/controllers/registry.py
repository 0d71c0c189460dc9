"""The list of all controllers.

To add a controller, write a module with a reconciler (see ``ControllerBase``) and
a ``controller(context)`` factory, and add the factory to ``FACTORIES``.
"""

from collections.abc import Callable
from typing import Final

from dovetail.controllers import capacitybuffer, condition_transitions, nodeoverlay
from dovetail.controllers.context import ControllerContext
from dovetail.controllers.disruption import controller as disruption
from dovetail.controllers.disruption import queue as disruption_queue
from dovetail.controllers.disruption import savings
from dovetail.controllers.interruption import controller as interruption
from dovetail.controllers.interruption import status_checks, zonal_shift
from dovetail.controllers.node import eviction, health, termination
from dovetail.controllers.nodeclaim import (
    capacity_reservation,
    consistency,
    consolidatable,
    drift,
    expiration,
    garbage_collection,
    hydration,
    podevents,
    tagging,
)
from dovetail.controllers.nodeclaim.lifecycle import controller as lifecycle
from dovetail.controllers.nodeclaim.lifecycle import liveness
from dovetail.controllers.nodeclass import controller as nodeclass
from dovetail.controllers.nodeclass import hash as nodeclass_hash
from dovetail.controllers.nodepool import (
    budgets,
    counter,
    fleet_cost,
    readiness,
    registration_health,
    static,
    validation,
)
from dovetail.controllers.nodepool import hash as nodepool_hash
from dovetail.controllers.pod import nomination
from dovetail.controllers.provisioning import provisioner
from dovetail.controllers.runtime.manager import Controller

FACTORIES: Final[tuple[Callable[[ControllerContext], Controller | None], ...]] = (
    provisioner.controller,
    lifecycle.controller,
    liveness.controller,
    termination.controller,
    eviction.controller,
    disruption.controller,
    disruption_queue.controller,
    savings.controller,
    consolidatable.controller,
    drift.controller,
    capacity_reservation.controller,
    podevents.controller,
    nomination.controller,
    nomination.cleanup_controller,
    expiration.controller,
    health.controller,
    static.provisioning_controller,
    static.deprovisioning_controller,
    nodeoverlay.controller,
    capacitybuffer.controller,
    interruption.controller,
    status_checks.controller,
    tagging.controller,
    garbage_collection.nodeclaim_controller,
    garbage_collection.instance_controller,
    consistency.controller,
    hydration.controller,
    zonal_shift.controller,
    nodeclass.controller,
    nodeclass_hash.controller,
    nodepool_hash.controller,
    validation.controller,
    budgets.controller,
    readiness.controller,
    counter.controller,
    registration_health.controller,
    condition_transitions.nodeclaim_controller,
    condition_transitions.nodepool_controller,
    fleet_cost.controller,
)
"""A factory returns None if its feature gate is off or an optional port is missing."""


def controllers(context: ControllerContext) -> list[Controller]:
    """Return the registrations of all enabled controllers."""
    built = (factory(context) for factory in FACTORIES)
    return [controller for controller in built if controller is not None]
