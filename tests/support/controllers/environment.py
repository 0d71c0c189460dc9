"""Controllers with a fake API server, cloud provider and clock; they can be crashed."""

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any, Self, TypeVar

import msgspec

from dovetail.controllers.context import ControllerContext
from dovetail.controllers.runtime.manager import Controller, ControllerManager
from dovetail.model.karpenter.nodeclaim import NodeClaim
from dovetail.model.karpenter.nodepool import NodePool
from dovetail.model.kube.conditions import Conditions
from dovetail.model.node import NodeObject
from dovetail.ports.api_resources import Resource
from dovetail.ports.kube_client import Object
from dovetail.ports.kube_errors import NotFound
from dovetail.simulator.apiserver.options import PatchType
from dovetail.simulator.apiserver.server import ApiServer
from dovetail.simulator.apiserver.storage.frozen_object import thaw
from dovetail.simulator.clock import VirtualClock
from dovetail.simulator.environment import SeededRandomSource
from dovetail.simulator.event_loop import VirtualEventLoop, VirtualFuture
from dovetail.simulator.kube_client import SimulatedKubeClient, start_reflectors
from dovetail.state.cluster.cache import ClusterCache
from dovetail.state.cluster.write_through import WriteThroughClient
from dovetail.state.instancetypes.unavailable_offerings import UnavailableOfferings
from dovetail.state.nodes.keep_reasons import KeepReasons
from dovetail.state.nodes.launch_outcomes import LaunchOutcomes
from dovetail.state.nodes.nominations import NodeNominations
from dovetail.state.pods.assignments import PodAssignments
from dovetail.state.pods.evictions import PendingEvictions
from tests.support.controllers.cloud_provider import FakeCloudProvider, FakeInterruptionQueue
from tests.support.kube.failing_client import FailingKubeClient
from tests.support.simulator.api_server import START
from tests.support.telemetry import RecordedEvents, RecordedLog, RecordedMetrics

T = TypeVar("T")
Factory = Callable[[ControllerContext], Controller | None]
"""The ``controller`` function of a module."""


class ImmediateExecutor:
    """``ports.executor.Executor`` that runs work at once.

    ``meanwhile`` is called before the result is delivered, as if time had passed.
    """

    def __init__(self) -> None:
        self.meanwhile: Callable[[], object] = lambda: None
        self.passes = 0

    async def run(self, function: Callable[[], T]) -> T:
        result = function()
        self.passes += 1
        self.meanwhile()
        return result


