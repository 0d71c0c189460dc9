"""What calls to AWS cost in time, and what they were refused, is told."""

import asyncio
from collections.abc import Sequence
from datetime import timedelta

from dovetail.aws.batcher import Batcher, Window
from dovetail.aws.session import Aws
from dovetail.host.event_loop import AsyncioLoop
from dovetail.host.executor import ThreadOffload
from dovetail.host.randomness import RealChance
from dovetail.observability.prometheus import PrometheusMetrics
from tests.aws.test_errors import refused
from tests.aws.test_session import QUICK, failing
from tests.observability.test_prometheus import value


def test_every_try_is_timed_and_every_refusal_counted() -> None:
    metrics = PrometheusMetrics()

    async def story() -> None:
        offload = ThreadOffload(1)
        aws = Aws(
            loop=AsyncioLoop(),
            offload=offload,
            chance=RealChance(),
            region="eu-west-1",
            patience=QUICK,
            metrics=metrics,
        )
        await aws.call("CreateFleet", failing(2, refused("RequestLimitExceeded")))
        offload.close()

    asyncio.run(story())

    asked = {"operation": "CreateFleet"}
    assert value(metrics, "dovetail_aws_request_duration_seconds_count", **asked) == 3
    refusals = "dovetail_aws_request_errors_total"
    assert value(metrics, refusals, code="RequestLimitExceeded", **asked) == 2


def test_how_many_share_a_call_is_told() -> None:
    metrics = PrometheusMetrics()

    async def handle(_: str, items: Sequence[int]) -> Sequence[int]:
        return items

    async def story() -> None:
        batcher: Batcher[str, int, int] = Batcher(
            handle,
            window=Window(idle=timedelta(milliseconds=5)),
            loop=AsyncioLoop(),
            name="create_fleet",
            metrics=metrics,
        )
        await asyncio.gather(*(batcher.ask("", one) for one in range(7)))

    asyncio.run(story())

    name = "karpenter_cloudprovider_batcher_batch"
    assert value(metrics, f"{name}_size_sum", batcher="create_fleet") == 7
    assert value(metrics, f"{name}_size_count", batcher="create_fleet") == 1
    assert value(metrics, f"{name}_time_seconds_count", batcher="create_fleet") == 1
