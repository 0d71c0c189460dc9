"""The mirror ends equal to the API server, whatever happens in between."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dovetail.ports.api_resources import NODES, PODS
from dovetail.simulator.apiserver.delete import DeleteOptions
from dovetail.simulator.apiserver.options import PatchType
from dovetail.simulator.apiserver.server import ApiServer
from dovetail.state.cluster.cache import Change, Mirror
from tests.contract.apiserver.objects import a_pod
from tests.kube.serving import (
    Served,
    differences,
    mirrored,
    served,
    until,
)
from tests.support.telling import KeptLog

NOW = DeleteOptions(grace_seconds=0)


def following(work: Callable[[Served, Mirror, KeptLog], Awaitable[None]]) -> None:
    async def run() -> None:
        async with served() as server:
            server.api.create(PODS, a_pod("first"), "default")
            async with mirrored(server.access) as (mirror, log):
                await work(server, mirror, log)

    asyncio.run(run())


async def agree(server: Served, mirror: Mirror) -> None:
    await until(
        lambda: not differences(mirror, server.api), lambda: differences(mirror, server.api)
    )


def relabel(api: ApiServer, name: str, value: str) -> None:
    patch = {"metadata": {"labels": {"x": value}}}
    api.patch(PODS, name, patch, PatchType.MERGE, "default")


def test_what_is_there_is_in_the_mirror_and_so_is_what_changes() -> None:
    async def work(server: Served, mirror: Mirror, _: KeptLog) -> None:
        assert mirror.synced()
        assert mirror.pod("default", "first") is not None

        server.api.create(PODS, a_pod("second"), "default")
        server.api.create(NODES, {"metadata": {"name": "n"}})
        relabel(server.api, "first", "y")
        await agree(server, mirror)
        server.api.delete(PODS, "first", "default", options=NOW)
        await agree(server, mirror)

        assert mirror.pod("default", "first") is None
        assert mirror.pod("default", "second") is not None

    following(work)


def test_a_list_of_many_pages_is_whole() -> None:
    async def run() -> None:
        async with served() as server:
            for number in range(1100):
                server.api.create(PODS, a_pod(f"p{number}"), "default")
            async with mirrored(server.access) as (mirror, _):
                assert len(mirror.unbound_pods()) == 1100
                assert differences(mirror, server.api) == []

    asyncio.run(run())


def test_a_cut_watch_goes_on_where_it_was_without_listing_again() -> None:
    async def work(server: Served, mirror: Mirror, _: KeptLog) -> None:
        changes: list[Change] = []
        mirror.subscribe(PODS, changes.append)
        for number in range(20):
            server.api.create(PODS, a_pod(f"p{number}"), "default")
            await asyncio.sleep(0.002)
            server.wire.cut()
        await agree(server, mirror)

        names = [change.new.name for change in changes]
        assert names == ["first", *(f"p{number}" for number in range(20))]

    following(work)


def test_what_happened_while_the_server_was_away_is_heard_afterwards() -> None:
    async def work(server: Served, mirror: Mirror, _: KeptLog) -> None:
        await server.stop()
        server.api.create(PODS, a_pod("meanwhile"), "default")
        server.api.delete(PODS, "first", "default", options=NOW)
        await asyncio.sleep(0.1)
        await server.start()
        await agree(server, mirror)

        assert mirror.pod("default", "meanwhile") is not None
        assert mirror.pod("default", "first") is None

    following(work)


def test_after_a_compaction_handlers_hear_of_ends_and_of_new_beginnings() -> None:
    async def work(server: Served, mirror: Mirror, _: KeptLog) -> None:
        server.api.create(PODS, a_pod("goes"), "default")
        await agree(server, mirror)
        changes: list[tuple[str, bool, bool]] = []
        mirror.subscribe(
            PODS,
            lambda one: changes.append((one.either.name, one.old is not None, one.new is not None)),
        )
        changes.clear()

        await server.stop()
        server.api.delete(PODS, "goes", "default", options=NOW)
        server.api.delete(PODS, "first", "default", options=NOW)
        server.api.create(PODS, a_pod("first"), "default")
        server.api.compact()
        await server.start()
        await agree(server, mirror)

        assert sorted(changes) == [
            ("first", False, True),
            ("first", True, False),
            ("goes", True, False),
        ]

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
    there = name in {one["metadata"]["name"] for one in api.list(PODS).items}
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


@settings(
    max_examples=12, deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True
)
@given(ACTIONS)
def test_the_mirror_ends_equal_to_the_server_and_handlers_hear_one_consistent_story(
    actions: list[tuple[str, int]],
) -> None:
    async def work(server: Served, mirror: Mirror, _: KeptLog) -> None:
        seen: dict[str, Any] = {}
        torn: list[Change] = []

        def hear(change: Change) -> None:
            if seen.get(change.either.name) != change.old:
                torn.append(change)
            seen[change.either.name] = change.new

        mirror.subscribe(PODS, hear)
        for step, (what, number) in enumerate(actions):
            act(server.api, what, number, step)
            await disturb(server, what)
        await server.stop()
        await server.start()
        await agree(server, mirror)

        assert torn == []
        now = {one["metadata"]["name"] for one in server.api.list(PODS).items}
        assert {name for name, pod in seen.items() if pod is not None} == now

    following(work)
