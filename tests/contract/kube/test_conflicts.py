"""Writes of other clients while a controller works on an object: none is lost."""

from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest

from dovetail.controllers.context import ControllerContext
from dovetail.controllers.nodeclaim.consolidatable import controller as consolidatable
from dovetail.controllers.nodeclaim.lifecycle import controller as lifecycle
from dovetail.controllers.runtime.manager import Reconciler
from dovetail.host.event_loop import AsyncioEventLoop
from dovetail.model.karpenter.condition_types import INITIALIZED, LAUNCHED, REGISTERED
from dovetail.model.karpenter.nodeclaim import NodeClaim
from dovetail.ports.api_resources import NODE_CLAIMS, NODE_POOLS
from dovetail.ports.cloudprovider import Instance
from dovetail.ports.kube_client import Object
from dovetail.ports.kube_errors import Conflict
from dovetail.state.cluster.cache import ClusterCache
from dovetail.state.cluster.write_through import WriteThroughClient
from tests.contract.apiserver.objects import a_node_claim, a_node_pool
from tests.contract.kube.clients import ClientUnderTest, RunTest
from tests.support.controllers.cloud_provider import FakeCloudProvider
from tests.support.controllers.environment import ControllerEnvironment

PROVIDER_ID = "aws:///us-east-1a/i-0123456789abcdef0"


class LaunchingProvider(FakeCloudProvider):
    """A CloudProvider whose launches take as long as ``meanwhile``."""

    def __init__(self, meanwhile: Callable[[], Awaitable[None]]) -> None:
        async def ignore(verb: str, about: str) -> None: ...

        super().__init__(AsyncioEventLoop(), on_write=ignore)
        self._meanwhile = meanwhile

    async def create(self, claim: NodeClaim) -> Instance:
        instance = await super().create(claim)
        await self._meanwhile()
        return instance


class StaleController:
    """A controller whose watches never report the writes of others."""

    def __init__(self, client: ClientUnderTest, provider: FakeCloudProvider) -> None:
        self.cache = ClusterCache()
        for store in self.cache.stores.values():
            store.load(())
        self._client = client
        self._context = msgspec.structs.replace(
            ControllerEnvironment().context(),
            kube=WriteThroughClient(client.kube, self.cache),
            cache=self.cache,
            cloud_provider=provider,
            loop=AsyncioEventLoop(),
        )

    def build(self, factory: Callable[[ControllerContext], Any]) -> Reconciler:
        reconciler: Reconciler = factory(self._context).reconciler
        return reconciler


async def reconcile(reconciler: Reconciler, key: str, *, attempts: int = 3) -> None:
    """Reconcile as the manager does: again after a conflict."""
    for _ in range(attempts):
        try:
            if await reconciler.reconcile(key) is None:
                return
        except Conflict:
            continue
    pytest.fail(f"not reconciled in {attempts} attempts")


def get_conditions(claim: Object) -> dict[str, str]:
    return {condition["type"]: condition["status"] for condition in claim["status"]["conditions"]}


def a_condition(name: str) -> dict[str, str]:
    return {
        "type": name,
        "status": "True",
        "reason": name,
        "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }


def test_status_and_labels_written_during_a_launch_are_kept(run_test: RunTest) -> None:
    async def body(client: ClientUnderTest) -> None:
        kube, name = client.kube, client.unique("claim")

        async def write_as_another_client() -> None:
            status = {"conditions": [a_condition("Audited")], "lastPodEventTime": "2026-01-01T00:00:00Z"}
            await kube.patch(NODE_CLAIMS, name, {"status": status}, subresource="status")
            await kube.patch(NODE_CLAIMS, name, {"metadata": {"labels": {"example.com/team": "a"}}})

        provider = LaunchingProvider(write_as_another_client)
        controller = StaleController(client, provider)
        controller.cache.apply_response(NODE_CLAIMS, await kube.create(NODE_CLAIMS, a_node_claim(name)))

        await reconcile(controller.build(lifecycle.controller), name)
        claim = await kube.get(NODE_CLAIMS, name)

        assert provider.launched == [name]
        assert claim["status"]["providerID"] in provider.instances
        assert get_conditions(claim).items() >= {"Audited": "True", LAUNCHED: "True"}.items()
        assert claim["status"]["lastPodEventTime"] == "2026-01-01T00:00:00Z"
        assert claim["metadata"]["labels"]["example.com/team"] == "a"
        await kube.patch(NODE_CLAIMS, name, {"metadata": {"finalizers": None}})
        await kube.delete(NODE_CLAIMS, name)

    run_test(body)


def test_condition_that_another_controller_writes_is_kept(run_test: RunTest) -> None:
    async def body(client: ClientUnderTest) -> None:
        kube, name, pool = client.kube, client.unique("claim"), client.unique("pool")
        conditions = [a_condition(name) for name in (LAUNCHED, REGISTERED, INITIALIZED)]
        created = a_node_claim(name)
        created["metadata"]["labels"] = {"karpenter.sh/nodepool": pool}
        disruption = {"consolidateAfter": "0s", "consolidationPolicy": "WhenEmpty"}
        await kube.create(NODE_CLAIMS, created)
        status = {"providerID": PROVIDER_ID, "conditions": conditions}
        read = await kube.patch(NODE_CLAIMS, name, {"status": status}, subresource="status")
        controller = StaleController(client, FakeCloudProvider(AsyncioEventLoop(), on_write=_ignore))
        controller.cache.apply_response(NODE_CLAIMS, read)
        controller.cache.apply_response(
            NODE_POOLS, await kube.create(NODE_POOLS, a_node_pool(pool, disruption=disruption))
        )
        added = [*read["status"]["conditions"], a_condition("Audited")]
        await kube.patch(NODE_CLAIMS, name, {"status": {"conditions": added}}, subresource="status")

        await reconcile(controller.build(consolidatable), name)
        claim = await kube.get(NODE_CLAIMS, name)

        assert get_conditions(claim).items() >= {"Audited": "True", "Consolidatable": "True"}.items()
        await kube.delete(NODE_CLAIMS, name)
        await kube.delete(NODE_POOLS, pool)

    run_test(body)


async def _ignore(verb: str, about: str) -> None: ...
