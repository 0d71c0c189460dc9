"""Durations and errors of CloudProvider calls."""

import asyncio

import pytest

from dovetail.model.karpenter.nodeclaim import NodeClaim
from dovetail.observability.cloudprovider_metrics import MeteredCloudProvider
from dovetail.observability.prometheus import PrometheusMetrics
from dovetail.ports.cloudprovider import CreateError, Instance, InstanceNotFoundError
from tests.observability.test_prometheus import read_value


class SlowCloud:
    """A CloudProvider whose calls take two seconds on its own clock."""

    def __init__(self) -> None:
        self.at = 100.0

    async def get(self, provider_id: str) -> Instance:
        self.at += 2
        if provider_id == "gone":
            raise InstanceNotFoundError("there is none")
        return Instance(provider_id=provider_id)

    async def create(self, claim: NodeClaim) -> Instance:
        raise CreateError("SubnetExhausted", "no addresses are left for nodeclaim x-7h2")


def metered(cloud: SlowCloud, metrics: PrometheusMetrics) -> MeteredCloudProvider:
    return MeteredCloudProvider(cloud, metrics=metrics, seconds=lambda: cloud.at, provider="aws")  # type: ignore[arg-type]


def test_a_result_is_returned_and_timed() -> None:
    metrics, name = PrometheusMetrics(), "karpenter_cloudprovider_duration_seconds"

    instance = asyncio.run(metered(SlowCloud(), metrics).get("i-1"))

    assert instance.provider_id == "i-1"
    assert read_value(metrics, f"{name}_sum", method="Get", provider="aws") == 2
    assert read_value(metrics, f"{name}_count", method="Get", provider="aws") == 1


def test_an_error_is_raised_timed_and_counted() -> None:
    metrics, name = PrometheusMetrics(), "karpenter_cloudprovider_errors_total"

    with pytest.raises(InstanceNotFoundError):
        asyncio.run(metered(SlowCloud(), metrics).get("gone"))

    assert read_value(metrics, name, method="Get", provider="aws", error="InstanceNotFoundError") == 1


def test_a_failed_launch_is_counted_by_its_reason() -> None:
    metrics, name = PrometheusMetrics(), "karpenter_cloudprovider_errors_total"

    with pytest.raises(CreateError):
        asyncio.run(metered(SlowCloud(), metrics).create(NodeClaim(name="x")))

    assert read_value(metrics, name, method="Create", provider="aws", error="SubnetExhausted") == 1
