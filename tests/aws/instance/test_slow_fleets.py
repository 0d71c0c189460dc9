"""CreateFleet calls that take long: they are not cut off, and delay no other call."""

import asyncio
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest

from tests.support.aws.launches import an_account, claims
from tests.support.aws.provider_process import AwsProcess
from tests.support.moto.server import MotoAws

READ_TIMEOUT = timedelta(seconds=2)
"""Of all calls but CreateFleet."""
SLOW = 3.0
"""Seconds that EC2 takes to launch."""


@pytest.fixture
def a_process(moto: MotoAws) -> Iterator[Callable[..., AwsProcess]]:
    started: list[AwsProcess] = []

    def start(**options: Any) -> AwsProcess:
        started.append(AwsProcess(an_account(moto), **options))
        moto.middleware.latency["CreateFleet"] = SLOW
        return started[-1]

    yield start
    for process in started:
        process.stop()
    moto.middleware.reset()


def test_a_launch_may_take_longer_than_the_read_timeout_of_other_calls(
    moto: MotoAws, a_process: Callable[..., AwsProcess]
) -> None:
    process = a_process(read_timeout=READ_TIMEOUT)
    (claim,) = claims(1)

    instance = process.do(process.cloud.create(claim))

    assert instance.nodeclaim == claim.name
    assert moto.middleware.calls["CreateFleet"] == 1


def test_slow_launches_delay_no_other_call(moto: MotoAws, a_process: Callable[..., AwsProcess]) -> None:
    process = a_process(threads=1)
    (claim,) = claims(1)

    async def work() -> tuple[bool, str]:
        launch = asyncio.ensure_future(process.cloud.create(claim))
        while not moto.middleware.calls["CreateFleet"]:
            await asyncio.sleep(0.01)
        await process.aws.call("DescribeRegions", process.ec2.describe_regions)
        is_launched = launch.done()
        return is_launched, (await launch).nodeclaim

    is_launched, name = process.do(work())

    assert not is_launched
    assert name == claim.name
