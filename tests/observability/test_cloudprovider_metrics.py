"""How long the cloud took, and what it was asked in vain."""

import asyncio

import pytest

from dovetail.model.karpenter.nodeclaim import NodeClaim
from dovetail.observability.cloudprovider_metrics import MeteredCloud
from dovetail.observability.prometheus import PrometheusMetrics
from dovetail.ports.cloudprovider import CreateFailed, Instance, InstanceNotFound
from tests.observability.test_prometheus import value


class SlowCloud:
    """Takes two seconds for everything, on the clock that it moves."""

    def __init__(self) -> None:
        self.at = 100.0

    async def get(self, provider_id: str) -> Instance:
        self.at += 2
        if provider_id == "gone":
            raise InstanceNotFound("there is none")
        return Instance(provider_id=provider_id)

    async def create(self, claim: NodeClaim) -> Instance:
        raise CreateFailed("SubnetExhausted", "no addresses are left for nodeclaim x-7h2")


def metered(cloud: SlowCloud, metrics: PrometheusMetrics) -> MeteredCloud:
    return MeteredCloud(cloud, metrics=metrics, seconds=lambda: cloud.at, provider="aws")  # type: ignore[arg-type]


def test_what_the_cloud_answers_is_passed_on_and_timed() -> None:
    metrics, name = PrometheusMetrics(), "karpenter_cloudprovider_duration_seconds"

    found = asyncio.run(metered(SlowCloud(), metrics).get("i-1"))

    assert found.provider_id == "i-1"
    assert value(metrics, f"{name}_sum", method="Get", provider="aws") == 2
    assert value(metrics, f"{name}_count", method="Get", provider="aws") == 1


def test_an_error_is_passed_on_timed_and_counted() -> None:
    metrics, name = PrometheusMetrics(), "karpenter_cloudprovider_errors_total"

    with pytest.raises(InstanceNotFound):
        asyncio.run(metered(SlowCloud(), metrics).get("gone"))

    assert value(metrics, name, method="Get", provider="aws", error="InstanceNotFound") == 1


def test_a_failed_launch_counts_by_its_reason_not_by_its_words() -> None:
    metrics, name = PrometheusMetrics(), "karpenter_cloudprovider_errors_total"

    with pytest.raises(CreateFailed):
        asyncio.run(metered(SlowCloud(), metrics).create(NodeClaim(name="x")))

    assert value(metrics, name, method="Create", provider="aws", error="SubnetExhausted") == 1
