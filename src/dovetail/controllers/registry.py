"""Every controller, in one list."""

import inspect
from collections.abc import Callable
from typing import Final, Protocol

import msgspec

from dovetail.controllers import (
    classstamping,
    consistency,
    consolidatable,
    drift,
    expiration,
    garbage,
    hydration,
    interruption,
    lifecycle,
    liveness,
    nodeclass,
    nominating,
    podevents,
    releasing,
    repair,
    reserved,
    statuschecks,
    tagging,
    transitions,
    zonalshift,
)
from dovetail.controllers.batching import Windows
from dovetail.controllers.buffers import Buffering
from dovetail.controllers.disruption import Disruption
from dovetail.controllers.eviction import EvictionQueue
from dovetail.controllers.nodepools import (
    budgets,
    counting,
    health,
    readiness,
    stamping,
    validation,
)
from dovetail.controllers.overlays import Overlaying
from dovetail.controllers.provisioning import Provisioning
from dovetail.controllers.replacing import Replacing
from dovetail.controllers.runtime import Registration
from dovetail.controllers.staticpools import Filling, Trimming
from dovetail.controllers.termination import Termination
from dovetail.model.settings import (
    ConsolidationSettings,
    Gates,
    InterruptionSettings,
    SchedulingSettings,
)
from dovetail.ports.chance import Chance
from dovetail.ports.cloud import Checkups, Cloud, Interruptions
from dovetail.ports.kube import Kube
from dovetail.ports.loop import Loop
from dovetail.ports.offload import Offload
from dovetail.ports.tagging import Tagging
from dovetail.ports.telemetry import Events, Log, Metrics
from dovetail.ports.zones import ZonalShifts
from dovetail.state.buffers import Buffers
from dovetail.state.evictions import Evictions
from dovetail.state.mirror import Mirror
from dovetail.state.nominations import Nominations
from dovetail.state.outcomes import LaunchOutcomes
from dovetail.state.overlays import Overlays
from dovetail.state.promises import Promises
from dovetail.state.scarcity import Scarcity
from dovetail.state.stays import Stays


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
    reserved.registration,
    podevents.registration,
    nominating.registration,
    releasing.registration,
    expiration.registration,
    repair.registration,
    Filling,
    Trimming,
    Overlaying,
    Buffering,
    interruption.registration,
    statuschecks.registration,
    tagging.registration,
    garbage.claims_registration,
    garbage.machines_registration,
    consistency.registration,
    hydration.registration,
    zonalshift.registration,
    nodeclass.registration,
    classstamping.registration,
    stamping.registration,
    validation.registration,
    budgets.registration,
    readiness.registration,
    counting.registration,
    health.registration,
    transitions.claims_registration,
    transitions.pools_registration,
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
    checkups: Checkups = statuschecks.UNCHECKED
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
