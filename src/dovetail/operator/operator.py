"""Operator: a process that runs the controllers against a real cluster.

    preflight -> build cloud -> start reflectors -> wait for leadership
        -> start controllers ... stop -> finish writes -> release lease

The operator owns everything that lives as long as the process: connection, cluster
cache, cloud services, leadership and observability. The controllers get them in one
``ControllerContext``. A replica that does not lead keeps its cache and instance types
up to date, so that it takes over without delay. A replica that loses its lease ends:
a fence rejects its remaining writes, and Kubernetes restarts it with an empty cache.
"""

import asyncio
from collections.abc import Callable
from datetime import timedelta
from typing import Any, Final

import msgspec

from dovetail import __version__
from dovetail.controllers.context import ControllerContext
from dovetail.controllers.registry import controllers
from dovetail.controllers.runtime.event_recorder import KubeEventRecorder
from dovetail.controllers.runtime.manager import ControllerManager
from dovetail.core.disruption.policy import DEFAULT_POLICY, Policy
from dovetail.host.clock import SystemClock
from dovetail.host.event_loop import AsyncioEventLoop
from dovetail.host.executor import ThreadExecutor
from dovetail.host.gc import FreedMemory, release_memory
from dovetail.host.randomness import SystemRandomSource
from dovetail.kube.auth.kubeconfig import RestConfig
from dovetail.kube.client import HttpKubeClient
from dovetail.kube.connection import Connection
from dovetail.kube.preflight import PreflightError, check_crds, check_karpenter_absent, kubernetes_version
from dovetail.kube.rate_limit import DEFAULT_BURST, DEFAULT_QPS, RateLimiter
from dovetail.kube.rbac_check import check_permissions
from dovetail.kube.reflector import Reflectors
from dovetail.model.settings import (
    BatchSettings,
    ConsolidationSettings,
    FeatureGates,
    InterruptionSettings,
    SchedulingSettings,
)
from dovetail.observability.cloudprovider_metrics import MeteredCloudProvider
from dovetail.observability.exposition import ProcessObservability
from dovetail.observability.health import ProcessPhase
from dovetail.operator.cloud import CloudContext, CloudFactory, CloudServices
from dovetail.operator.leader import (
    LeaderElectionSettings,
    Leadership,
    LeaseLeadership,
    SingleReplicaLeadership,
)
from dovetail.ports.api_resources import EC2_NODE_CLASSES, NODE_POOLS
from dovetail.ports.cloudprovider import CloudProvider
from dovetail.ports.event_loop import EventLoop
from dovetail.ports.kube_errors import Unavailable
from dovetail.ports.telemetry import Log
from dovetail.state.capacitybuffers import CapacityBuffers
from dovetail.state.cluster.cache import ClusterCache, ObjectChange
from dovetail.state.cluster.write_through import WriteThroughClient
from dovetail.state.instancetypes.nodeoverlays import NodeOverlays
from dovetail.state.instancetypes.unavailable_offerings import UnavailableOfferings
from dovetail.state.nodes.nominations import NodeNominations
from dovetail.state.pods.assignments import PodAssignments
from dovetail.state.pods.evictions import PendingEvictions

_PREFLIGHT_TIMEOUT: Final = 7.0
"""Seconds. With the start of Python, a user sees an error within ten."""
_WAIT_INTERVAL: Final = timedelta(seconds=2)
_SHUTDOWN_TIMEOUT: Final = timedelta(seconds=3)
"""For running writes.

Kubernetes kills a pod 30 s after SIGTERM; users at a terminal do not wait that long.
"""
_SHUTDOWN_POLL: Final = timedelta(milliseconds=20)
_RELEASE_INTERVAL: Final = timedelta(seconds=10)
"""Interval at which freed memory is returned to the operating system; that takes some milliseconds."""
_WARMUP_DELAY: Final = timedelta(milliseconds=250)
"""A node class that becomes ready changes several times in a row."""


class _NoAnswerError(PreflightError):
    """A preflight check took too long."""


class OperatorSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings that do not depend on the cloud."""

    qps: float = DEFAULT_QPS
    burst: int = DEFAULT_BURST
    scheduling: SchedulingSettings = SchedulingSettings()
    batching: BatchSettings = BatchSettings()
    interruption: InterruptionSettings = InterruptionSettings()
    consolidation: ConsolidationSettings = ConsolidationSettings()
    policy: Policy = DEFAULT_POLICY
    """Finds and chooses the moves of consolidation."""
    leader_election: LeaderElectionSettings | None = LeaderElectionSettings()
    """None if there is only one replica."""
    gates: FeatureGates = FeatureGates()
    namespace: str = "kube-system"
    """Of the ConfigMap with the savings ledger."""
    max_start_wait: timedelta = timedelta(minutes=10)
    """Longest wait of a pod, at start-up, for an API server that is unavailable.

    Exits would add the kubelet's restart backoff, up to five minutes, to the outage.
    """


class Operator:
    """Runs the controllers with real ports; created on the asyncio loop that it uses."""

    def __init__(
        self,
        access: RestConfig,
        *,
        cloud_factory: CloudFactory,
        settings: OperatorSettings,
        log: Log,
        observability: ProcessObservability | None = None,
        on_synced: Callable[[ControllerContext], None] = lambda _: None,
    ) -> None:
        """``on_synced`` is called when the cache is filled, also in replicas that do not lead."""
        self._access = access
        self._on_synced = on_synced
        self._cloud_factory = cloud_factory
        self._settings = settings
        self._log = log
        self._loop = AsyncioEventLoop()
        self._observability = observability or ProcessObservability(self._loop)
        self._executor = ThreadExecutor(1, name="solver")
        self._random = SystemRandomSource()
        self._leadership = self._create_leadership()
        self._connection = Connection(
            access,
            rate_limiter=RateLimiter(
                clock=asyncio.get_running_loop().time, qps=settings.qps, burst=settings.burst
            ),
            user_agent=f"dovetail/{__version__}",
            fence=self._leadership.fence,
        )
        self._kube = HttpKubeClient(self._connection)
        self._cache = ClusterCache(settings.gates)
        self._unavailable_offerings = UnavailableOfferings()
        self._nodeoverlays = NodeOverlays(enabled=settings.gates.NodeOverlay)
        self._cloud: CloudServices | None = None
        self._manager: ControllerManager | None = None
        self._is_leader = asyncio.Event()
        self._failure: asyncio.Future[Exception] = asyncio.get_running_loop().create_future()
        """Set when the process cannot continue."""

    async def run(self, stop: asyncio.Event) -> None:
        """Run until ``stop`` is set; raise if the process cannot start or continue."""
        asyncio.get_running_loop().set_exception_handler(self._log_unhandled)
        started = asyncio.ensure_future(self._start())
        stopped = asyncio.ensure_future(stop.wait())
        ends: tuple[asyncio.Future[Any], ...] = (stopped, self._failure)
        try:
            await asyncio.wait([started, *ends], return_when=asyncio.FIRST_COMPLETED)
            if started.done():
                started.result()
                await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
            if self._failure.done():
                raise self._failure.result()
        finally:
            for task in (started, stopped):
                task.cancel()
            await asyncio.gather(started, stopped, return_exceptions=True)
            await self._shut_down()

    async def _start(self) -> None:
        version = await self._wait_for_cluster()
        self._cloud = await self._cloud_factory(self._build_cloud_context(version))
        reflectors = await self._start_reflectors(self._cloud)
        context = self._build_controller_context(self._cloud)
        self._on_synced(context)
        await self._acquire_leadership()
        self._start_controllers(context, reflectors)
        self._log.info(
            "started",
            version=__version__,
            server=self._connection.server,
            kubernetes_version=version,
            nodes=len(self._cache.nodes()),
            nodeclaims=len(self._cache.claims()),
        )

    async def _wait_for_cluster(self) -> str:
        """Check the cluster; in a pod, wait while the API server is unavailable."""
        wait = self._settings.max_start_wait if self._access.is_in_cluster else timedelta()
        deadline = self._loop.now() + wait
        while True:
            try:
                return await self._check_cluster()
            except (Unavailable, _NoAnswerError) as error:
                if self._loop.now() >= deadline:
                    raise
                self._log.error(
                    "waiting for the API server", error=str(error), again_in=f"{_WAIT_INTERVAL.seconds}s"
                )
            await self._loop.sleep(_WAIT_INTERVAL)

    async def _check_cluster(self) -> str:
        """Check version, CRDs, permissions, and that Karpenter does not run here."""
        gates = self._settings.gates
        try:
            async with asyncio.timeout(_PREFLIGHT_TIMEOUT):
                version = await kubernetes_version(self._connection)
                await check_crds(self._connection, gates)
                await check_karpenter_absent(self._kube, now=self._loop.now(), log=self._log)
                await check_permissions(self._connection, read=self._cache.stores, gates=gates)
        except TimeoutError as error:
            message = f"{self._connection.waiting_for} gave no answer within {_PREFLIGHT_TIMEOUT:g}s"
            raise _NoAnswerError(message) from error
        return version

    def _build_cloud_context(self, version: str) -> CloudContext:
        return CloudContext(
            loop=self._loop,
            random=self._random,
            log=self._log,
            metrics=self._observability.metrics,
            kube=self._kube,
            cache=self._cache,
            unavailable_offerings=self._unavailable_offerings,
            nodeoverlays=self._nodeoverlays,
            kubernetes_version=version,
            get_kubernetes_version=lambda: kubernetes_version(self._connection),
            ca_certificates=self._access.ca_certificates,
            fence=self._leadership.fence,
            wait_until_leader=self._is_leader.wait,
        )

    async def _start_reflectors(self, cloud: CloudServices) -> Reflectors:
        """Fill the cache; replicas that do not lead keep it current as well."""
        reflectors = Reflectors(
            self._cache,
            self._connection,
            loop=self._loop,
            random=self._random,
            log=self._log,
            on_end=lambda: self._fail(RuntimeError("the watches ended; the log says why")),
        )
        instance_types = cloud.cloud_provider.instance_types
        self._observability.exposition.set_cluster(
            self._cache, instance_types, disconnected_since=reflectors.disconnected_since
        )
        self._observability.health.set_stuck_check(reflectors.stuck_kinds)
        await reflectors.start()
        InstanceTypeWarmup(self._cache, cloud.cloud_provider, loop=self._loop)
        self._loop.spawn(self._release_memory())
        return reflectors

    async def _release_memory(self) -> None:
        freed = FreedMemory()
        while True:
            await self._loop.sleep(_RELEASE_INTERVAL)
            self._observability.exposition.remove_deleted_nodepools()
            await self._executor.run(freed.release)

    async def _acquire_leadership(self) -> None:
        self._observability.health.phase = ProcessPhase.STANDBY
        self._observability.set_leader(False)
        await self._leadership.acquire()
        self._observability.set_leader(True)
        self._is_leader.set()
        self._loop.spawn(self._renew_leadership())

    def _start_controllers(self, context: ControllerContext, reflectors: Reflectors) -> None:
        manager = self._manager = ControllerManager(controllers(context), context)
        self._observability.exposition.set_queues(manager.queue_metrics)
        self._observability.health.set_stuck_check(
            lambda: [*reflectors.stuck_kinds(), *manager.stuck_controllers()]
        )
        manager.start()
        self._observability.health.phase = ProcessPhase.LEADING

    def _build_controller_context(self, cloud: CloudServices) -> ControllerContext:
        settings, metrics = self._settings, self._observability.metrics
        kube = WriteThroughClient(self._kube, self._cache)
        return ControllerContext(
            kube=kube,
            cloud_provider=MeteredCloudProvider(
                cloud.cloud_provider,
                metrics=metrics,
                seconds=SystemClock().seconds,
                provider=cloud.provider_name,
            ),
            interruption_queue=cloud.interruption_queue,
            instance_status=cloud.instance_status,
            instance_tagger=cloud.instance_tagger,
            zonal_shifts=cloud.zonal_shifts,
            loop=self._loop,
            executor=self._executor,
            random=self._random,
            log=self._log,
            events=KubeEventRecorder(kube=kube, loop=self._loop, random=self._random, log=self._log),
            metrics=metrics,
            cache=self._cache,
            assignments=PodAssignments(self._cache),
            nominations=NodeNominations(),
            evictions=PendingEvictions(),
            unavailable_offerings=self._unavailable_offerings,
            nodeoverlays=self._nodeoverlays,
            capacity_buffers=CapacityBuffers(self._cache if settings.gates.CapacityBuffer else None),
            feature_gates=settings.gates,
            scheduling_settings=settings.scheduling,
            batch_settings=settings.batching,
            consolidation_settings=settings.consolidation,
            consolidation_policy=settings.policy,
            interruption_settings=settings.interruption,
            cluster_ca_bundle=cloud.cluster_ca_bundle,
            namespace=settings.namespace,
        )

    async def _renew_leadership(self) -> None:
        error = await self._leadership.renew()
        self._log.error("no longer the leader", error=str(error))
        self._fail(error)

    def _fail(self, error: Exception) -> None:
        if not self._failure.done():
            self._failure.set_result(error)

    def _create_leadership(self) -> Leadership:
        if self._settings.leader_election is None:
            return SingleReplicaLeadership()
        return LeaseLeadership(
            self._access, self._settings.leader_election, loop=self._loop, random=self._random, log=self._log
        )

    async def _shut_down(self) -> None:
        """Start no more reconciles, let running writes finish, release the lease."""
        self._observability.health.phase = ProcessPhase.STOPPING
        if self._manager is not None:
            self._manager.stop()
        deadline = self._loop.now() + _SHUTDOWN_TIMEOUT
        # Without leadership, the fence rejects writes: there is nothing to wait for.
        while self._leadership.is_leader() and self._is_busy() and self._loop.now() < deadline:
            await self._loop.sleep(_SHUTDOWN_POLL)
        if self._is_busy():
            self._log.info("stopping with running writes; the next leader continues them")
        await self._loop.stop()
        # After the last write: another replica leads as soon as the lease is released.
        await self._leadership.release()
        await self._leadership.close()
        if self._cloud is not None:
            self._cloud.close()
            await self._cloud.shutdown()
        self._executor.close()
        await self._connection.close()
        if self._manager is not None:
            self._log.info("stopped")

    def _is_busy(self) -> bool:
        if self._manager is None:
            return False
        return bool(self._manager.active_count() or self._connection.in_flight)

    def _log_unhandled(self, _: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        self._log.error(
            "unhandled error outside the controllers",
            what=context.get("message", ""),
            error=f"{type(error).__name__}: {error}" if error is not None else "",
        )


class InstanceTypeWarmup:
    """Computes instance types whenever NodePools or node classes change.

    The first computation takes most of a second, which would delay the first pod. The
    types of deleted node classes are forgotten.
    """

    def __init__(self, cache: ClusterCache, cloud_provider: CloudProvider, *, loop: EventLoop) -> None:
        self._cache = cache
        self._cloud_provider = cloud_provider
        self._loop = loop
        self._is_scheduled = False
        self._node_classes: frozenset[str] = frozenset()
        for resource in (EC2_NODE_CLASSES, NODE_POOLS):
            cache.subscribe(resource, self._handle_change)

    def _handle_change(self, _: ObjectChange) -> None:
        if not self._is_scheduled:
            self._is_scheduled = True
            self._loop.spawn(self._warm_up())

    async def _warm_up(self) -> None:
        await self._loop.sleep(_WARMUP_DELAY)
        self._is_scheduled = False
        node_classes = frozenset(node_class.name for node_class in self._cache.node_classes())
        self._cloud_provider.forget_deleted_nodeclasses(node_classes)
        if self._node_classes - node_classes:
            release_memory()
        self._node_classes = node_classes
        for pool in self._cache.pools():
            self._cloud_provider.instance_types(pool)
            # Yield: dozens of node classes take longer than a lease renewal or a probe can wait.
            await self._loop.sleep(timedelta())
