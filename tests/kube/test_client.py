"""HTTP client specifics; ``tests/contract/kube`` has the rest."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

import msgspec
import pytest

from dovetail.kube.client import HttpKubeClient
from dovetail.ports.api_resources import CONFIG_MAPS, LEASES
from dovetail.ports.kube_errors import ApiError, Unauthorized, Unavailable
from tests.contract.apiserver.objects import a_lease
from tests.kube.api_server import Served, connected, served
from tests.simulator.rest.rest_server import TOKEN

T = TypeVar("T")


def with_kube(work: Callable[[HttpKubeClient, Served], Awaitable[T]], *, token: str = TOKEN) -> T:
    async def run() -> T:
        async with served() as server:
            async with connected(server.access, token=token) as connection:
                return await work(HttpKubeClient(connection), server)

    return asyncio.run(run())


def test_writes_have_our_field_manager() -> None:
    async def work(kube: HttpKubeClient, _: Served) -> None:
        created = await kube.create(LEASES, a_lease("mine"), "default")

        assert {entry["manager"] for entry in created["metadata"]["managedFields"]} == {"karpenter"}

    with_kube(work)


def test_a_wrong_token_is_unauthorized() -> None:
    async def work(kube: HttpKubeClient, _: Served) -> None:
        with pytest.raises(Unauthorized):
            await kube.get(LEASES, "x", "default")

    with_kube(work, token="wrong")  # noqa: S106


def test_an_expired_token_is_reloaded_and_the_request_retried() -> None:
    class Rotating:
        async def token(self, *, rejected: bool = False) -> str:
            return TOKEN if rejected else "ended"

    async def work(_: HttpKubeClient, server: Served) -> None:
        access = msgspec.structs.replace(server.access, credentials=Rotating())
        async with connected(access) as connection:
            assert await HttpKubeClient(connection).list(LEASES) == []

    with_kube(work)


def test_an_unavailable_server_is_found_again_by_the_next_request() -> None:
    async def work(kube: HttpKubeClient, server: Served) -> None:
        await kube.create(LEASES, a_lease("mine"), "default")
        await server.stop()

        with pytest.raises(Unavailable, match="does not respond"):
            await kube.get(LEASES, "mine", "default")
        await server.start()

        assert await kube.get(LEASES, "mine", "default")

    with_kube(work)


def test_truncated_responses_are_api_errors() -> None:
    async def work(kube: HttpKubeClient, server: Served) -> None:
        for number in range(300):
            obj = {"metadata": {"name": f"m{number}"}, "data": {"x": "y" * 2000}}
            server.api.create(CONFIG_MAPS, obj, "default")
        outcomes: list[object] = []
        for step in range(30):
            asking = asyncio.ensure_future(kube.list(CONFIG_MAPS))
            await asyncio.sleep(step * 0.0005)
            server.wire.cut()
            outcomes += await asyncio.gather(asking, return_exceptions=True)

        assert all(isinstance(result, list | ApiError) for result in outcomes), outcomes
        assert any(isinstance(result, Unavailable) for result in outcomes)

    with_kube(work)
