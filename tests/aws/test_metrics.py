"""Metrics of AWS calls: duration and errors."""

import asyncio
from collections.abc import Sequence
from datetime import timedelta

from dovetail.aws.batcher import Batcher, BatchWindow
from dovetail.aws.session import AwsSession
from dovetail.host.event_loop import AsyncioEventLoop
from dovetail.host.executor import ThreadExecutor
from dovetail.host.randomness import SystemRandomSource
from dovetail.observability.prometheus import PrometheusMetrics
from tests.aws.test_errors import refused
from tests.aws.test_session import QUICK, failing
from tests.observability.test_prometheus import read_value


def test_every_attempt_is_timed_and_every_error_counted() -> None:
    metrics = PrometheusMetrics()

    async def story() -> None:
        offload = ThreadExecutor(1)
        aws = AwsSession(
            loop=AsyncioEventLoop(),
            executor=offload,
            random=SystemRandomSource(),
            region="eu-west-1",
            retry_policy=QUICK,
            metrics=metrics,
        )
        await aws.call("CreateFleet", failing(2, refused("RequestLimitExceeded")))
        offload.close()

    asyncio.run(story())

    request = {"operation": "CreateFleet"}
    assert read_value(metrics, "dovetail_aws_request_duration_seconds_count", **request) == 3
    refusals = "dovetail_aws_request_errors_total"
    assert read_value(metrics, refusals, code="RequestLimitExceeded", **request) == 2


def test_the_batch_size_is_recorded() -> None:
    metrics = PrometheusMetrics()

    async def handle(_: str, items: Sequence[int]) -> Sequence[int]:
        return items

    async def story() -> None:
        batcher: Batcher[str, int, int] = Batcher(
            handle,
            window=BatchWindow(idle_timeout=timedelta(milliseconds=5)),
            loop=AsyncioEventLoop(),
            name="create_fleet",
            metrics=metrics,
        )
        await asyncio.gather(*(batcher.submit("", entry) for entry in range(7)))

    asyncio.run(story())

    name = "karpenter_cloudprovider_batcher_batch"
    assert read_value(metrics, f"{name}_size_sum", batcher="create_fleet") == 7
    assert read_value(metrics, f"{name}_size_count", batcher="create_fleet") == 1
    assert read_value(metrics, f"{name}_time_seconds_count", batcher="create_fleet") == 1
