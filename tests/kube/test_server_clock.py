"""The clock of an API server, from the Date header of its responses."""

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from dovetail.kube.connection import Connection
from dovetail.kube.rate_limit import RateLimiter
from dovetail.kube.server_clock import ServerClock
from tests.kube.api_server import served
from tests.simulator.rest.rest_server import NOON

SECOND = timedelta(seconds=1)


class LocalClock:
    """A clock that a test sets."""

    def __init__(self, time: datetime = NOON) -> None:
        self.time = time

    def now(self) -> datetime:
        return self.time


def test_without_a_response_it_is_the_local_clock() -> None:
    assert ServerClock(LocalClock()).now() == NOON


@pytest.mark.parametrize(
    ("date", "expected"),
    [
        ("Thu, 01 Jan 2026 12:05:00 GMT", NOON + timedelta(minutes=5)),
        # A clock that is behind by less than the resolution of the header is assumed.
        ("Thu, 01 Jan 2026 11:55:00 GMT", NOON - timedelta(minutes=5) + SECOND),
        ("Thu, 01 Jan 2026 12:05:00 -0000", NOON + timedelta(minutes=5)),
    ],
)
def test_a_date_that_differs_from_the_local_clock_corrects_it(date: str, expected: datetime) -> None:
    clock = ServerClock(LocalClock())

    clock.observe(date, requested_at=NOON)

    assert clock.now() == expected


def test_it_goes_on_with_the_local_clock_between_responses() -> None:
    local = LocalClock()
    clock = ServerClock(local)
    clock.observe("Thu, 01 Jan 2026 13:00:00 GMT", requested_at=NOON)

    local.time += timedelta(minutes=2)

    assert clock.now() == NOON + timedelta(hours=1, minutes=2)


def test_clocks_that_agree_to_the_second_are_not_corrected() -> None:
    local = LocalClock(NOON + timedelta(milliseconds=900))
    clock = ServerClock(local)

    clock.observe("Thu, 01 Jan 2026 12:00:00 GMT", requested_at=NOON + timedelta(milliseconds=800))

    assert clock.offset == timedelta()


def test_a_slow_response_does_not_change_an_offset_that_it_allows() -> None:
    local = LocalClock()
    clock = ServerClock(local)
    clock.observe("Thu, 01 Jan 2026 12:00:30 GMT", requested_at=NOON)
    offset = clock.offset

    local.time += timedelta(seconds=40)
    clock.observe("Thu, 01 Jan 2026 12:00:35 GMT", requested_at=NOON)

    assert clock.offset == offset


def test_a_server_that_runs_faster_is_followed() -> None:
    local = LocalClock()
    clock = ServerClock(local)

    for minute in range(1, 4):
        local.time += SECOND
        clock.observe(f"Thu, 01 Jan 2026 12:{minute:02}:00 GMT", requested_at=local.time)

    assert clock.now() == NOON + timedelta(minutes=3)


@pytest.mark.parametrize(
    "date", ["", "yesterday", "Thu, 99 Jan 2026 12:00:00 GMT", "Fri, 31 Dec 9999 23:59:59 -2359"]
)
def test_a_header_that_is_no_date_is_ignored(date: str) -> None:
    clock = ServerClock(LocalClock())

    clock.observe(date, requested_at=NOON)

    assert clock.offset == timedelta()


def test_each_response_of_a_connection_corrects_the_clock() -> None:
    clock = ServerClock(LocalClock(datetime(2020, 1, 1, tzinfo=UTC)))

    async def run() -> None:
        async with served() as server:
            limit = RateLimiter(clock=asyncio.get_running_loop().time)
            connection = Connection(server.access, rate_limiter=limit, user_agent="test", server_clock=clock)
            await connection.request("GET", "/version")
            await connection.close()

    asyncio.run(run())

    assert clock.now() == NOON
