"""A virtual account as the cloud of a real process."""

import asyncio
from typing import Final

import msgspec

from dovetail.errors import BadInput, DovetailError, Mistake
from dovetail.kube.auth.kubeconfig import Access
from dovetail.model.cloud.discounts import NO_DISCOUNTS, DiscountBook
from dovetail.operator.cloud import Hired, Surroundings
from dovetail.operator.virtual.account import AccountSettings, VirtualAccount
from dovetail.operator.virtual.client import RemoteCloud, RemoteInterruptions, Wire
from dovetail.operator.virtual.server import AccountServer
from dovetail.ports.api_resources import NODES
from dovetail.ports.kube_client import Kube
from dovetail.simulator.kubelet.node_status import OS_IMAGE
from dovetail.state.instancetypes.provider import Shelf

_SHOWN: Final = 3


class VirtualSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What users may choose of a virtual cloud."""

    cluster_name: str
    account: AccountSettings
    endpoint: str = ""
    """Of an account in another process; empty: one of our own, that ends with us."""
    discounts: DiscountBook = NO_DISCOUNTS
    anyway: bool = False
    """Also where there are real nodes."""


async def check_virtual(kube: Kube, *, anyway: bool) -> None:
    """Raise when a cluster has nodes that are not ours: virtual ones would run nobody's pods."""
    if anyway:
        return
    real = [
        one["metadata"]["name"]
        for one in await kube.list(NODES)
        if ((one.get("status") or {}).get("nodeInfo") or {}).get("osImage") != OS_IMAGE
    ]
    if real:
        more = f" and {len(real) - _SHOWN} more" if len(real) > _SHOWN else ""
        raise DovetailError(
            f"this cluster has real nodes ({', '.join(sorted(real)[:_SHOWN])}{more}), and on "
            "virtual ones pods would only seem to run; if you want that, give --virtual-anyway"
        )


class VirtualHire:
    """Makes the adapter; an instance is a ``Hire``."""

    def __init__(self, access: Access, settings: VirtualSettings) -> None:
        self._access = access
        self._settings = settings

    async def __call__(self, around: Surroundings) -> Hired:
        settings = self._settings
        chosen = settings.account
        if chosen.region not in chosen.catalog.regions:
            what = f"{chosen.region!r} is no region of the bundled catalogue"
            raise BadInput([Mistake("--region:", 0, "", what)])
        await check_virtual(around.kube, anyway=settings.anyway)
        ours = None if settings.endpoint else _Ours(self._access, chosen, around)
        url = settings.endpoint or await _started(ours)
        wire = Wire(url, cluster=settings.cluster_name, guard=around.guard)

        async def leave() -> None:
            await wire.close()
            if ours is not None:
                await ours.stop()

        try:
            # Fails now rather than at the first purchase.
            await wire.ask("list")
        except DovetailError:
            await leave()
            raise
        cloud = RemoteCloud(
            wire,
            shelf=Shelf(
                chosen.catalog.machines_in(chosen.region),
                region=chosen.catalog.regions[chosen.region],
                prices=chosen.prices,
                scarcity=around.scarcity,
                discounts=settings.discounts,
                running=dict,
            ),
            scarcity=around.scarcity,
            overlays=around.overlays,
            loop=around.loop,
            node_class=around.mirror.node_class,
        )
        around.log.info("using a virtual cloud", endpoint=url)
        return Hired(
            cloud=cloud,
            interruptions=RemoteInterruptions(wire, loop=around.loop),
            close=lambda: None,
            leave=leave,
            provider="virtual",
        )


class _Ours:
    """An account that lives and dies with the controllers."""

    def __init__(self, access: Access, settings: AccountSettings, around: Surroundings) -> None:
        self._account = VirtualAccount(access, settings, log=around.log)
        self._server = AccountServer(self._account)

    async def start(self) -> str:
        await self._account.start()
        return await self._server.start()

    async def stop(self) -> None:
        await asyncio.gather(self._server.stop(), self._account.close())


async def _started(ours: _Ours | None) -> str:
    return "" if ours is None else await ours.start()
