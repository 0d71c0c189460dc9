"""What controllers may rely on when they write, whichever way the API server is reached."""

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
from tests.contract.apiserver.objects import (
    HOLD,
    NO_FINALIZERS,
    a_lease,
    a_node_claim,
    a_node_pool,
    a_pod,
)
from tests.contract.kube.places import Place, Reach


def test_what_is_created_can_be_read_patched_and_deleted(reach: Reach) -> None:
    async def work(place: Place) -> None:
        kube, here = place.kube, place.namespace
        made = await kube.create(LEASES, a_lease("mine"), here)
        patched = await kube.patch(LEASES, "mine", {"spec": {"holderIdentity": "you"}}, here)
        read = await kube.get(LEASES, "mine", here)
        left = await kube.delete(LEASES, "mine", here, uid=made["metadata"]["uid"])

        assert made["spec"]["holderIdentity"] == "me"
        assert read == patched
        assert read["spec"]["holderIdentity"] == "you"
        assert left is None
        assert not await place.exists(LEASES, "mine")

    reach(work)


def test_a_status_is_patched_apart_from_its_object(reach: Reach) -> None:
    async def work(place: Place) -> None:
        kube, name = place.kube, place.unique("one")
        await kube.create(NODE_CLAIMS, a_node_claim(name))
        both = {"metadata": {"labels": {"a": "b"}}, "status": {"providerID": "aws:///a/i-1"}}

        patched = await kube.patch(NODE_CLAIMS, name, both, subresource="status")

        assert patched["status"]["providerID"] == "aws:///a/i-1"
        assert not patched["metadata"].get("labels")
        await kube.delete(NODE_CLAIMS, name)

    reach(work)


def test_an_object_kept_by_a_finalizer_is_returned_by_its_deletion(reach: Reach) -> None:
    async def work(place: Place) -> None:
        kube, name = place.kube, place.unique("held")
        claim = a_node_claim(name)
        claim["metadata"]["finalizers"] = [HOLD]
        await kube.create(NODE_CLAIMS, claim)

        left = await kube.delete(NODE_CLAIMS, name)

        assert left is not None
        assert left["metadata"]["deletionTimestamp"]
        await kube.patch(NODE_CLAIMS, name, NO_FINALIZERS)

    reach(work)


@pytest.mark.parametrize(("grace", "stays"), [(0, False), (30, True)])
def test_a_pod_is_returned_by_its_deletion_only_while_it_has_grace(
    reach: Reach, grace: int, stays: bool
) -> None:
    async def work(place: Place) -> None:
        kube, here = place.kube, place.namespace
        await place.create_pod(a_pod("web", nodeName="n"))

        left = await kube.delete(PODS, "web", here, grace_seconds=grace)

        assert (left is not None) == stays
        assert await place.exists(PODS, "web") == stays

    reach(work)


def test_a_list_is_whole_however_many_pages_it_takes(reach: Reach) -> None:
    async def work(place: Place) -> None:
        kube, here = place.kube, place.namespace
        mine = {"run": here}

        async def create(number: int) -> None:
            labels = {**mine, "odd": str(number % 2)}
            meta = {"name": f"m{number:04d}", "labels": labels}
            await kube.create(CONFIG_MAPS, {"metadata": meta}, here)

        for first in range(0, 1203, 20):
            await asyncio.gather(*map(create, range(first, min(first + 20, 1203))))

        everything = await kube.list(CONFIG_MAPS, labels=f"run={here}")
        some = await kube.list(CONFIG_MAPS, labels=f"run={here},odd=1")
        one = await kube.list(CONFIG_MAPS, labels=f"run={here}", fields="metadata.name=m0007")

        assert len({obj["metadata"]["name"] for obj in everything}) == 1203
        assert len(some) == 601
        assert [obj["metadata"]["name"] for obj in one] == ["m0007"]

    reach(work)


def test_refusals_are_the_ones_that_controllers_know(reach: Reach) -> None:
    async def work(place: Place) -> None:
        kube, here = place.kube, place.namespace
        made = await kube.create(LEASES, a_lease("there"), here)
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
        with pytest.raises(Invalid) as refused:
            await kube.create(NODE_POOLS, a_node_pool(place.unique("bad"), weight=1000))
        assert refused.value.details["causes"][0]["field"] == "spec.weight"
        assert made["metadata"]["uid"]

    reach(work)


def test_an_eviction_that_a_budget_forbids_is_too_many_requests(reach: Reach) -> None:
    async def work(place: Place) -> None:
        kube, here = place.kube, place.namespace
        pod = await place.create_pod(a_pod("web", labels={"app": "web"}, nodeName="n"))
        free = await place.create_pod(a_pod("free"))
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

        assert await place.exists(PODS, "web")
        assert not await place.exists(PODS, "free")

    reach(work)
