"""ControllerContext: the dependencies of controllers; ControllerBase holds them."""

from datetime import timedelta
from typing import Protocol

import msgspec

from dovetail.core.disruption.policy import DEFAULT_POLICY, Policy
from dovetail.core.nodeclaim.lifecycle import LifecycleTimeouts
from dovetail.model.karpenter.nodeclaim import NodeClaim
from dovetail.model.settings import (
    BatchSettings,
    ConsolidationSettings,
    FeatureGates,
    InterruptionSettings,
    SchedulingSettings,
)
from dovetail.ports.cloudprovider import (
    CloudProvider,
    InstanceStatusProvider,
    InstanceTagger,
    InterruptionQueue,
    ZonalShiftProvider,
)
from dovetail.ports.event_loop import EventLoop
from dovetail.ports.executor import Executor
from dovetail.ports.kube_client import KubeClient
from dovetail.ports.randomness import RandomSource
from dovetail.ports.telemetry import EventRecorder, Log, Metrics
from dovetail.state.capacitybuffers import CapacityBuffers
from dovetail.state.cluster.cache import ClusterCache
from dovetail.state.instancetypes.nodeoverlays import NodeOverlays
from dovetail.state.instancetypes.unavailable_offerings import UnavailableOfferings
from dovetail.state.nodes.keep_reasons import KeepReasons
from dovetail.state.nodes.launch_outcomes import LaunchOutcomes
from dovetail.state.nodes.nominations import NodeNominations
from dovetail.state.pods.assignments import PodAssignments
from dovetail.state.pods.evictions import PendingEvictions
from dovetail.state.pods.host_groups import StuckHostGroups
from dovetail.state.savings import SavingsBook


class HookResult(msgspec.Struct, frozen=True):
    """Result of a registration hook: the updated NodeClaim, or a delay."""

    claim: NodeClaim
    requeue_after: timedelta | None = None
    """Delay until the hook is called again; None if it does not block registration."""


class RegistrationHook(Protocol):
    """A check that must pass before a node is registered and accepts pods."""

    name: str

    async def before_registration(self, claim: NodeClaim) -> HookResult: ...


class ControllerContext(msgspec.Struct, frozen=True, kw_only=True):
    """Dependencies of controllers: ports, shared state and settings.

    One context is built per process (or per simulated operator) and passed to
    every ``controller(context)`` factory. Optional ports are None if the cloud
    provider does not support them; the controllers that need them are then not
    registered.
    """

    # Ports.
    kube: KubeClient
    """Write-through client: own writes are visible in ``cache`` at once."""
    cloud_provider: CloudProvider
    interruption_queue: InterruptionQueue
    instance_status: InstanceStatusProvider | None = None
    instance_tagger: InstanceTagger | None = None
    zonal_shifts: ZonalShiftProvider | None = None
    loop: EventLoop
    """Also the clock."""
    executor: Executor
    """Runs CPU-bound work (scheduling, consolidation) outside the event loop."""
    random: RandomSource
    log: Log
    events: EventRecorder
    metrics: Metrics

    # State that several controllers share.
    cache: ClusterCache
    assignments: PodAssignments
    nominations: NodeNominations
    evictions: PendingEvictions
    unavailable_offerings: UnavailableOfferings
    nodeoverlays: NodeOverlays = msgspec.field(default_factory=NodeOverlays)
    host_groups: StuckHostGroups = msgspec.field(default_factory=StuckHostGroups)
    capacity_buffers: CapacityBuffers = msgspec.field(default_factory=CapacityBuffers)
    launch_outcomes: LaunchOutcomes = msgspec.field(default_factory=LaunchOutcomes)
    keep_reasons: KeepReasons = msgspec.field(default_factory=KeepReasons)
    savings: SavingsBook = msgspec.field(default_factory=SavingsBook)

    # Settings.
    feature_gates: FeatureGates = FeatureGates()
    scheduling_settings: SchedulingSettings = SchedulingSettings()
    batch_settings: BatchSettings = BatchSettings()
    consolidation_settings: ConsolidationSettings = ConsolidationSettings()
    consolidation_policy: Policy = DEFAULT_POLICY
    interruption_settings: InterruptionSettings = InterruptionSettings()
    lifecycle_timeouts: LifecycleTimeouts = LifecycleTimeouts()
    registration_hooks: tuple[RegistrationHook, ...] = ()
    """Hooks in addition to those that every cluster has."""
    cluster_ca_bundle: str = ""
    """Certificate authority of the cluster, base64; part of the node class hash."""
    namespace: str = "kube-system"
    """Namespace of the objects that the controllers keep for themselves."""


class ControllerBase:
    """Base of controllers and their parts: the context's ports as attributes."""

    def __init__(self, context: ControllerContext) -> None:
        self._context = context
        self._cache = context.cache
        self._kube = context.kube
        self._cloud_provider = context.cloud_provider
        self._loop = context.loop
        self._log = context.log
        self._events = context.events
        self._metrics = context.metrics