class ControllerEnvironment:
    """Controllers, and what outlives them: API server, cloud provider and clock.

    ``run`` starts controllers, ``crash`` kills them, ``wait`` advances the clock.
    """

    def __init__(self) -> None:
        self.clock = VirtualClock(start=START)
        self.api = ApiServer(now=self.clock.now)
        self.cloud = FakeCloudProvider(self.clock, on_write=self._record_write)
        self.interruptions = FakeInterruptionQueue()
        self.executor, self.random = ImmediateExecutor(), SeededRandomSource(1)
        self.log, self.metrics, self.events = RecordedLog(), RecordedMetrics(), RecordedEvents()
        self.writes: list[tuple[str, str]] = []
        """Every write of the controllers: verb and object."""
        self._factories: list[Factory] = []
        self._fields: dict[str, Any] = {}
        self._stops: list[Callable[[], None]] = []
        self._writes_left: int | None = None
        self._start_process()

    def _start_process(self) -> None:
        self.crashed = False
        self.loop = VirtualEventLoop(self.clock)
        self.cache = ClusterCache()
        self.launch_outcomes, self.unavailable_offerings = LaunchOutcomes(), UnavailableOfferings()
        self.failing_client = FailingKubeClient(SimulatedKubeClient(self.api), on_write=self._record_write)
        self.kube = WriteThroughClient(self.failing_client, self.cache)
        self.evictions = PendingEvictions()
        self.nominations = NodeNominations()
        self.assignments, self.keep_reasons = PodAssignments(self.cache), KeepReasons()
        self._stops = start_reflectors(self.cache, self.api, self.clock)

    async def _record_write(self, verb: str, about: str) -> None:
        self.writes.append((verb, about))
        if self._writes_left is None:
            return
        self._writes_left -= 1
        if self._writes_left == 0:
            self._writes_left = None
            self.loop.stop()
            self.crashed = True
            await VirtualFuture()  # Never done: the process is gone.

    def run(self, *factories: Factory, **fields: Any) -> Self:
        """Start controllers and wait until they are idle; ``fields`` replace the context's."""
        self._factories, self._fields = list(factories), fields
        context = self.context(**fields)
        built = (factory(context) for factory in factories)
        self.manager = ControllerManager([controller for controller in built if controller], context)
        self.manager.start()
        return self.wait(0)

    def context(self, **fields: Any) -> ControllerContext:
        """Return a context of fakes; ``fields`` replace some of them."""
        return msgspec.structs.replace(
            ControllerContext(
                kube=self.kube,
                cloud_provider=self.cloud,
                interruption_queue=self.interruptions,
                loop=self.loop,
                executor=self.executor,
                random=self.random,
                log=self.log,
                events=self.events,
                metrics=self.metrics,
                cache=self.cache,
                assignments=self.assignments,
                nominations=self.nominations,
                evictions=self.evictions,
                unavailable_offerings=self.unavailable_offerings,
                launch_outcomes=self.launch_outcomes,
                keep_reasons=self.keep_reasons,
            ),
            **fields,
        )

    def crash_after(self, writes: int) -> None:
        """Kill the controllers right after this many more writes."""
        self._writes_left = writes

    def crash(self) -> Self:
        """Kill the controllers; all of their memory is lost."""
        self.loop.stop()
        for stop in self._stops:
            stop()
        self._start_process()
        return self

    def restart(self) -> Self:
        """Kill the controllers and start them again."""
        return self.crash().run(*self._factories, **self._fields)

    def wait(self, seconds: float = 0, **more: float) -> Self:
        """Advance the clock; with 0, run what is due now."""
        self.clock.run(until=self.now + timedelta(seconds=seconds, **more))
        return self

    @property
    def now(self) -> datetime:
        return self.clock.now()

    # Actions of a user, a kubelet or the cloud.

    def add(self, resource: Resource, obj: Mapping[str, Any], namespace: str = "") -> Object:
        """Create an object with its status, and run what is due."""
        created = self.api.create(resource, obj, namespace)
        if obj.get("status"):
            created = self.patch(
                resource,
                created["metadata"]["name"],
                {"status": obj["status"]},
                created["metadata"].get("namespace", ""),
                subresource="status",
            )
        self.wait(0)
        return created

    def patch(
        self,
        resource: Resource,
        name: str,
        patch: dict[str, Any],
        namespace: str = "",
        *,
        subresource: str = "",
    ) -> Object:
        patched = self.api.patch(resource, name, patch, PatchType.MERGE, namespace, subresource=subresource)
        self.wait(0)
        return patched

    def delete(self, resource: Resource, name: str, namespace: str = "") -> Self:
        self.api.delete(resource, name, namespace)
        return self.wait(0)

    # Current objects.

    def get(self, resource: Resource, name: str, namespace: str = "") -> Any:
        """Return a mutable copy of an object, or None."""
        try:
            return thaw(self.api.get(resource, name, namespace))
        except NotFound:
            return None

    def claim(self, name: str = "claim") -> NodeClaim:
        claim = self.cache.claim(name)
        assert claim is not None, f"there is no claim {name}"
        return claim

    def node(self, name: str = "node") -> NodeObject:
        node = self.cache.node(name)
        assert node is not None, f"there is no node {name}"
        return node

    def pool(self, name: str = "default") -> NodePool:
        pool = self.cache.pool(name)
        assert pool is not None, f"there is no pool {name}"
        return pool

    def versions(self) -> dict[str, str]:
        """Return all objects with their resource versions; equal results mean no writes."""
        return {
            f"{resource.plural}/{obj['metadata'].get('namespace', '')}/{obj['metadata']['name']}": (
                obj["metadata"]["resourceVersion"]
            )
            for resource in self.cache.stores
            for obj in self.api.list(resource).items
        }


def condition(conditions: Conditions, kind: str) -> tuple[str, str]:
    """Return status and reason of a condition; two empty strings if it is absent."""
    current = conditions.get(kind)
    return ("", "") if current is None else (current.status, current.reason)
