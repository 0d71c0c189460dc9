"""A virtual account: bought over HTTP, its machines join an API server and run pods."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta

import pytest

from dovetail.data.bundled import bundled_catalog, bundled_prices
from dovetail.errors import BadInput, DovetailError
from dovetail.host.event_loop import AsyncioLoop
from dovetail.kube.client import HttpKube
from dovetail.kube.leaderelection.lease import NotLeading
from dovetail.model.karpenter.ec2nodeclass import NodeClass
from dovetail.model.karpenter.nodeclaim import NodeClaim
from dovetail.model.kube.resources import Resources
from dovetail.operator.virtual.account import AccountSettings, VirtualAccount
from dovetail.operator.virtual.client import RemoteCloud, Wire
from dovetail.operator.virtual.cloud import check_virtual
from dovetail.operator.virtual.server import AccountServer
from dovetail.ports.api_resources import LEASES, NODES, PODS
from dovetail.ports.cloudprovider import InstanceNotFound, NodeClassNotReady
from dovetail.ports.kube_client import Object
from dovetail.simulator.apiserver.server import ApiServer
from dovetail.state.instancetypes.nodeoverlays import Overlays
from dovetail.state.instancetypes.provider import Shelf
from dovetail.state.instancetypes.unavailable_offerings import Scarcity
from tests.kube.serving import Served, connected, served, until
from tests.support.telling import KeptLog

CATALOG = bundled_catalog()
SETTINGS = AccountSettings(
    region="us-east-1",
    catalog=CATALOG,
    prices=bundled_prices(),
    boot=timedelta(milliseconds=100),
)
READY = NodeClass(name="default", ready=True)
CLAIM = NodeClaim(name="default-x", uid="uid-1", requests=Resources({"cpu": 1000}))


class Site:
    """An API server, an account, and a controller's way to the account."""

    def __init__(self, server: Served, url: str) -> None:
        self.api = server.api
        self.classes = {READY.name: READY}
        self.may_write = True
        self.wire = Wire(url, cluster="test", guard=self._guard)
        scarcity = Scarcity()
        shelf = Shelf(
            CATALOG.machines_in("us-east-1"),
            region=CATALOG.regions["us-east-1"],
            prices=SETTINGS.prices,
            scarcity=scarcity,
        )
        self.cloud = RemoteCloud(
            self.wire,
            shelf=shelf,
            scarcity=scarcity,
            loop=AsyncioLoop(),
            node_class=self.classes.get,
            overlays=Overlays(on=False),
        )

    def nodes(self) -> list[Object]:
        return list(self.api.list(NODES).items)

    def phase(self, pod: str) -> str:
        return str(self.api.get(PODS, pod, "default")["status"].get("phase"))

    def is_ready(self) -> bool:
        told = {
            one["type"]: one["status"]
            for node in self.nodes()
            for one in node["status"]["conditions"]
        }
        return told.get("Ready") == "True"

    def _guard(self) -> None:
        if not self.may_write:
            raise NotLeading("not now")


@asynccontextmanager
async def a_site() -> AsyncIterator[Site]:
    api = ApiServer(now=lambda: datetime.now(UTC))  # noqa: TID251 - kubelets are in real time
    async with served(api) as server:
        account = VirtualAccount(server.access, SETTINGS, log=KeptLog())
        door = AccountServer(account)
        await account.start()
        site = Site(server, await door.start())
        try:
            yield site
        finally:
            await site.wire.close()
            await door.stop()
            await account.close()
            await asyncio.sleep(0.05)


def at_a_site(work: Callable[[Site], Awaitable[None]]) -> None:
    async def run() -> None:
        async with a_site() as site:
            await work(site)

    asyncio.run(run())


def a_bound_pod(node: str) -> Object:
    spec = {"nodeName": node, "containers": [{"name": "main", "image": "app"}]}
    return {"metadata": {"name": "web"}, "spec": spec}


def test_a_machine_joins_runs_pods_and_is_gone_when_it_is_given_back() -> None:
    async def work(site: Site) -> None:
        bought = await site.cloud.create(CLAIM)
        await until(lambda: bool(site.nodes()))
        (node,) = site.nodes()
        await until(site.is_ready)
        site.api.create(PODS, a_bound_pod(node["metadata"]["name"]), "default")
        await until(lambda: site.phase("web") == "Running")
        listed = await site.cloud.list()
        await site.cloud.delete(bought.provider_id)
        await asyncio.sleep(3.5)
        left = await site.cloud.list()

        assert node["spec"]["providerID"] == bought.provider_id
        assert [one.provider_id for one in listed] == [bought.provider_id]
        assert site.api.get(LEASES, node["metadata"]["name"], "kube-node-lease")
        assert list(left) == []
        with pytest.raises(InstanceNotFound):
            await site.cloud.get(bought.provider_id)

    at_a_site(work)


def test_the_same_claim_never_buys_twice_and_errors_come_through_as_they_are() -> None:
    async def work(site: Site) -> None:
        first = await site.cloud.create(CLAIM)
        second = await site.cloud.create(CLAIM)
        site.classes["default"] = NodeClass(name="default", ready=False)
        other = NodeClaim(name="default-y", uid="uid-2", requests=Resources({"cpu": 1000}))
        with pytest.raises(NodeClassNotReady, match="default-y"):
            await site.cloud.create(other)

        assert first == second
        assert [one.claim_uid for one in await site.wire.purchases()] == ["uid-1"]

    at_a_site(work)


def test_who_does_not_lead_buys_nothing() -> None:
    async def work(site: Site) -> None:
        site.may_write = False

        with pytest.raises(NotLeading):
            await site.cloud.create(CLAIM)

        assert list(await site.cloud.list()) == []

    at_a_site(work)


def test_a_region_that_is_not_there_is_said() -> None:
    async def run() -> None:
        async with served() as server:
            elsewhere = AccountSettings(region="x", catalog=CATALOG, prices=bundled_prices())
            VirtualAccount(server.access, elsewhere, log=KeptLog())

    with pytest.raises(BadInput, match="'x' is none of"):
        asyncio.run(run())


def test_real_nodes_are_noticed() -> None:
    async def run() -> None:
        async with served() as server, connected(server.access) as connection:
            server.api.create(NODES, {"metadata": {"name": "steel"}})
            await check_virtual(HttpKube(connection), anyway=True)
            await check_virtual(HttpKube(connection), anyway=False)

    with pytest.raises(DovetailError, match=r"real nodes \(steel\)"):
        asyncio.run(run())
