"""AWS cloud factory against moto: what the start needs, and what it does without."""

import asyncio
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from dovetail.errors import DovetailError
from dovetail.host.event_loop import AsyncioEventLoop
from dovetail.model.karpenter.nodeclaim import NodeClaim
from dovetail.operator.aws import AwsSettings, record_launch_request
from dovetail.operator.cloud import CloudServices
from dovetail.operator.instance_type_refresh import CatalogSettings
from dovetail.ports.api_resources import NODE_CLAIMS
from dovetail.ports.cloudprovider import CreateError
from dovetail.simulator.apiserver.server import ApiServer
from dovetail.simulator.kube_client import SimulatedKubeClient
from tests.operator.cloud_services import build, wait_for_line
from tests.support.aws.credentials import FAKE_CREDENTIALS, NO_CREDENTIALS
from tests.support.kube import manifests
from tests.support.moto.instance_types import few_instance_types
from tests.support.moto.server import MotoAws, moto_aws
from tests.support.simulator.api_server import START
from tests.support.telemetry import RecordedLog

REGION = "eu-west-1"
ARN = f"arn:aws:eks:{REGION}:999999999999:cluster/demo"
"""Of another account than that of moto's STS: only EKS knows it."""
DESCRIBE_CLUSTER, READ_SHIFTS = "GET /clusters/demo", f"GET /managedresources/{ARN}"
SETTINGS = AwsSettings(
    cluster_name="demo", cluster_endpoint="https://demo.example.com", region=REGION, isolated_vpc=True
)
ZONAL_SHIFT = msgspec.structs.replace(SETTINGS, enable_zonal_shift=True)


@pytest.fixture(scope="module")
def running() -> Iterator[MotoAws]:
    with few_instance_types(), moto_aws() as aws:
        yield aws


@pytest.fixture
def moto(running: MotoAws, monkeypatch: pytest.MonkeyPatch) -> Iterator[MotoAws]:
    for name, value in {**FAKE_CREDENTIALS, "AWS_ENDPOINT_URL": running.url}.items():
        monkeypatch.setenv(name, value)
    respond(running, DESCRIBE_CLUSTER, {"cluster": {"name": "demo", "arn": ARN, "version": "1.34"}})
    respond(running, READ_SHIFTS, {"arn": ARN, "appliedWeights": {}, "zonalShifts": []})
    yield running
    running.middleware.responses.clear()
    running.middleware.reset()


def respond(moto: MotoAws, operation: str, response: dict[str, Any]) -> None:
    moto.middleware.responses[operation] = lambda _: ("application/json", msgspec.json.encode(response))


def forbid(moto: MotoAws, *operations: str) -> None:
    moto.middleware.is_forbidden = lambda operation: operation in operations


def test_account_and_role_of_the_process_are_logged(moto: MotoAws) -> None:
    log = RecordedLog()

    line = build(SETTINGS, log, lambda _: wait_for_line(log, "found aws account"))

    assert line["account"] == "123456789012"
    assert line["region"] == REGION


def test_without_sts_the_process_starts_and_reads_zonal_shifts(moto: MotoAws) -> None:
    log = RecordedLog()
    forbid(moto, "GetCallerIdentity")

    async def use(services: CloudServices) -> frozenset[str]:
        await wait_for_line(log, "cannot read the aws account; nothing depends on it")
        assert services.zonal_shifts is not None
        return await services.zonal_shifts.list_shifted_zones()

    assert build(ZONAL_SHIFT, log, use) == frozenset()
    assert moto.middleware.calls[READ_SHIFTS] == 2
    assert moto.middleware.calls[DESCRIBE_CLUSTER] == 1


def test_zonal_shifts_of_a_cluster_that_cannot_be_described_fail_the_start(moto: MotoAws) -> None:
    forbid(moto, DESCRIBE_CLUSTER)

    with pytest.raises(DovetailError, match=r"cluster demo cannot be read.*eks:DescribeCluster"):
        build(ZONAL_SHIFT, RecordedLog(), lambda _: asyncio.sleep(0))


def test_missing_credentials_are_reported_with_the_advice_for_credentials_only(
    moto: MotoAws, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in NO_CREDENTIALS.items():
        if value is None:
            monkeypatch.delenv(name, raising=False)
        else:
            monkeypatch.setenv(name, value)
    settings = msgspec.structs.replace(SETTINGS, cluster_endpoint="")

    with pytest.raises(DovetailError, match="configure valid credentials") as failure:
        build(settings, RecordedLog(), lambda _: asyncio.sleep(0))

    assert "--cluster-endpoint" not in str(failure.value)


def test_estimated_prices_are_logged_once(moto: MotoAws) -> None:
    log = RecordedLog()
    isolated = msgspec.structs.replace(SETTINGS, catalog=CatalogSettings(isolated=True))

    line = build(isolated, log, lambda _: wait_for_line(log, "on-demand prices are estimated"))

    assert line["region"] == REGION
    assert line["count"] == line["of"] > 40
    assert "on-demand estimated at 1.115 × us-east-1" in line["source"]
    assert len(log.entries("on-demand prices are estimated")) == 1


def test_a_launch_request_is_recorded_on_claims_or_fails_for_all_of_them() -> None:
    api = ApiServer(now=lambda: START)
    there = api.create(NODE_CLAIMS, manifests.claim())
    claim = NodeClaim(name="claim", uid=there["metadata"]["uid"])
    recreated = NodeClaim(name="claim", uid="of-an-earlier-claim")
    gone = NodeClaim(name="gone", uid="1")

    async def record(*claims: NodeClaim) -> None:
        loop = AsyncioEventLoop()
        await record_launch_request(SimulatedKubeClient(api), loop, claims, "2026-01-01T09:00:00Z/token")

    asyncio.run(record(claim))
    for other in (recreated, gone):
        with pytest.raises(CreateError, match=f"cannot be recorded on nodeclaim {other.name}"):
            asyncio.run(record(claim, other))

    annotations = api.get(NODE_CLAIMS, "claim")["metadata"]["annotations"]
    assert annotations["dovetail.sh/launch-request"] == "2026-01-01T09:00:00Z/token"
