"""Calls that may change something pass a guard; questions do not."""

import asyncio
from collections.abc import Callable
from typing import TypeVar

import pytest

from dovetail.aws.session import Aws
from dovetail.host.event_loop import AsyncioLoop
from dovetail.kube.leaderelection.lease import NotLeading
from dovetail.simulator.randomness import SeededChance

T = TypeVar("T")


class Inline:
    async def run(self, work: Callable[[], T]) -> T:
        return work()


def refuse() -> None:
    raise NotLeading("somebody else may be leading")


def called(operation: str, done: list[str]) -> None:
    async def run() -> None:
        aws = Aws(
            loop=AsyncioLoop(),
            offload=Inline(),
            chance=SeededChance(1),
            region="eu-west-1",
            guard=refuse,
        )
        await aws.call(operation, lambda: done.append(operation))

    asyncio.run(run())


@pytest.mark.parametrize(
    "operation", ["CreateFleet", "TerminateInstances", "CreateTags", "DeleteMessage"]
)
def test_who_does_not_lead_changes_nothing(operation: str) -> None:
    done: list[str] = []

    with pytest.raises(NotLeading):
        called(operation, done)

    assert done == []


@pytest.mark.parametrize("operation", ["DescribeInstances", "GetParameter", "ListInstanceProfiles"])
def test_who_does_not_lead_may_ask(operation: str) -> None:
    done: list[str] = []

    called(operation, done)

    assert done == [operation]
