"""Objects and ledger of a live cluster: listed with the time of the API server."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import TypeVar

from dovetail.kube.auth.kubeconfig import RestConfig
from dovetail.operator.cluster_objects import list_objects, read_ledger
from dovetail.ports import api_resources as kinds
from tests.kube.api_server import served
from tests.simulator.rest.rest_server import NOON

T = TypeVar("T")


def read(reader: Callable[[RestConfig], Awaitable[T]]) -> T:
    """Read an API server whose clock stands at noon."""

    async def run() -> T:
        async with served() as server:
            return await reader(server.access)

    return asyncio.run(run())


def test_listed_objects_have_the_time_of_the_api_server_not_of_this_computer() -> None:
    recorded_at = read(list_objects).recorded_at

    assert recorded_at is not None
    assert NOON <= recorded_at < NOON + timedelta(minutes=1)


def test_savings_ledger_has_the_time_of_the_api_server_not_of_this_computer() -> None:
    ledger, now = read(read_ledger)

    assert ledger is None
    assert NOON <= now < NOON + timedelta(minutes=1)


def test_kinds_without_objects_are_empty_and_not_missing() -> None:
    listed = read(list_objects)

    assert kinds.POD_DISRUPTION_BUDGETS in listed.empty
    assert kinds.NAMESPACES not in listed.empty  # Each API server has some.
    assert not listed.missing


def test_listed_objects_have_the_version_of_the_api_server() -> None:
    assert read(list_objects).version == "1.36"
