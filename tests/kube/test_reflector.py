"""The mirror ends equal to the API server, whatever happens in between."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dovetail.ports.api_resources import NODES, PODS
from dovetail.simulator.apiserver.options import DeleteOptions, PatchType
from dovetail.simulator.apiserver.server import ApiServer
from dovetail.state.cluster.cache import ClusterCache, ObjectChange
from tests.contract.apiserver.objects import a_pod
from tests.kube.api_server import Served, differences, mirrored, served, until
from tests.support.telemetry import RecordedLog

NOW = DeleteOptions(grace_period_seconds=0)


def following(work: Callable[[Served, ClusterCache, RecordedLog], Awaitable[None]]) -> None:
    async def run() -> None:
        async with served() as server:
            server.api.create(PODS, a_pod("first"), "default")
            async with mirrored(server.access) as (cache, log):
                await work(server, cache, log)

    asyncio.run(run())


async def agree(server: Served, cache: ClusterCache) -> None:
    await until(lambda: not differences(cache, server.api), lambda: differences(cache, server.api))


def relabel(api: ApiServer, name: str, value: str) -> None:
    patch = {"metadata": {"labels": {"x": value}}}
    api.patch(PODS, name, patch, PatchType.MERGE, "default")


def test_the_cache_contains_existing_and_changed_objects() -> None:
    async def work(server: Served, cache: ClusterCache, _: RecordedLog) -> None:
        assert cache.has_synced()
        assert cache.pod("default", "first") is not None

        server.api.create(PODS, a_pod("second"), "default")
        server.api.create(NODES, {"metadata": {"name": "n"}})
        relabel(server.api, "first", "y")
        await agree(server, cache)
        server.api.delete(PODS, "first", "default", options=NOW)
        await agree(server, cache)

        assert cache.pod("default", "first") is None
        assert cache.pod("default", "second") is not None

    following(work)


def test_a_list_in_pages_is_complete() -> None:
    async def run() -> None:
        async with served() as server:
            for number in range(1100):
                server.api.create(PODS, a_pod(f"p{number}"), "default")
            async with mirrored(server.access) as (cache, _):
                assert len(cache.unbound_pods()) == 1100
                assert differences(cache, server.api) == []

    asyncio.run(run())


def test_a_broken_watch_resumes_without_a_list() -> None:
    async def work(server: Served, cache: ClusterCache, _: RecordedLog) -> None:
        changes: list[ObjectChange] = []
        cache.subscribe(PODS, changes.append)
        for number in range(20):
            server.api.create(PODS, a_pod(f"p{number}"), "default")
            await asyncio.sleep(0.002)
            server.wire.cut()
        await agree(server, cache)

        names = [change.new.name for change in changes]
        assert names == ["first", *(f"p{number}" for number in range(20))]

    following(work)


def test_changes_during_an_outage_arrive_afterwards() -> None:
    async def work(server: Served, cache: ClusterCache, _: RecordedLog) -> None:
        await server.stop()
        server.api.create(PODS, a_pod("meanwhile"), "default")
        server.api.delete(PODS, "first", "default", options=NOW)
        await asyncio.sleep(0.1)
        await server.start()
        await agree(server, cache)

        assert cache.pod("default", "meanwhile") is not None
        assert cache.pod("default", "first") is None

    following(work)


def test_after_a_compaction_handlers_get_deletions_and_additions() -> None:
    async def work(server: Served, cache: ClusterCache, _: RecordedLog) -> None:
        server.api.create(PODS, a_pod("goes"), "default")
        await agree(server, cache)
        changes: list[tuple[str, bool, bool]] = []
        cache.subscribe(
            PODS,
            lambda change: changes.append(
                (change.latest.name, change.old is not None, change.new is not None)
            ),
        )
        changes.clear()

        await server.stop()
        server.api.delete(PODS, "goes", "default", options=NOW)
        server.api.delete(PODS, "first", "default", options=NOW)
        server.api.create(PODS, a_pod("first"), "default")
        server.api.compact()
        await server.start()
        await agree(server, cache)

        assert sorted(changes) == [("first", False, True), ("first", True, False), ("goes", True, False)]

    following(work)


ACTIONS = st.lists(
    st.one_of(
        st.tuples(st.just("create"), st.integers(0, 5)),
        st.tuples(st.just("change"), st.integers(0, 5)),
        st.tuples(st.just("delete"), st.integers(0, 5)),
        st.tuples(st.sampled_from(["cut", "stop", "start", "compact", "rest"]), st.just(0)),
    ),
    min_size=5,
    max_size=40,
)


def act(api: ApiServer, what: str, number: int, step: int) -> None:
    name = f"p{number}"
    there = name in {entry["metadata"]["name"] for entry in api.list(PODS).items}
    if what == "create" and not there:
        api.create(PODS, a_pod(name), "default")
    elif what == "change" and there:
        relabel(api, name, str(step))
    elif what == "delete" and there:
        api.delete(PODS, name, "default", options=NOW)
    elif what == "compact":
        api.compact()


async def disturb(server: Served, what: str) -> None:
    if what == "cut":
        server.wire.cut()
    elif what == "stop":
        await server.stop()
    elif what == "start":
        await server.stop()
        await server.start()
    elif what == "rest":
        await asyncio.sleep(0.02)
    await asyncio.sleep(0)


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True)
@given(ACTIONS)
def test_the_cache_converges_and_handlers_get_consistent_events(actions: list[tuple[str, int]]) -> None:
    async def work(server: Served, cache: ClusterCache, _: RecordedLog) -> None:
        observed: dict[str, Any] = {}
        torn: list[ObjectChange] = []

        def hear(change: ObjectChange) -> None:
            if observed.get(change.latest.name) != change.old:
                torn.append(change)
            observed[change.latest.name] = change.new

        cache.subscribe(PODS, hear)
        for step, (what, number) in enumerate(actions):
            act(server.api, what, number, step)
            await disturb(server, what)
        await server.stop()
        await server.start()
        await agree(server, cache)

        assert torn == []
        now = {entry["metadata"]["name"] for entry in server.api.list(PODS).items}
        assert {name for name, pod in observed.items() if pod is not None} == now

    following(work)
