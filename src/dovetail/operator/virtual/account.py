"""Virtual account: simulated EC2 whose instances join a real API server."""

import asyncio
from datetime import timedelta
from typing import Final

import msgspec
from aiohttp import web

from dovetail import __version__
from dovetail.errors import DovetailError, InvalidInputError, ValidationError
from dovetail.host.clock import SystemClock
from dovetail.host.event_loop import AsyncioEventLoop
from dovetail.host.randomness import SystemRandomSource
from dovetail.kube.auth.kubeconfig import RestConfig
from dovetail.kube.connection import Connection
from dovetail.kube.rate_limit import RateLimiter
from dovetail.kube.reflector import Reflector
from dovetail.model.cloud.ec2_catalog import Catalog
from dovetail.model.cloud.prices import PriceBook
from dovetail.model.karpenter.ec2nodeclass import EC2NodeClass
from dovetail.operator.virtual.blocking_api import BlockingApiClient
from dovetail.operator.virtual.protocol import Request, Response, decode, encode, encode_error
from dovetail.operator.virtual.volumes import VOLUME_RESOURCES, EbsProvisioner
from dovetail.operator.virtual.watch_cache import WatchCache
from dovetail.operator.virtual.worker_thread import WorkerThread
from dovetail.ports.api_resources import NODES, PODS
from dovetail.ports.telemetry import Log
from dovetail.simulator.clock import VirtualClock
from dovetail.simulator.ec2.account import Ec2Account
from dovetail.simulator.ec2.cloudprovider import SimulatedCloudProvider
from dovetail.simulator.instance import BootedInstance
from dovetail.simulator.kubelet.kubelets import Kubelets
from dovetail.simulator.latencies import CloudLatencies
from dovetail.simulator.rest.real_time import RealTimeRunner
from dovetail.state.instancetypes.nodeoverlays import NodeOverlays
from dovetail.state.instancetypes.unavailable_offerings import UnavailableOffering, UnavailableOfferings

_QPS, _BURST = 2_000.0, 2_000
"""Rate limit of all kubelets together; a real kubelet has one of its own."""
DEFAULT_REGION: Final = "us-east-1"
_MAX_FIRST_NUMBER: Final = 1 << 40
_METHODS: Final = frozenset("create delete get list drift resolve receive remove launches".split())
_LOOPBACK: Final = "127.0.0.1"
_MAX_BODY_BYTES: Final = 16 << 20
_SHUTDOWN_TIMEOUT: Final = 1.0


class AccountSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of a virtual account."""

    region: str
    catalog: Catalog
    prices: PriceBook
    boot_time: timedelta = timedelta(seconds=30)
    kubelet_expressions: bool = False
    """Feature gate NodeClassCEL."""


class VirtualAccount:
    """Simulated EC2 and kubelets; created on the asyncio loop that it runs on.

    EC2 runs on the loop. Kubelets block on every write, so they have a thread.
    """

    def __init__(self, access: RestConfig, settings: AccountSettings, *, log: Log) -> None:
        clock, self._random = SystemClock(), SystemRandomSource()
        if settings.region not in settings.catalog.regions:
            known = ", ".join(sorted(settings.catalog.regions))
            raise InvalidInputError(
                [ValidationError("--region:", 0, "", f"{settings.region!r} is none of {known}")]
            )
        self._settings = settings
        self._log = log
        self._loop = AsyncioEventLoop()
        self._clock = VirtualClock(start=clock.now())
        self._runner = RealTimeRunner(self._clock, speed=1.0, clock=clock.seconds)
        self._unavailable = UnavailableOfferings()
        self._classes: dict[str, EC2NodeClass] = {}
        """Node classes as controllers last sent them."""
        self._providers: dict[str, SimulatedCloudProvider] = {}
        self._overlays: dict[str, NodeOverlays] = {}
        """Cluster → NodeOverlays as its controllers last sent them."""
        self.ec2 = Ec2Account(
            self._clock,
            region=settings.catalog.regions[settings.region],
            random=self._random,
            latencies=CloudLatencies(boot=settings.boot_time),
            # Ids must differ from those of an earlier account, whose nodes may still exist.
            first_number=1 + int(self._random.random() * _MAX_FIRST_NUMBER),
        )
        self._worker = WorkerThread(clock, log=log)
        self._cache = WatchCache((PODS, NODES, *VOLUME_RESOURCES), self._worker)
        self._connection = Connection(
            access,
            rate_limiter=RateLimiter(clock=asyncio.get_running_loop().time, qps=_QPS, burst=_BURST),
            user_agent=f"dovetail/{__version__} virtual-kubelets",
        )
        self._stop = asyncio.Event()

    async def start(self) -> None:
        """List and watch the API server, and start the kubelets."""
        api = BlockingApiClient(self._connection, self._cache, self._worker, asyncio.get_running_loop())
        for resource in self._cache.stores:
            reflector = Reflector(
                self._cache, resource, self._connection, loop=self._loop, random=self._random, log=self._log
            )
            await reflector.initial_list()
            self._loop.spawn(reflector.run())
        kubelets = Kubelets(api, self._worker.clock)
        EbsProvisioner(api, self._worker.clock, zone=min(self.ec2.region.zones))

        def boot(instance: BootedInstance) -> None:
            self._worker.post(lambda: kubelets.start(instance))

        def halt(provider_id: str) -> None:
            self._worker.post(lambda: kubelets.stop(provider_id))

        self.ec2.on_booted, self.ec2.on_terminated = boot, halt
        self._worker.start()
        self._loop.spawn(self._runner.run(self._stop))

    async def close(self) -> None:
        """Stop; the instances are gone, their nodes stay."""
        self._stop.set()
        self._worker.stop()
        await asyncio.to_thread(self._worker.join)
        await self._loop.stop()
        await self._connection.close()

    async def handle(self, method: str, request: Request) -> Response:
        """Handle a request; errors of the cloud provider are responses too."""
        if request.node_class is not None:
            self._classes[request.node_class.name] = request.node_class
        self._runner.catch_up()
        try:
            return await self._call(method, request)
        except DovetailError as error:
            return Response(error=encode_error(error), unavailable=self._list_unavailable())
        finally:
            self._runner.wake()

    def _provider(self, cluster: str) -> SimulatedCloudProvider:
        if cluster not in self._providers:
            self._providers[cluster] = SimulatedCloudProvider(
                self.ec2,
                loop=self._loop,
                catalog=self._settings.catalog,
                prices=self._settings.prices,
                node_class=self._classes.get,
                unavailable=self._unavailable,
                overlays=self._overlays.setdefault(cluster, NodeOverlays(enabled=True)),
                cluster=cluster,
                kubelet_expressions=self._settings.kubelet_expressions,
            )
        return self._providers[cluster]

    async def _call(self, method: str, request: Request) -> Response:
        provider = self._provider(request.cluster)
        match method:
            case "create":
                self._set_overlays(request)
                instance = await provider.create(request.required_claim)
                return Response(instance=instance, unavailable=self._list_unavailable())
            case "delete":
                await provider.delete(request.provider_id)
            case "get":
                return Response(instance=await provider.get(request.provider_id))
            case "list":
                return Response(instances=tuple(await provider.list()))
            case "drift":
                return Response(drift_reason=await provider.drift_reason(request.required_claim))
            case "resolve":
                return Response(status=await provider.resolve_nodeclass(request.node_class_object))
            case "receive":
                return Response(messages=tuple(self.ec2.queue.receive(self._loop.now())))
            case "remove":
                self.ec2.queue.delete(request.required_message)
            case "launches":
                return Response(launches=tuple(self.ec2.billing.launches))
        return Response()

    def _set_overlays(self, request: Request) -> None:
        """Apply the NodeOverlays of the caller: they change which offering is the cheapest."""
        overlays = self._overlays[request.cluster]
        if request.pool is None:
            overlays.update((), ())
        else:
            overlays.set_for_pool(request.pool, request.overlays)

    def _list_unavailable(self) -> tuple[UnavailableOffering, ...]:
        return tuple(sorted(self._unavailable.get(self._loop.now())))


class AccountServer:
    """Serves the cloud provider as ``POST /<method>``."""

    def __init__(self, account: VirtualAccount) -> None:
        self._account = account
        app = web.Application(client_max_size=_MAX_BODY_BYTES)
        app.router.add_post("/{method}", self._handle)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=_SHUTDOWN_TIMEOUT)

    async def start(self, port: int = 0) -> str:
        """Listen on loopback; return the URL."""
        await self._runner.setup()
        await web.TCPSite(self._runner, _LOOPBACK, port).start()
        return f"http://{_LOOPBACK}:{self._runner.addresses[0][1]}"

    async def stop(self) -> None:
        await self._runner.cleanup()

    async def _handle(self, request: web.Request) -> web.Response:
        method = request.match_info["method"]
        # CSRF: a web page cannot send this content type without a preflight request.
        if method not in _METHODS or request.content_type != "application/json":
            raise web.HTTPNotFound
        try:
            message = decode(await request.read(), Request)
        except msgspec.MsgspecError as error:
            raise web.HTTPBadRequest(text=str(error)) from error
        response = await self._account.handle(method, message)
        return web.Response(body=encode(response), content_type="application/json")
