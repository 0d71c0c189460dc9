"""EKS tokens, and API servers that are out of reach."""

import asyncio
from base64 import urlsafe_b64decode
from datetime import timedelta
from typing import Any
from urllib.parse import parse_qs, urlsplit

import boto3
import msgspec
import pytest
from botocore.config import Config

from dovetail.eks.apply.executor import StepError
from dovetail.eks.kubernetes.api import ApiAccessError, DynamicClient, signing_region
from dovetail.eks.session import ClusterSession
from dovetail.ports.api_resources import NODE_POOLS
from dovetail.ports.kube_errors import TooManyRequests
from tests.support.eks.configs import a_cluster
from tests.support.moto.cluster_account import TestAccount


def test_token_is_a_presigned_sts_request_for_this_cluster(account: TestAccount) -> None:
    async def token(session: ClusterSession) -> str:
        return await session.api_access.credentials.token()

    signed_token = account.run(a_cluster(), token)

    head, _, packed = signed_token.partition(".")
    url = urlsafe_b64decode(packed + "=" * (-len(packed) % 4)).decode()
    query = parse_qs(urlsplit(url).query)
    assert head == "k8s-aws-v1"
    assert query["Action"] == ["GetCallerIdentity"]
    assert query["X-Amz-SignedHeaders"] == ["host;x-k8s-aws-id"]
    assert query["X-Amz-Expires"] == ["60"]


@pytest.mark.parametrize(
    ("mode", "region", "expected"),
    [
        ("legacy", "us-west-2", "us-east-1"),
        ("regional", "us-west-2", "us-west-2"),
        ("legacy", "eu-south-1", "eu-south-1"),
        ("legacy", "cn-north-1", "cn-north-1"),
    ],
)
def test_token_is_signed_for_the_region_of_the_sts_endpoint(
    monkeypatch: pytest.MonkeyPatch, mode: str, region: str, expected: str
) -> None:
    monkeypatch.setenv("AWS_STS_REGIONAL_ENDPOINTS", mode)
    sts = boto3.session.Session(region_name=region).client("sts", config=Config(region_name=region))

    assert signing_region(sts.meta.endpoint_url, region) == expected


@pytest.mark.slow
@pytest.mark.parametrize(
    ("endpoint", "advice"),
    [
        ({"public": False, "private": True}, "its endpoint is private: run this command in the VPC"),
        ({"publicCidrs": ["192.0.2.0/24"]}, "its endpoint accepts 192.0.2.0/24 only"),
    ],
)
def test_api_server_that_is_out_of_reach_is_explained(
    account: TestAccount, endpoint: dict[str, Any], advice: str
) -> None:
    config = a_cluster(endpoint=endpoint, vpc={"create": {"zones": 2}})
    account.eks.endpoint = "https://127.0.0.1:1"
    account.polling = msgspec.structs.replace(account.polling, conflict_timeout=timedelta(seconds=1))

    with pytest.raises(StepError, match=advice):
        account.apply(config)
    with pytest.raises(ApiAccessError, match=advice):
        account.plan(config)


class BusyServer:
    """An API server that rejects its first requests for now."""

    def __init__(self, rejections: int) -> None:
        self.rejections = rejections
        self.requests = 0

    async def request(self, *_: Any, **__: Any) -> dict[str, Any]:
        self.requests += 1
        if self.requests <= self.rejections:
            raise TooManyRequests("storage is (re)initializing", retry_after=2)
        return {"metadata": {"name": "default"}}


class WaitingLoop:
    """Records waits instead of waiting."""

    def __init__(self) -> None:
        self.waits: list[float] = []

    async def sleep(self, delay: timedelta) -> None:
        self.waits.append(delay.total_seconds())


def test_a_request_is_repeated_while_the_api_server_rejects_it_for_now() -> None:
    server, loop = BusyServer(rejections=2), WaitingLoop()
    client = DynamicClient(server, loop)

    applied = asyncio.run(client.apply(NODE_POOLS, {"metadata": {"name": "default"}}))

    assert applied == {"metadata": {"name": "default"}}
    assert loop.waits == [2, 2]


def test_a_request_is_not_repeated_without_end() -> None:
    server, loop = BusyServer(rejections=1000), WaitingLoop()
    client = DynamicClient(server, loop)

    with pytest.raises(TooManyRequests):
        asyncio.run(client.apply(NODE_POOLS, {"metadata": {"name": "default"}}))

    assert server.requests == 10
