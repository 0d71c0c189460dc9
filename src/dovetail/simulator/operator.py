"""One life of the controllers in a simulated cluster: started, and perhaps killed."""

from collections.abc import Callable
from typing import TypeVar

from dovetail.controllers.registry import Tools, registrations
from dovetail.controllers.runtime.event_recorder import Recorder
from dovetail.controllers.runtime.manager import Runtime
from dovetail.model.cloud.discounts import NO_DISCOUNTS, DiscountBook
from dovetail.model.cloud.ec2_catalog import Catalog
from dovetail.model.cloud.prices import PriceBook
from dovetail.model.settings import ConsolidationSettings, Gates, SchedulingSettings
from dovetail.ports.kube_client import Kube
from dovetail.ports.randomness import Chance
from dovetail.ports.telemetry import Log, Metrics
from dovetail.simulator.apiserver.server import ApiServer
from dovetail.simulator.clock import Engine
from dovetail.simulator.ec2.account import VirtualEc2
from dovetail.simulator.ec2.cloudprovider import SimCloud
from dovetail.simulator.ec2.interruption_queue import SimInterruptions
from dovetail.simulator.event_loop import VirtualLoop
from dovetail.simulator.kube_client import feed
from dovetail.state.capacitybuffers import Buffers
from dovetail.state.cluster.cache import Mirror
from dovetail.state.cluster.write_through import ReadYourWrites
from dovetail.state.instancetypes.nodeoverlays import Overlays
from dovetail.state.instancetypes.unavailable_offerings import Scarcity
from dovetail.state.nodes.nominations import Nominations
from dovetail.state.pods.assignments import Promises
from dovetail.state.pods.evictions import Evictions

T = TypeVar("T")


class Inline:
    """``ports.executor.Offload``: thinking takes no virtual time."""

    async def run(self, work: Callable[[], T]) -> T:
        return work()


class Operator:
    """The production controllers with simulated ports; all their memory dies with it."""

    def __init__(
        self,
        *,
        api: ApiServer,
        engine: Engine,
        ec2: VirtualEc2,
        catalog: Catalog,
        prices: PriceBook,
        chance: Chance,
        log: Log,
        metrics: Metrics,
        settings: SchedulingSettings,
        gates: Gates,
        kube: Kube,
        discounts: DiscountBook = NO_DISCOUNTS,
    ) -> None:
        """Start working; ``kube`` leads to ``api``, perhaps by way of somebody who looks on."""
        self._loop = VirtualLoop(engine)
        self.mirror = Mirror(gates)
        self._stops = feed(self.mirror, api, engine)
        kube = ReadYourWrites(kube, self.mirror)
        scarcity, overlays = Scarcity(), Overlays(on=gates.NodeOverlay)
        cloud = SimCloud(
            ec2,
            loop=self._loop,
            catalog=catalog,
            prices=prices,
            node_class=self.mirror.node_class,
            scarcity=scarcity,
            overlays=overlays,
            discounts=discounts,
        )
        tools = Tools(
            mirror=self.mirror,
            promises=Promises(self.mirror),
            nominations=Nominations(),
            evictions=Evictions(),
            scarcity=scarcity,
            overlays=overlays,
            buffers=Buffers(on=gates.CapacityBuffer),
            kube=kube,
            cloud=cloud,
            interruptions=SimInterruptions(ec2.queue, loop=self._loop),
            loop=self._loop,
            offload=Inline(),
            chance=chance,
            log=log,
            events=Recorder(kube=kube, loop=self._loop, chance=chance, log=log),
            metrics=metrics,
            settings=settings,
            consolidation=ConsolidationSettings(spot_to_spot=gates.SpotToSpotConsolidation),
            gates=gates,
        )
        self.runtime = Runtime(
            registrations(tools), mirror=self.mirror, loop=self._loop, log=log, metrics=metrics
        )
        self.runtime.start()

    def kill(self) -> None:
        """Die at once: nothing started here goes on, nothing more is heard."""
        self._loop.stop()
        for stop in self._stops:
            stop()
