"""An EC2 account in memory whose machines join a real API server."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Final

import msgspec

from dovetail import __version__
from dovetail.errors import BadInput, DovetailError, Mistake
from dovetail.host.clock import RealClock
from dovetail.host.event_loop import AsyncioLoop
from dovetail.host.randomness import RealChance
from dovetail.kube.auth.kubeconfig import Access
from dovetail.kube.connection import Connection
from dovetail.kube.rate_limit import RateLimit
from dovetail.kube.reflector import Watcher
from dovetail.model.cloud.ec2_catalog import Catalog
from dovetail.model.cloud.prices import PriceBook
from dovetail.model.karpenter.ec2nodeclass import NodeClass
from dovetail.operator.virtual.blocking_api import RemoteApi
from dovetail.operator.virtual.protocol import Answer, Call, trouble_of
from dovetail.operator.virtual.volumes import KINDS as DISKS
from dovetail.operator.virtual.volumes import Disks
from dovetail.operator.virtual.watch_cache import Shadow
from dovetail.operator.virtual.worker_thread import Pump
from dovetail.ports.api_resources import NODES, PODS
from dovetail.ports.telemetry import Log
from dovetail.simulator.clock import Engine
from dovetail.simulator.ec2.account import VirtualEc2
from dovetail.simulator.ec2.cloudprovider import SimCloud
from dovetail.simulator.ec2.latencies import Latencies
from dovetail.simulator.instance import Machine
from dovetail.simulator.kubelet.kubelets import Kubelets
from dovetail.simulator.rest.pacing import Pace
from dovetail.state.instancetypes.unavailable_offerings import Scarcity

_QPS, _BURST = 2_000.0, 2_000
"""Of all kubelets together; each real one would have a rate of its own."""
USUAL_REGION: Final = "us-east-1"
_FIRST_NUMBERS: Final = 1 << 40


class AccountSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What users may choose of a virtual account."""

    region: str
    catalog: Catalog
    prices: PriceBook
    boot: timedelta = timedelta(seconds=30)


class VirtualAccount:
    """EC2 and its kubelets; made on the asyncio loop it runs on.

    EC2 lives on the loop. Kubelets wait for every write, so they have a thread.
    """

    def __init__(self, access: Access, settings: AccountSettings, *, log: Log) -> None:
        clock, self._chance = RealClock(), RealChance()
        if settings.region not in settings.catalog.regions:
            known = ", ".join(sorted(settings.catalog.regions))
            raise BadInput([Mistake("--region:", 0, "", f"{settings.region!r} is none of {known}")])
        self._settings = settings
        self._log = log
        self._loop = AsyncioLoop()
        self._engine = Engine(start=clock.now())
        self._pace = Pace(self._engine, speed=1.0, clock=clock.seconds)
        self._scarcity = Scarcity()
        self._classes: dict[str, NodeClass] = {}
        """As controllers last told of them."""
        self._clouds: dict[str, SimCloud] = {}
        self.ec2 = VirtualEc2(
            self._engine,
            region=settings.catalog.regions[settings.region],
            chance=self._chance,
            latencies=Latencies(boot=settings.boot),
            # No name or id of an earlier account may come again: its nodes may be there still.
            first=1 + int(self._chance.fraction() * _FIRST_NUMBERS),
        )
        self._pump = Pump(clock, log=log)
        self._shadow = Shadow((PODS, NODES, *DISKS), self._pump)
        self._connection = Connection(
            access,
            limit=RateLimit(clock=asyncio.get_running_loop().time, qps=_QPS, burst=_BURST),
            agent=f"dovetail/{__version__} virtual-kubelets",
        )
        self._stop = asyncio.Event()

    async def start(self) -> None:
        """Follow the API server from now on."""
        api = RemoteApi(self._connection, self._shadow, self._pump, asyncio.get_running_loop())
        for one in self._shadow.shelves:
            watcher = Watcher(
                self._shadow,
                one,
                self._connection,
                loop=self._loop,
                chance=self._chance,
                log=self._log,
            )
            await watcher.list_first()
            self._loop.spawn(watcher.run())
        kubelets = Kubelets(api, self._pump.engine)
        Disks(api, self._pump.engine, zone=min(self.ec2.region.zones))

        def boot(machine: Machine) -> None:
            self._pump.post(lambda: kubelets.boot(machine))

        def halt(provider_id: str) -> None:
            self._pump.post(lambda: kubelets.halt(provider_id))

        self.ec2.on_boot, self.ec2.on_halt = boot, halt
        self._pump.start()
        self._loop.spawn(self._pace.run(self._stop))

    async def close(self) -> None:
        """End everything: the machines are gone with it, their nodes stay."""
        self._stop.set()
        self._pump.stop()
        await asyncio.to_thread(self._pump.join)
        await self._loop.stop()
        await self._connection.close()

    async def answer(self, method: str, call: Call) -> Answer:
        """Do what is asked; every error of the cloud port is an answer, too."""
        if call.node_class is not None:
            self._classes[call.node_class.name] = call.node_class
        self._pace.catch_up()
        try:
            return await _METHODS[method](self, call)
        except DovetailError as error:
            scarce = tuple(sorted(self._scarcity.marks(self._loop.now())))
            return Answer(trouble=trouble_of(error), scarce=scarce)
        finally:
            self._pace.wake()

    def _cloud(self, cluster: str) -> SimCloud:
        if cluster not in self._clouds:
            self._clouds[cluster] = SimCloud(
                self.ec2,
                loop=self._loop,
                catalog=self._settings.catalog,
                prices=self._settings.prices,
                node_class=self._classes.get,
                scarcity=self._scarcity,
                cluster=cluster,
            )
        return self._clouds[cluster]

    async def _create(self, call: Call) -> Answer:
        instance = await self._cloud(call.cluster).create(call.the_claim)
        scarce = tuple(sorted(self._scarcity.marks(self._loop.now())))
        return Answer(instance=instance, scarce=scarce)

    async def _delete(self, call: Call) -> Answer:
        await self._cloud(call.cluster).delete(call.provider_id)
        return Answer()

    async def _get(self, call: Call) -> Answer:
        return Answer(instance=await self._cloud(call.cluster).get(call.provider_id))

    async def _list(self, call: Call) -> Answer:
        return Answer(instances=tuple(await self._cloud(call.cluster).list()))

    async def _drift(self, call: Call) -> Answer:
        return Answer(drift=await self._cloud(call.cluster).drift(call.the_claim))

    async def _resolve(self, call: Call) -> Answer:
        return Answer(status=await self._cloud(call.cluster).resolve(call.wire_class))

    async def _receive(self, _: Call) -> Answer:
        return Answer(messages=tuple(self.ec2.queue.receive(self._loop.now())))

    async def _remove(self, call: Call) -> Answer:
        if call.message is not None:
            self.ec2.queue.remove(call.message)
        return Answer()

    async def _purchases(self, _: Call) -> Answer:
        return Answer(purchases=tuple(self.ec2.ledger.purchases))


_METHODS: Final[dict[str, Callable[[VirtualAccount, Call], Awaitable[Answer]]]] = {
    "create": VirtualAccount._create,
    "delete": VirtualAccount._delete,
    "get": VirtualAccount._get,
    "list": VirtualAccount._list,
    "drift": VirtualAccount._drift,
    "resolve": VirtualAccount._resolve,
    "receive": VirtualAccount._receive,
    "remove": VirtualAccount._remove,
    "purchases": VirtualAccount._purchases,
}
METHODS: Final = tuple(_METHODS)
