"""AWS session: retries, backoff and threads."""

import asyncio
from collections.abc import Callable
from datetime import timedelta
from threading import get_ident
from typing import Any

import msgspec
import pytest
from botocore.exceptions import ClientError
from hypothesis import given
from hypothesis import strategies as st

from dovetail.aws.errors import AwsError
from dovetail.aws.session import DEFAULT_RETRY_POLICY, AwsSession, RetryPolicy
from dovetail.host.event_loop import AsyncioEventLoop
from dovetail.host.executor import ThreadExecutor
from dovetail.host.randomness import SystemRandomSource
from tests.aws.test_errors import refused

QUICK = RetryPolicy(initial_delay=timedelta(milliseconds=1), max_delay=timedelta(milliseconds=4))


class ScriptedRandom:
    def __init__(self, fraction: float) -> None:
        self._fraction = fraction

    def random(self) -> float:
        return self._fraction

    def alphanumeric(self, count: int) -> str:
        return "x" * count


def call(work: Callable[[], Any], *, retry_policy: RetryPolicy = QUICK) -> Any:
    async def run() -> Any:
        offload = ThreadExecutor(2)
        aws = AwsSession(
            loop=AsyncioEventLoop(),
            executor=offload,
            random=SystemRandomSource(),
            region="eu-west-1",
            retry_policy=retry_policy,
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


def test_a_throttled_call_is_retried_until_it_succeeds() -> None:
    assert call(failing(6, refused("RequestLimitExceeded"))) == 7


def test_after_the_last_retry_the_error_is_raised() -> None:
    with pytest.raises(AwsError, match="Throttling") as failure:
        call(failing(100, refused("Throttling")))

    assert failure.value.reason == "RequestLimitExceeded"


def test_permanent_errors_are_not_retried() -> None:
    work = failing(1, refused("InvalidParameterValue"))

    with pytest.raises(AwsError, match="DescribeInstances: InvalidParameterValue"):
        call(work)

    assert work() == 2


def test_a_transient_error_is_retried_a_few_times_only() -> None:
    assert call(failing(3, refused("InternalError", status=500))) == 4
    with pytest.raises(AwsError, match="InternalError"):
        call(failing(4, refused("InternalError", status=500)))


def test_a_transient_error_is_not_retried_after_the_time_for_retries() -> None:
    work = failing(1, refused("InternalError", status=500))

    with pytest.raises(AwsError, match="InternalError"):
        call(work, retry_policy=msgspec.structs.replace(QUICK, max_transient_time=timedelta()))

    assert work() == 2


def test_a_client_can_have_a_longer_read_timeout_than_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nonexistent")

    async def run() -> list[Any]:
        offload = ThreadExecutor(1)
        aws = AwsSession(
            loop=AsyncioEventLoop(), executor=offload, random=SystemRandomSource(), region="eu-west-1"
        )
        offload.close()
        longer = timedelta(minutes=4)
        assert aws.ec2() is aws.ec2()
        assert aws.ec2(read_timeout=longer) is aws.ec2(read_timeout=longer)
        return [aws.ec2().meta.config, aws.ec2(read_timeout=longer).meta.config]

    usual, longer = asyncio.run(run())

    assert (usual.read_timeout, longer.read_timeout) == (60, 240)
    assert usual.connect_timeout == longer.connect_timeout == 5


class PagedClient:
    """Five pages of two entries; every second call is throttled."""

    def __init__(self) -> None:
        self.calls = 0

    def describe_instances(self, *, MaxResults: int, NextToken: str = "0") -> dict[str, Any]:  # noqa: N803
        self.calls += 1
        if self.calls % 2:
            raise refused("RequestLimitExceeded")
        page = int(NextToken)
        more = {"NextToken": str(page + 1)} if page < 4 else {}
        return {"Reservations": [page * MaxResults, page * MaxResults + 1], **more}


def test_a_throttled_page_does_not_repeat_the_others() -> None:
    client = PagedClient()

    async def run() -> list[Any]:
        offload = ThreadExecutor(1)
        policy = msgspec.structs.replace(QUICK, max_throttle_retries=1)
        aws = AwsSession(
            loop=AsyncioEventLoop(),
            executor=offload,
            random=SystemRandomSource(),
            region="eu-west-1",
            retry_policy=policy,
        )
        try:
            return await aws.list_pages("DescribeInstances", client, "Reservations", page_size=2)
        finally:
            offload.close()

    assert asyncio.run(run()) == list(range(10))
    assert client.calls == 10


def test_calls_do_not_run_on_the_event_loop_thread() -> None:
    assert call(get_ident) != get_ident()


@given(tries=st.integers(1, 30), fraction=st.floats(0, 1, exclude_max=True))
def test_retry_delays_grow_with_jitter_up_to_a_maximum(tries: int, fraction: float) -> None:
    pause = DEFAULT_RETRY_POLICY.delay(tries, ScriptedRandom(fraction))

    whole = min(DEFAULT_RETRY_POLICY.max_delay, DEFAULT_RETRY_POLICY.initial_delay * 2.0 ** (tries - 1))
    assert whole / 2 <= pause <= whole
    assert DEFAULT_RETRY_POLICY.delay(tries, ScriptedRandom(0.0)) <= pause


def test_throttling_for_a_minute_is_survived() -> None:
    waited = sum(
        (
            DEFAULT_RETRY_POLICY.delay(tries, ScriptedRandom(0.0))
            for tries in range(1, DEFAULT_RETRY_POLICY.max_throttle_retries + 1)
        ),
        timedelta(),
    )

    assert waited > timedelta(seconds=20)


def test_without_a_region_the_error_says_what_to_set(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nonexistent")

    async def run() -> None:
        offload = ThreadExecutor(1)
        aws = AwsSession(loop=AsyncioEventLoop(), executor=offload, random=SystemRandomSource())
        assert aws.region == ""
        try:
            aws.ec2()
        finally:
            offload.close()

    with pytest.raises(AwsError, match="AWS_REGION"):
        asyncio.run(run())
