"""A small world for controllers: API server, cloud and virtual time, and a way to kill them."""

import inspect
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from functools import partial
from typing import Any, TypeVar

from dovetail.controllers.runtime.manager import Registration, Runtime
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
from dovetail.simulator.clock import Engine
from dovetail.simulator.event_loop import Pause, VirtualLoop
from dovetail.simulator.kube_client import SimKube, feed
from dovetail.simulator.randomness import SeededChance
from dovetail.state.cluster.cache import Mirror
from dovetail.state.cluster.write_through import ReadYourWrites
from dovetail.state.instancetypes.unavailable_offerings import Scarcity
from dovetail.state.nodes.keep_reasons import Stays
from dovetail.state.nodes.launch_outcomes import LaunchOutcomes
from dovetail.state.nodes.nominations import Nominations
from dovetail.state.pods.assignments import Promises
from dovetail.state.pods.evictions import Evictions
from tests.support.cloud import ScriptedCloud
from tests.support.cluster import START
from tests.support.faults import Faults
from tests.support.telling import KeptEvents, KeptLog, KeptMetrics

T = TypeVar("T")
Factory = Callable[..., Any]
"""A controller, or its ``registration``; it is given what its parameters are named after."""


class AtOnce:
    """``ports.executor.Offload``; a test may have something happen while it thinks."""

    def __init__(self) -> None:
        self.meanwhile: Callable[[], object] = lambda: None
        self.passes = 0

    async def run(self, work: Callable[[], T]) -> T:
        found = work()
        self.passes += 1
        self.meanwhile()
        return found


class World:
    """What outlives the controllers (API server, cloud, time), and the controllers.

    ``run`` starts controllers, ``crash`` kills them, ``wait`` lets time pass.
    """

    def __init__(self) -> None:
        self.engine = Engine(start=START)
        self.chance = SeededChance(1)
        self.api = ApiServer(now=self.engine.now)
        self.cloud = self.interruptions = ScriptedCloud(self.engine, note=self._note)
        self.offload, self.chance = AtOnce(), SeededChance(1)
        self.log, self.metrics, self.events = KeptLog(), KeptMetrics(), KeptEvents()
        self.writes: list[tuple[str, str]] = []
        """Every change that controllers made to the world: verb, and what was changed."""
        self._factories: list[Factory] = []
        self._stops: list[Callable[[], None]] = []
        self._lives: int | None = None
        self._born()

    def _born(self) -> None:
        self.dead = False
        self.loop = VirtualLoop(self.engine)
        self.mirror = Mirror()
        self.outcomes, self.scarcity = LaunchOutcomes(), Scarcity()
        self.faults = Faults(SimKube(self.api), note=self._note)
        self.kube = ReadYourWrites(self.faults, self.mirror)
        self.evictions = Evictions()
        self.nominations = Nominations()
        self.promises, self.stays = Promises(self.mirror), Stays()
        self._stops = feed(self.mirror, self.api, self.engine)

    async def _note(self, verb: str, about: str) -> None:
        self.writes.append((verb, about))
        if self._lives is None:
            return
        self._lives -= 1
        if self._lives == 0:
            self._lives = None
            self.loop.stop()
            self.dead = True
            await Pause()  # Nobody ends it: the process is gone.

    def run(self, *factories: Factory) -> "World":
        """Start controllers and let them come to rest; ``functools.partial`` adds settings."""
        self._factories = list(factories)
        self.runtime = Runtime(
            [self._made(one) for one in factories],
            mirror=self.mirror,
            loop=self.loop,
            log=self.log,
            metrics=self.metrics,
        )
        self.runtime.start()
        return self.wait(0)

    def _made(self, factory: Factory) -> Registration:
        settled = factory.keywords if isinstance(factory, partial) else {}
        names = inspect.signature(factory).parameters
        given = {name: getattr(self, name) for name in names if hasattr(self, name)}
        made = factory(**{name: one for name, one in given.items() if name not in settled})
        return made if isinstance(made, Registration) else made.registration()

    def die_after(self, writes: int) -> None:
        """Kill the controllers right after so many more changes have come through."""
        self._lives = writes

    def crash(self) -> "World":
        """Kill the controllers: nothing that they had in memory is left."""
        self.loop.stop()
        for stop in self._stops:
            stop()
        self._born()
        return self

    def restart(self) -> "World":
        """Kill the controllers and start them anew."""
        return self.crash().run(*self._factories)

    def wait(self, seconds: float = 0, **more: float) -> "World":
        """Let virtual time pass; with 0, all that happens at this instant."""
        self.engine.run(until=self.now + timedelta(seconds=seconds, **more))
        return self

    @property
    def now(self) -> datetime:
        return self.engine.now()

    # What a user, a kubelet or the cloud does.

    def add(self, resource: Resource, obj: Mapping[str, Any], namespace: str = "") -> Object:
        """Create an object, its status included, and let the controllers see it."""
        made = self.api.create(resource, obj, namespace)
        if obj.get("status"):
            made = self.patch(
                resource,
                made["metadata"]["name"],
                {"status": obj["status"]},
                made["metadata"].get("namespace", ""),
                subresource="status",
            )
        self.wait(0)
        return made

    def patch(
        self,
        resource: Resource,
        name: str,
        patch: dict[str, Any],
        namespace: str = "",
        *,
        subresource: str = "",
    ) -> Object:
        made = self.api.patch(
            resource, name, patch, PatchType.MERGE, namespace, subresource=subresource
        )
        self.wait(0)
        return made

    def delete(self, resource: Resource, name: str, namespace: str = "") -> "World":
        self.api.delete(resource, name, namespace)
        return self.wait(0)

    # What is there.

    def get(self, resource: Resource, name: str, namespace: str = "") -> Any:
        """An object on the wire, or None; the caller may change it."""
        try:
            return thaw(self.api.get(resource, name, namespace))
        except NotFound:
            return None

    def claim(self, name: str = "claim") -> NodeClaim:
        found = self.mirror.claim(name)
        assert found is not None, f"there is no claim {name}"
        return found

    def node(self, name: str = "node") -> NodeObject:
        found = self.mirror.node(name)
        assert found is not None, f"there is no node {name}"
        return found

    def pool(self, name: str = "default") -> NodePool:
        found = self.mirror.pool(name)
        assert found is not None, f"there is no pool {name}"
        return found

    def versions(self) -> dict[str, str]:
        """Every object and its version: equal pictures mean that nobody wrote."""
        return {
            f"{resource.plural}/{one['metadata'].get('namespace', '')}/{one['metadata']['name']}": (
                one["metadata"]["resourceVersion"]
            )
            for resource in self.mirror.tables
            for one in self.api.list(resource).items
        }


def condition(known: Conditions, kind: str) -> tuple[str, str]:
    """Status and reason of a condition; two empty texts where it is absent."""
    found = known.get(kind)
    return ("", "") if found is None else (found.status, found.reason)
