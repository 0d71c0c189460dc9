"""Virtual account: instances join an API server and run pods."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta

import pytest
from msgspec.structs import replace

from dovetail.data.bundled import bundled_catalog, bundled_prices
from dovetail.errors import DovetailError, InvalidInputError
from dovetail.host.event_loop import AsyncioEventLoop
from dovetail.kube.client import HttpKubeClient
from dovetail.kube.leaderelection.lease import NotLeaderError
from dovetail.model.frozen import FrozenDict
from dovetail.model.karpenter.ec2nodeclass import EC2NodeClass
from dovetail.model.karpenter.nodeclaim import NodeClaim
from dovetail.model.karpenter.nodeoverlay import NodeOverlay
from dovetail.model.karpenter.nodepool import NodePool, NodeTemplate
from dovetail.model.kube.requirements import Operator, RequirementSpec
from dovetail.model.kube.resources import Resources
from dovetail.model.labels import INSTANCE_TYPE, NODEPOOL
from dovetail.operator.virtual.account import AccountServer, AccountSettings, VirtualAccount
from dovetail.operator.virtual.client import AccountClient, VirtualCloudProvider
from dovetail.operator.virtual.cloud import check_no_real_nodes
from dovetail.ports.api_resources import LEASES, NODES, PODS
from dovetail.ports.cloudprovider import InstanceNotFoundError, NodeClassNotReadyError
from dovetail.ports.kube_client import Object
from dovetail.simulator.apiserver.server import ApiServer
from dovetail.state.instancetypes.nodeoverlays import NodeOverlays
from dovetail.state.instancetypes.provider import InstanceTypeProvider
from dovetail.state.instancetypes.unavailable_offerings import UnavailableOfferings
from tests.kube.api_server import Served, connected, served, until
from tests.support.telemetry import RecordedLog

CATALOG = bundled_catalog()
SETTINGS = AccountSettings(
    region="us-east-1", catalog=CATALOG, prices=bundled_prices(), boot_time=timedelta(milliseconds=100)
)
READY = EC2NodeClass(name="default", ready=True)
CLAIM = NodeClaim(name="default-x", uid="uid-1", requests=Resources({"cpu": 1000}))


class AccountEnvironment:
    """An API server, a virtual account and its CloudProvider."""

    def __init__(self, server: Served, url: str) -> None:
        self.api = server.api
        self.classes = {READY.name: READY}
        self.may_write = True
        self.client = AccountClient(url, cluster="test", fence=self._guard)
        self.overlays = NodeOverlays(enabled=True)
        unavailable = UnavailableOfferings()
        provider = InstanceTypeProvider(
            CATALOG.instance_types_in("us-east-1"),
            region=CATALOG.regions["us-east-1"],
            prices=SETTINGS.prices,
            unavailable=unavailable,
        )
        self.cloud = VirtualCloudProvider(
            self.client,
            instance_types=provider,
            unavailable=unavailable,
            loop=AsyncioEventLoop(),
            node_class=self.classes.get,
            overlays=self.overlays,
        )

    def nodes(self) -> list[Object]:
        return list(self.api.list(NODES).items)

    def allocatable(self) -> dict[str, str]:
        """Return the allocatable resources of the first node."""
        return dict(self.nodes()[0]["status"].get("allocatable", {})) if self.nodes() else {}

    def phase(self, pod: str) -> str:
        return str(self.api.get(PODS, pod, "default")["status"].get("phase"))

    def is_ready(self) -> bool:
        conditions = {
            entry["type"]: entry["status"] for node in self.nodes() for entry in node["status"]["conditions"]
        }
        return conditions.get("Ready") == "True"

    def _guard(self) -> None:
        if not self.may_write:
            raise NotLeaderError("not the leader")


@asynccontextmanager
async def an_environment() -> AsyncIterator[AccountEnvironment]:
    api = ApiServer(now=lambda: datetime.now(UTC))  # noqa: TID251 - kubelets are in real time
    async with served(api) as server:
        account = VirtualAccount(server.access, SETTINGS, log=RecordedLog())
        account_server = AccountServer(account)
        await account.start()
        env = AccountEnvironment(server, await account_server.start())
        try:
            yield env
        finally:
            await env.client.close()
            await account_server.stop()
            await account.close()
            await asyncio.sleep(0.05)


def run_in_environment(work: Callable[[AccountEnvironment], Awaitable[None]]) -> None:
    async def run() -> None:
        async with an_environment() as env:
            await work(env)

    asyncio.run(run())


def a_bound_pod(node: str) -> Object:
    spec = {"nodeName": node, "containers": [{"name": "main", "image": "app"}]}
    return {"metadata": {"name": "web"}, "spec": spec}


@pytest.mark.slow
def test_nodeoverlays_change_prices_and_capacity_of_virtual_instances() -> None:
    async def work(env: AccountEnvironment) -> None:
        types = RequirementSpec(INSTANCE_TYPE, Operator.IN, ("m5.large", "m6i.24xlarge"))
        large = RequirementSpec(INSTANCE_TYPE, Operator.IN, ("m6i.24xlarge",))
        pool = NodePool(name="default", template=NodeTemplate(node_class=CLAIM.node_class))
        claim = replace(CLAIM, labels=FrozenDict({NODEPOOL: "default"}), requirements=(types,))
        cheap = NodeOverlay(name="cheap", requirements=(large,), price="0.01")
        device = NodeOverlay(name="device", capacity=Resources({"example.com/device": 2}))
        env.overlays.update((cheap, device), [pool.name])
        env.cloud.instance_types(pool)

        cheapest = await env.cloud.create(claim)
        (launch,) = await env.client.launches()
        await until(lambda: "example.com/device" in env.allocatable())
        devices = env.allocatable()["example.com/device"]
        env.overlays.update((), [])
        without = await env.cloud.create(replace(claim, name="default-y", uid="uid-2"))

        assert cheapest.instance_type == "m6i.24xlarge"
        assert launch.price == 0.01
        assert cheapest.capacity["example.com/device"] == 2
        assert devices == "2"
        assert without.instance_type == "m5.large"
        assert "example.com/device" not in without.capacity

    run_in_environment(work)


def test_a_virtual_instance_joins_runs_pods_and_terminates() -> None:
    async def work(env: AccountEnvironment) -> None:
        launched = await env.cloud.create(CLAIM)
        await until(lambda: bool(env.nodes()))
        (node,) = env.nodes()
        await until(env.is_ready)
        env.api.create(PODS, a_bound_pod(node["metadata"]["name"]), "default")
        await until(lambda: env.phase("web") == "Running")
        listed = await env.cloud.list()
        await env.cloud.delete(launched.provider_id)
        await asyncio.sleep(3.5)
        left = await env.cloud.list()

        assert node["spec"]["providerID"] == launched.provider_id
        assert [entry.provider_id for entry in listed] == [launched.provider_id]
        assert env.api.get(LEASES, node["metadata"]["name"], "kube-node-lease")
        assert list(left) == []
        with pytest.raises(InstanceNotFoundError):
            await env.cloud.get(launched.provider_id)

    run_in_environment(work)


def test_a_claim_launches_once_and_errors_keep_their_type() -> None:
    async def work(env: AccountEnvironment) -> None:
        first = await env.cloud.create(CLAIM)
        second = await env.cloud.create(CLAIM)
        env.classes["default"] = EC2NodeClass(name="default", ready=False)
        other = NodeClaim(name="default-y", uid="uid-2", requests=Resources({"cpu": 1000}))
        with pytest.raises(NodeClassNotReadyError, match="default-y"):
            await env.cloud.create(other)

        assert first == second
        assert [launch.claim_uid for launch in await env.client.launches()] == ["uid-1"]

    run_in_environment(work)


def test_a_standby_launches_nothing() -> None:
    async def work(env: AccountEnvironment) -> None:
        env.may_write = False

        with pytest.raises(NotLeaderError):
            await env.cloud.create(CLAIM)

        assert list(await env.cloud.list()) == []

    run_in_environment(work)


def test_an_unknown_region_is_named() -> None:
    async def run() -> None:
        async with served() as server:
            elsewhere = AccountSettings(region="x", catalog=CATALOG, prices=bundled_prices())
            VirtualAccount(server.access, elsewhere, log=RecordedLog())

    with pytest.raises(InvalidInputError, match="'x' is none of"):
        asyncio.run(run())


def test_real_nodes_are_rejected() -> None:
    async def run() -> None:
        async with served() as server, connected(server.access) as connection:
            server.api.create(NODES, {"metadata": {"name": "steel"}})
            await check_no_real_nodes(HttpKubeClient(connection), allow_real_nodes=True)
            await check_no_real_nodes(HttpKubeClient(connection), allow_real_nodes=False)

    with pytest.raises(DovetailError, match=r"real nodes \(steel\)"):
        asyncio.run(run())
