"""A process of ``dovetail run`` in virtual time, which can be killed at any step.

It is wired as ``operator/operator.py`` and ``operator/aws.py`` do: the cloud factory of
production, all controllers, write-through cache. Connection, leader election and HTTP
endpoints are left out.
"""

from collections.abc import Awaitable, Callable
from datetime import timedelta
from functools import partial
from typing import Any, TypeVar

from dovetail.controllers.context import ControllerContext
from dovetail.controllers.registry import controllers
from dovetail.controllers.runtime.event_recorder import KubeEventRecorder
from dovetail.controllers.runtime.manager import ControllerManager
from dovetail.errors import DovetailError
from dovetail.operator.aws import AwsCloudFactory, AwsSettings
from dovetail.operator.cloud import CloudContext
from dovetail.ports.api_resources import Resource
from dovetail.ports.kube_client import KubeClient
from dovetail.ports.telemetry import Log
from dovetail.simulator.apiserver.options import WatchOptions
from dovetail.simulator.apiserver.server import ApiServer
from dovetail.simulator.apiserver.storage.watch import EventType, Watch
from dovetail.simulator.clock import VirtualClock
from dovetail.simulator.environment import InlineExecutor, SeededRandomSource, SimulatedMetrics
from dovetail.simulator.kube_client import SimulatedKubeClient
from dovetail.state.cluster.cache import ClusterCache
from dovetail.state.cluster.write_through import WriteThroughClient
from dovetail.state.instancetypes.unavailable_offerings import UnavailableOfferings
from dovetail.state.nodes.nominations import NodeNominations
from dovetail.state.pods.assignments import PodAssignments
from dovetail.state.pods.evictions import PendingEvictions
from tests.support.chaos.account import CLUSTER, QUEUE
from tests.support.chaos.ec2 import REGION
from tests.support.chaos.network import KUBE, Network, VirtualSession
from tests.support.chaos.virtual_asyncio import VirtualAsyncioLoop, VirtualHostLoop
from tests.support.kube.forwarding_client import ForwardingKubeClient, Request

T = TypeVar("T")
_WATCH_DELAY = 0.01
_VERSION = "1.34"


class OperatorProcess:
    """One process from its start until it is killed, or fails to start."""

    def __init__(
        self,
        *,
        clock: VirtualClock,
        api: ApiServer,
        network: Network,
        session: VirtualSession,
        log: Log,
        seed: int,
        on_start_failure: Callable[[DovetailError], None],
    ) -> None:
        self.loop = VirtualAsyncioLoop(clock, network.send)
        self._api = api
        self._session = session
        self._log = log
        self._random = SeededRandomSource(seed)
        self._on_start_failure = on_start_failure
        self._kube = NetworkKubeClient(SimulatedKubeClient(api), self.loop, network)
        self._watches: list[Watch] = []
        self.is_started = False
        self.loop.call_soon(lambda: self.loop.create_task(self._start()))

    def kill(self) -> None:
        """SIGKILL: nothing of the process runs any more, and its memory is gone."""
        self.loop.kill()
        for watch in self._watches:
            watch.stop()

    def _fail(self, error: DovetailError) -> None:
        if not self.loop.killed:
            self.kill()
            self._on_start_failure(error)

    async def _start(self) -> None:
        host_loop = VirtualHostLoop(self.loop)
        cache, metrics, unavailable = ClusterCache(), SimulatedMetrics(), UnavailableOfferings()
        settings = AwsSettings(cluster_name=CLUSTER, region=REGION, interruption_queue=QUEUE)

        async def get_version() -> str:
            return _VERSION

        try:
            cloud = await AwsCloudFactory(settings, session=self._session)(
                CloudContext(
                    loop=host_loop,
                    random=self._random,
                    log=self._log,
                    metrics=metrics,
                    kube=self._kube,
                    cache=cache,
                    unavailable_offerings=unavailable,
                    kubernetes_version=_VERSION,
                    get_kubernetes_version=get_version,
                    ca_certificates="",
                )
            )
        except DovetailError as error:
            failure = error
            self.loop.clock.call_later(timedelta(), lambda: self._fail(failure))
            return
        for resource in cache.stores:
            self._start_reflector(cache, resource)
        kube = WriteThroughClient(self._kube, cache)
        context = ControllerContext(
            kube=kube,
            cloud_provider=cloud.cloud_provider,
            interruption_queue=cloud.interruption_queue,
            instance_status=cloud.instance_status,
            instance_tagger=cloud.instance_tagger,
            loop=host_loop,
            executor=InlineExecutor(),
            random=self._random,
            log=self._log,
            events=KubeEventRecorder(kube=kube, loop=host_loop, random=self._random, log=self._log),
            metrics=metrics,
            cache=cache,
            assignments=PodAssignments(cache),
            nominations=NodeNominations(),
            evictions=PendingEvictions(),
            unavailable_offerings=unavailable,
            cluster_ca_bundle=cloud.cluster_ca_bundle,
        )
        ControllerManager(controllers(context), context).start()
        self.is_started = True

    def _start_reflector(self, cache: ClusterCache, resource: Resource) -> None:
        listed = self._api.list(resource)
        cache.replace(resource, listed.items, revision=listed.resource_version)

        def deliver() -> None:
            for event in watch.poll():
                if event.type is EventType.DELETED:
                    cache.delete(resource, event.object)
                else:
                    cache.apply_event(resource, event.object)

        watch = self._api.watch(
            resource,
            WatchOptions(resource_version=listed.resource_version),
            notify=partial(self.loop.call_later, _WATCH_DELAY, deliver),
        )
        self._watches.append(watch)


class NetworkKubeClient(ForwardingKubeClient):
    """KubeClient over the network: writes of a killed process may take effect."""

    def __init__(self, kube: KubeClient, loop: VirtualAsyncioLoop, network: Network) -> None:
        super().__init__(kube)
        self._loop = loop
        self._network = network

    async def forward(self, request: Request, response: Awaitable[T]) -> T:
        def send() -> Any:
            try:
                response.send(None)  # type: ignore[attr-defined]
            except StopIteration as stop:
                return stop.value
            raise AssertionError("the API server in memory answers at once")

        try:
            result: T = await self._network.send(self._loop, KUBE, send)
        finally:
            response.close()  # type: ignore[attr-defined]
        return result
