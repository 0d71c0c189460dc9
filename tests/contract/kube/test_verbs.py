"""What controllers may rely on when they write, whichever way the API server is reached."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from dovetail.kube.client import HttpKube
from dovetail.ports.kube import Kube
from dovetail.ports.kubeerrors import AlreadyExists, Conflict, Invalid, NotFound, TooManyRequests
from dovetail.ports.resources import (
    CONFIG_MAPS,
    LEASES,
    NODE_CLAIMS,
    NODE_POOLS,
    POD_DISRUPTION_BUDGETS,
    PODS,
)
from dovetail.sim.kube import SimKube
from tests.contract.apiserver.objects import HOLD, a_lease, a_node_claim, a_node_pool, a_pod
from tests.kube.serving import Served, connected, served


@pytest.fixture(params=["memory", "http"])
def over(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def with_kube(work: Callable[[Kube, Served], Awaitable[None]], over: str) -> None:
    async def run() -> None:
        async with served() as server:
            if over == "memory":
                await work(SimKube(server.api), server)
                return
            async with connected(server.access) as connection:
                await work(HttpKube(connection), server)

    asyncio.run(run())


def test_what_is_created_can_be_read_patched_and_deleted(over: str) -> None:
    async def work(kube: Kube, server: Served) -> None:
        made = await kube.create(LEASES, a_lease("mine"), "default")
        patched = await kube.patch(LEASES, "mine", {"spec": {"holderIdentity": "you"}}, "default")
        read = await kube.get(LEASES, "mine", "default")
        left = await kube.delete(LEASES, "mine", "default", uid=made["metadata"]["uid"])

        assert made["spec"]["holderIdentity"] == "me"
        assert read == patched
        assert read["spec"]["holderIdentity"] == "you"
        assert left is None
        assert server.api.list(LEASES).items == []

    with_kube(work, over)


def test_a_status_is_patched_apart_from_its_object(over: str) -> None:
    async def work(kube: Kube, _: Served) -> None:
        await kube.create(NODE_CLAIMS, a_node_claim("one"))
        both = {"metadata": {"labels": {"a": "b"}}, "status": {"providerID": "aws:///a/i-1"}}

        patched = await kube.patch(NODE_CLAIMS, "one", both, subresource="status")

        assert patched["status"]["providerID"] == "aws:///a/i-1"
        assert not patched["metadata"].get("labels")

    with_kube(work, over)


def test_an_object_kept_by_a_finalizer_is_returned_by_its_deletion(over: str) -> None:
    async def work(kube: Kube, _: Served) -> None:
        claim = a_node_claim("held")
        claim["metadata"]["finalizers"] = [HOLD]
        await kube.create(NODE_CLAIMS, claim)

        left = await kube.delete(NODE_CLAIMS, "held")

        assert left is not None
        assert left["metadata"]["deletionTimestamp"]

    with_kube(work, over)


@pytest.mark.parametrize(("grace", "stays"), [(0, False), (30, True)])
def test_a_pod_is_returned_by_its_deletion_only_while_it_has_grace(
    over: str, grace: int, stays: bool
) -> None:
    async def work(kube: Kube, server: Served) -> None:
        await kube.create(PODS, a_pod("web"), "default")
        server.api.bind("web", "default", {"target": {"kind": "Node", "name": "n"}})

        left = await kube.delete(PODS, "web", "default", grace_seconds=grace)

        assert (left is not None) == stays
        assert bool(server.api.list(PODS).items) == stays

    with_kube(work, over)


def test_a_list_is_whole_however_many_pages_it_takes(over: str) -> None:
    async def work(kube: Kube, server: Served) -> None:
        for number in range(1203):
            labels = {"odd": str(number % 2)}
            obj = {"metadata": {"name": f"m{number:04d}", "labels": labels}}
            server.api.create(CONFIG_MAPS, obj, "default")

        everything = await kube.list(CONFIG_MAPS)
        some = await kube.list(CONFIG_MAPS, labels="odd=1")
        one = await kube.list(CONFIG_MAPS, fields="metadata.name=m0007")

        assert len({obj["metadata"]["name"] for obj in everything}) == 1203
        assert len(some) == 601
        assert [obj["metadata"]["name"] for obj in one] == ["m0007"]

    with_kube(work, over)


def test_refusals_are_the_ones_that_controllers_know(over: str) -> None:
    async def work(kube: Kube, _: Served) -> None:
        made = await kube.create(LEASES, a_lease("there"), "default")
        stale = {"metadata": {"resourceVersion": "1"}, "spec": {"holderIdentity": "x"}}

        with pytest.raises(NotFound, match="missing"):
            await kube.get(LEASES, "missing", "default")
        with pytest.raises(NotFound, match="nowhere"):
            await kube.create(LEASES, a_lease("x"), "nowhere")
        with pytest.raises(AlreadyExists, match="there"):
            await kube.create(LEASES, a_lease("there"), "default")
        with pytest.raises(Conflict):
            await kube.patch(LEASES, "there", stale, "default")
        with pytest.raises(Conflict):
            await kube.delete(LEASES, "there", "default", uid="another")
        with pytest.raises(Invalid) as refused:
            await kube.create(NODE_POOLS, a_node_pool("bad", weight=1000))
        assert refused.value.details["causes"][0]["field"] == "spec.weight"
        assert made["metadata"]["uid"]

    with_kube(work, over)


def test_an_eviction_that_a_budget_forbids_is_too_many_requests(over: str) -> None:
    async def work(kube: Kube, server: Served) -> None:
        pod = await kube.create(PODS, a_pod("web", labels={"app": "web"}), "default")
        free = await kube.create(PODS, a_pod("free"), "default")
        server.api.bind("web", "default", {"target": {"kind": "Node", "name": "n"}})
        ready = [{"type": "Ready", "status": "True"}]
        status = {"phase": "Running", "conditions": ready}
        await kube.patch(PODS, "web", {"status": status}, "default", subresource="status")
        spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}}
        budget = {"metadata": {"name": "keep"}, "spec": spec}
        await kube.create(POD_DISRUPTION_BUDGETS, budget, "default")

        with pytest.raises(TooManyRequests):
            await kube.evict("web", "default", uid=pod["metadata"]["uid"])
        with pytest.raises(Conflict):
            await kube.evict("free", "default", uid="another")
        await kube.evict("free", "default", uid=free["metadata"]["uid"])

        assert [one["metadata"]["name"] for one in server.api.list(PODS).items] == ["web"]

    with_kube(work, over)
