"""What is particular to reaching an API server over HTTP; ``tests/contract/kube`` has the rest."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

import msgspec
import pytest

from dovetail.kube.client import HttpKube
from dovetail.ports.api_resources import CONFIG_MAPS, LEASES
from dovetail.ports.kube_errors import ApiError, Unauthorized, Unavailable
from tests.contract.apiserver.objects import a_lease
from tests.kube.serving import Served, connected, served
from tests.simulator.rest.serving import TOKEN

T = TypeVar("T")


def with_kube(work: Callable[[HttpKube, Served], Awaitable[T]], *, token: str = TOKEN) -> T:
    async def run() -> T:
        async with served() as server:
            async with connected(server.access, token=token) as connection:
                return await work(HttpKube(connection), server)

    return asyncio.run(run())


def test_who_wrote_is_remembered_by_the_server() -> None:
    async def work(kube: HttpKube, _: Served) -> None:
        made = await kube.create(LEASES, a_lease("mine"), "default")

        assert {one["manager"] for one in made["metadata"]["managedFields"]} == {"karpenter"}

    with_kube(work)


def test_a_wrong_token_is_unauthorized() -> None:
    async def work(kube: HttpKube, _: Served) -> None:
        with pytest.raises(Unauthorized):
            await kube.get(LEASES, "x", "default")

    with_kube(work, token="wrong")  # noqa: S106


def test_a_token_that_has_ended_is_replaced_and_the_request_made_again() -> None:
    class Rotating:
        async def token(self, *, refused: bool = False) -> str:
            return TOKEN if refused else "ended"

    async def work(_: HttpKube, server: Served) -> None:
        access = msgspec.structs.replace(server.access, credentials=Rotating())
        async with connected(access) as connection:
            assert await HttpKube(connection).list(LEASES) == []

    with_kube(work)


def test_a_server_that_is_away_is_unavailable_and_the_next_request_finds_it_again() -> None:
    async def work(kube: HttpKube, server: Served) -> None:
        await kube.create(LEASES, a_lease("mine"), "default")
        await server.stop()

        with pytest.raises(Unavailable, match="does not answer"):
            await kube.get(LEASES, "mine", "default")
        await server.start()

        assert await kube.get(LEASES, "mine", "default")

    with_kube(work)


def test_answers_cut_short_are_errors_that_controllers_know() -> None:
    async def work(kube: HttpKube, server: Served) -> None:
        for number in range(300):
            obj = {"metadata": {"name": f"m{number}"}, "data": {"x": "y" * 2000}}
            server.api.create(CONFIG_MAPS, obj, "default")
        outcomes: list[object] = []
        for step in range(30):
            asking = asyncio.ensure_future(kube.list(CONFIG_MAPS))
            await asyncio.sleep(step * 0.0005)
            server.wire.cut()
            outcomes += await asyncio.gather(asking, return_exceptions=True)

        assert all(isinstance(one, list | ApiError) for one in outcomes), outcomes
        assert any(isinstance(one, Unavailable) for one in outcomes)

    with_kube(work)
