"""Calls to AWS: tried again with patience, never in the loop's own thread."""

import asyncio
from collections.abc import Callable
from datetime import timedelta
from threading import get_ident
from typing import Any

import pytest
from botocore.exceptions import ClientError
from hypothesis import given
from hypothesis import strategies as st

from dovetail.aws.errors import AwsError
from dovetail.aws.session import PATIENT, Aws, Patience
from dovetail.host.event_loop import AsyncioLoop
from dovetail.host.executor import ThreadOffload
from dovetail.host.randomness import RealChance
from tests.aws.test_errors import refused

QUICK = Patience(first=timedelta(milliseconds=1), most=timedelta(milliseconds=4))


class Dice:
    def __init__(self, fraction: float) -> None:
        self._fraction = fraction

    def fraction(self) -> float:
        return self._fraction

    def letters(self, count: int) -> str:
        return "x" * count


def call(work: Callable[[], Any]) -> Any:
    async def run() -> Any:
        offload = ThreadOffload(2)
        aws = Aws(
            loop=AsyncioLoop(),
            offload=offload,
            chance=RealChance(),
            region="eu-west-1",
            patience=QUICK,
        )
        try:
            return await aws.call("DescribeInstances", work)
        finally:
            offload.close()

    return asyncio.run(run())


def failing(times: int, error: ClientError) -> Callable[[], int]:
    """Fail so often, then return how often it was called."""
    called = 0

    def work() -> int:
        nonlocal called
        called += 1
        if called <= times:
            raise error
        return called

    return work


def test_a_throttled_call_is_made_again_until_it_is_let_through() -> None:
    assert call(failing(6, refused("RequestLimitExceeded"))) == 7


def test_after_long_patience_the_one_who_asked_is_told() -> None:
    with pytest.raises(AwsError, match="Throttling") as failure:
        call(failing(100, refused("Throttling")))

    assert failure.value.reason == "RequestLimitExceeded"


def test_what_cannot_get_better_is_not_tried_again() -> None:
    work = failing(1, refused("InvalidParameterValue"))

    with pytest.raises(AwsError, match="DescribeInstances: InvalidParameterValue"):
        call(work)

    assert work() == 2


def test_a_broken_server_is_tried_a_few_times_only() -> None:
    assert call(failing(3, refused("InternalError", status=500))) == 4
    with pytest.raises(AwsError, match="InternalError"):
        call(failing(4, refused("InternalError", status=500)))


def test_calls_are_not_made_in_the_threads_of_the_loop() -> None:
    assert call(get_ident) != get_ident()


@given(tries=st.integers(1, 30), fraction=st.floats(0, 1, exclude_max=True))
def test_pauses_grow_and_differ_and_have_an_end(tries: int, fraction: float) -> None:
    pause = PATIENT.pause(tries, Dice(fraction))

    whole = min(PATIENT.most, PATIENT.first * 2.0 ** (tries - 1))
    assert whole / 2 <= pause <= whole
    assert PATIENT.pause(tries, Dice(0.0)) <= pause


def test_an_account_that_is_throttled_for_a_minute_is_outlasted() -> None:
    waited = sum(
        (PATIENT.pause(tries, Dice(0.0)) for tries in range(1, PATIENT.throttled + 1)), timedelta()
    )

    assert waited > timedelta(seconds=20)


def test_without_a_region_the_error_says_what_to_set(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nonexistent")

    async def run() -> None:
        offload = ThreadOffload(1)
        aws = Aws(loop=AsyncioLoop(), offload=offload, chance=RealChance())
        assert aws.region == ""
        try:
            aws.ec2()
        finally:
            offload.close()

    with pytest.raises(AwsError, match="AWS_REGION"):
        asyncio.run(run())
