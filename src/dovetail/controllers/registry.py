"""Every controller, in one list."""

import inspect
from collections.abc import Callable
from typing import Final, Protocol

import msgspec

from dovetail.controllers import condition_transitions
from dovetail.controllers.capacitybuffer import Buffering
from dovetail.controllers.disruption.controller import Disruption
from dovetail.controllers.disruption.queue import Replacing
from dovetail.controllers.interruption import controller as interruption
from dovetail.controllers.interruption import status_checks, zonal_shift
from dovetail.controllers.node import health as repair
from dovetail.controllers.node.eviction import EvictionQueue
from dovetail.controllers.node.termination import Termination
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
from dovetail.controllers.nodeclass import hash as classstamping
from dovetail.controllers.nodeoverlay import Overlaying
from dovetail.controllers.nodepool import (
    budgets,
    counter,
    readiness,
    registration_health,
    validation,
)
from dovetail.controllers.nodepool import hash as stamping
from dovetail.controllers.nodepool.static import Filling, Trimming
from dovetail.controllers.pod import nomination, nomination_cleanup
from dovetail.controllers.provisioning.batch_window import Windows
from dovetail.controllers.provisioning.provisioner import Provisioning
from dovetail.controllers.runtime.manager import Registration
from dovetail.model.settings import (
    ConsolidationSettings,
    Gates,
    InterruptionSettings,
    SchedulingSettings,
)
from dovetail.ports.cloudprovider import Checkups, Cloud, Interruptions, Tagging, ZonalShifts
from dovetail.ports.event_loop import Loop
from dovetail.ports.executor import Offload
from dovetail.ports.kube_client import Kube
from dovetail.ports.randomness import Chance
from dovetail.ports.telemetry import Events, Log, Metrics
from dovetail.state.capacitybuffers import Buffers
from dovetail.state.cluster.cache import Mirror
from dovetail.state.instancetypes.nodeoverlays import Overlays
from dovetail.state.instancetypes.unavailable_offerings import Scarcity
from dovetail.state.nodes.keep_reasons import Stays
from dovetail.state.nodes.launch_outcomes import LaunchOutcomes
from dovetail.state.nodes.nominations import Nominations
from dovetail.state.pods.assignments import Promises
from dovetail.state.pods.evictions import Evictions


class Registrable(Protocol):
    """A controller that knows what it wants to be told of."""

    def registration(self) -> Registration | None: ...


Factory = Callable[..., Registration | Registrable | None]
"""Is given what its parameters are named after, from ``Tools``; None: it is switched off."""

CONTROLLERS: Final[tuple[Factory, ...]] = (
    Provisioning,
    lifecycle.registration,
    liveness.registration,
    Termination,
    EvictionQueue,
    Disruption,
    Replacing,
    consolidatable.registration,
    drift.registration,
    capacity_reservation.registration,
    podevents.registration,
    nomination.registration,
    nomination_cleanup.registration,
    expiration.registration,
    repair.registration,
    Filling,
    Trimming,
    Overlaying,
    Buffering,
    interruption.registration,
    status_checks.registration,
    tagging.registration,
    garbage_collection.claims_registration,
    garbage_collection.machines_registration,
    consistency.registration,
    hydration.registration,
    zonal_shift.registration,
    nodeclass.registration,
    classstamping.registration,
    stamping.registration,
    validation.registration,
    budgets.registration,
    readiness.registration,
    counter.registration,
    registration_health.registration,
    condition_transitions.claims_registration,
    condition_transitions.pools_registration,
)


class Tools(msgspec.Struct, frozen=True, kw_only=True):
    """All that controllers work with."""

    mirror: Mirror
    promises: Promises
    nominations: Nominations
    evictions: Evictions
    scarcity: Scarcity
    overlays: Overlays = msgspec.field(default_factory=Overlays)
    buffers: Buffers = msgspec.field(default_factory=Buffers)
    outcomes: LaunchOutcomes = msgspec.field(default_factory=LaunchOutcomes)
    stays: Stays = msgspec.field(default_factory=Stays)
    kube: Kube
    cloud: Cloud
    interruptions: Interruptions
    checkups: Checkups = status_checks.UNCHECKED
    shifts: ZonalShifts | None = None
    """None: nobody knows of zones to stay away from."""
    tagging: Tagging | None = None
    """None: machines are not tagged."""
    loop: Loop
    offload: Offload
    chance: Chance
    log: Log
    events: Events
    metrics: Metrics
    settings: SchedulingSettings = SchedulingSettings()
    windows: Windows = Windows()
    ca_bundle: str = ""
    """Of the cluster's certificate authority, in base64; machines are told it."""
    interruption_settings: InterruptionSettings = InterruptionSettings()
    consolidation: ConsolidationSettings = ConsolidationSettings()
    gates: Gates = Gates()


def registrations(tools: Tools) -> list[Registration]:
    """Make every controller that is switched on."""
    made = [_made(one, tools) for one in CONTROLLERS]
    return [one for one in made if one is not None]


def _made(factory: Factory, tools: Tools) -> Registration | None:
    wanted = inspect.signature(factory).parameters
    made = factory(**{name: getattr(tools, name) for name in wanted if hasattr(tools, name)})
    return made if made is None or isinstance(made, Registration) else made.registration()
