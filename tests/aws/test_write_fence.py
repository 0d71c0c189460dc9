"""Calls that write pass the fence; calls that read do not."""

import asyncio

import pytest

from dovetail.aws.session import AwsSession
from dovetail.host.event_loop import AsyncioEventLoop
from dovetail.kube.leaderelection.lease import NotLeaderError
from dovetail.simulator.environment import SeededRandomSource
from tests.support.controllers.environment import ImmediateExecutor


def refuse() -> None:
    raise NotLeaderError("another replica may be the leader")


def called(operation: str, done: list[str]) -> None:
    async def run() -> None:
        aws = AwsSession(
            loop=AsyncioEventLoop(),
            executor=ImmediateExecutor(),
            random=SeededRandomSource(1),
            region="eu-west-1",
            fence=refuse,
        )
        await aws.call(operation, lambda: done.append(operation))

    asyncio.run(run())


@pytest.mark.parametrize("operation", ["CreateFleet", "TerminateInstances", "CreateTags", "DeleteMessage"])
def test_a_standby_changes_nothing(operation: str) -> None:
    done: list[str] = []

    with pytest.raises(NotLeaderError):
        called(operation, done)

    assert done == []


@pytest.mark.parametrize("operation", ["DescribeInstances", "GetParameter", "ListInstanceProfiles"])
def test_a_standby_may_read(operation: str) -> None:
    done: list[str] = []

    called(operation, done)

    assert done == [operation]
