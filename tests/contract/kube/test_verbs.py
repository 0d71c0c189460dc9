"""Guarantees of every KubeClient: get, list, create, update, patch, delete and watch."""

import asyncio

import pytest

from dovetail.ports.api_resources import (
    CONFIG_MAPS,
    LEASES,
    NODE_CLAIMS,
    NODE_POOLS,
    POD_DISRUPTION_BUDGETS,
    PODS,
)
from dovetail.ports.kube_errors import AlreadyExists, Conflict, Invalid, NotFound, TooManyRequests
from tests.contract.apiserver.objects import HOLD, NO_FINALIZERS, a_lease, a_node_claim, a_node_pool, a_pod
from tests.contract.kube.clients import ClientUnderTest, RunTest


def test_a_created_object_can_be_read_patched_and_deleted(run_test: RunTest) -> None:
    async def body(client: ClientUnderTest) -> None:
        kube, here = client.kube, client.namespace
        created = await kube.create(LEASES, a_lease("mine"), here)
        patched = await kube.patch(LEASES, "mine", {"spec": {"holderIdentity": "you"}}, here)
        read = await kube.get(LEASES, "mine", here)
        left = await kube.delete(LEASES, "mine", here, uid=created["metadata"]["uid"])

        assert created["spec"]["holderIdentity"] == "me"
        assert read == patched
        assert read["spec"]["holderIdentity"] == "you"
        assert left is None
        assert not await client.exists(LEASES, "mine")

    run_test(body)


def test_a_status_is_patched_separately_from_its_object(run_test: RunTest) -> None:
    async def body(client: ClientUnderTest) -> None:
        kube, name = client.kube, client.unique("one")
        await kube.create(NODE_CLAIMS, a_node_claim(name))
        both = {"metadata": {"labels": {"a": "b"}}, "status": {"providerID": "aws:///a/i-1"}}

        patched = await kube.patch(NODE_CLAIMS, name, both, subresource="status")

        assert patched["status"]["providerID"] == "aws:///a/i-1"
        assert not patched["metadata"].get("labels")
        await kube.delete(NODE_CLAIMS, name)

    run_test(body)


def test_an_object_kept_by_a_finalizer_is_returned_by_its_deletion(run_test: RunTest) -> None:
    async def body(client: ClientUnderTest) -> None:
        kube, name = client.kube, client.unique("held")
        claim = a_node_claim(name)
        claim["metadata"]["finalizers"] = [HOLD]
        await kube.create(NODE_CLAIMS, claim)

        left = await kube.delete(NODE_CLAIMS, name)

        assert left is not None
        assert left["metadata"]["deletionTimestamp"]
        await kube.patch(NODE_CLAIMS, name, NO_FINALIZERS)

    run_test(body)


@pytest.mark.parametrize(("grace", "stays"), [(0, False), (30, True)])
def test_a_pod_is_returned_by_its_deletion_only_during_its_grace_period(
    run_test: RunTest, grace: int, stays: bool
) -> None:
    async def body(client: ClientUnderTest) -> None:
        kube, here = client.kube, client.namespace
        await client.create_pod(a_pod("web", nodeName="n"))

        left = await kube.delete(PODS, "web", here, grace_seconds=grace)

        assert (left is not None) == stays
        assert await client.exists(PODS, "web") == stays

    run_test(body)


def test_a_list_is_complete_over_many_pages(run_test: RunTest) -> None:
    async def body(client: ClientUnderTest) -> None:
        kube, here = client.kube, client.namespace
        mine = {"run": here}

        async def create(number: int) -> None:
            labels = {**mine, "odd": str(number % 2)}
            meta = {"name": f"m{number:04d}", "labels": labels}
            await kube.create(CONFIG_MAPS, {"metadata": meta}, here)

        for first in range(0, 1203, 20):
            await asyncio.gather(*map(create, range(first, min(first + 20, 1203))))

        everything = await kube.list(CONFIG_MAPS, labels=f"run={here}")
        some = await kube.list(CONFIG_MAPS, labels=f"run={here},odd=1")
        matching = await kube.list(CONFIG_MAPS, labels=f"run={here}", fields="metadata.name=m0007")

        assert len({obj["metadata"]["name"] for obj in everything}) == 1203
        assert len(some) == 601
        assert [obj["metadata"]["name"] for obj in matching] == ["m0007"]

    run_test(body)


def test_errors_are_those_that_controllers_handle(run_test: RunTest) -> None:
    async def body(client: ClientUnderTest) -> None:
        kube, here = client.kube, client.namespace
        created = await kube.create(LEASES, a_lease("there"), here)
        stale = {"metadata": {"resourceVersion": "1"}, "spec": {"holderIdentity": "x"}}

        with pytest.raises(NotFound, match="missing"):
            await kube.get(LEASES, "missing", here)
        with pytest.raises(NotFound, match="nowhere"):
            await kube.create(LEASES, a_lease("x"), "nowhere")
        with pytest.raises(AlreadyExists, match="there"):
            await kube.create(LEASES, a_lease("there"), here)
        with pytest.raises(Conflict):
            await kube.patch(LEASES, "there", stale, here)
        with pytest.raises(Conflict):
            await kube.delete(LEASES, "there", here, uid="another")
        with pytest.raises(Invalid) as error:
            await kube.create(NODE_POOLS, a_node_pool(client.unique("bad"), weight=1000))
        assert error.value.details["causes"][0]["field"] == "spec.weight"
        assert created["metadata"]["uid"]

    run_test(body)


def test_an_eviction_that_a_pdb_forbids_is_too_many_requests(run_test: RunTest) -> None:
    async def body(client: ClientUnderTest) -> None:
        kube, here = client.kube, client.namespace
        pod = await client.create_pod(a_pod("web", labels={"app": "web"}, nodeName="n"))
        free = await client.create_pod(a_pod("free"))
        ready = [{"type": "Ready", "status": "True"}]
        status = {"phase": "Running", "conditions": ready}
        await kube.patch(PODS, "web", {"status": status}, here, subresource="status")
        spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}}
        budget = {"metadata": {"name": "keep"}, "spec": spec}
        await kube.create(POD_DISRUPTION_BUDGETS, budget, here)

        with pytest.raises(TooManyRequests):
            await kube.evict("web", here, uid=pod["metadata"]["uid"])
        with pytest.raises(Conflict):
            await kube.evict("free", here, uid="another")
        await kube.evict("free", here, uid=free["metadata"]["uid"])

        assert await client.exists(PODS, "web")
        assert not await client.exists(PODS, "free")

    run_test(body)
