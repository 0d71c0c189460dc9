"""Injected failures of the AWS emulator: the same seed fails the same calls."""

import json
from collections.abc import Callable
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest
from botocore.exceptions import ClientError, ConnectionClosedError

from tests.contract.aws.conftest import a_client
from tests.simulator.ec2.harness import ON_DEMAND, SPOT, A, B
from tests.support.moto.behaviour import Behaviour, CapacityShortage, FailureInjector
from tests.support.moto.server import MotoAws


def outcomes(call: Callable[[], Any], times: int) -> list[str]:
    """Call several times; return "" or the error code of each."""
    codes = []
    for _ in range(times):
        try:
            call()
            codes.append("")
        except ClientError as error:
            codes.append(error.response["Error"]["Code"])
        except ConnectionClosedError:
            codes.append("closed")
    return codes


def test_a_share_of_calls_is_throttled_and_the_seed_decides_which(moto: MotoAws, ec2: Any) -> None:
    runs = []
    for seed in (1, 1, 2):
        moto.behave(Behaviour(seed=seed, throttled={"DescribeVpcs": 0.2}))
        runs.append(outcomes(ec2.describe_vpcs, 60))

    assert runs[0] == runs[1] != runs[2]
    assert 5 <= runs[0].count("RequestLimitExceeded") <= 20
    assert set(runs[0]) == {"", "RequestLimitExceeded"}


def test_only_named_operations_fail(moto: MotoAws, ec2: Any) -> None:
    failures = moto.behave(Behaviour(throttled={"DescribeV*": 1.0}))

    assert outcomes(ec2.describe_vpcs, 2) == ["RequestLimitExceeded"] * 2
    assert outcomes(ec2.describe_subnets, 2) == [""] * 2
    assert failures.counts == {"throttled DescribeVpcs": 2}


def test_other_services_answer_with_their_own_code(moto: MotoAws, ec2: Any) -> None:
    moto.behave(Behaviour(throttled={"*": 1.0}))

    assert outcomes(a_client(moto, "sqs").list_queues, 1) == ["ThrottlingException"]
    assert outcomes(a_client(moto, "iam").list_roles, 1) == ["ThrottlingException"]


def test_a_lost_response_takes_effect(moto: MotoAws, ec2: Any) -> None:
    moto.behave(Behaviour(lost_responses={"CreateVpc": 1.0}))

    assert outcomes(lambda: ec2.create_vpc(CidrBlock="10.7.0.0/16"), 1) == ["closed"]

    assert "10.7.0.0/16" in {vpc["CidrBlock"] for vpc in ec2.describe_vpcs()["Vpcs"]}


def test_a_lost_request_takes_no_effect(moto: MotoAws, ec2: Any) -> None:
    moto.behave(Behaviour(lost_requests={"CreateVpc": 1.0}))

    assert outcomes(lambda: ec2.create_vpc(CidrBlock="10.7.0.0/16"), 1) == ["closed"]

    assert "10.7.0.0/16" not in {vpc["CidrBlock"] for vpc in ec2.describe_vpcs()["Vpcs"]}


def test_published_rates_throttle_each_operation_alone(moto: MotoAws, ec2: Any) -> None:
    now = [0.0]
    moto.middleware.failures.clock = lambda: now[0]
    moto.behave(Behaviour(request_rates=True))
    by_id = lambda: ec2.describe_vpcs(Filters=[{"Name": "vpc-id", "Values": ["vpc-1"]}])  # noqa: E731

    assert outcomes(by_id, 102) == [""] * 100 + ["RequestLimitExceeded"] * 2
    assert outcomes(ec2.describe_vpcs, 51) == [""] * 50 + ["RequestLimitExceeded"]
    assert outcomes(lambda: ec2.create_vpc(CidrBlock="10.7.0.0/16"), 3) == [""] * 3
    now[0] += 0.25
    assert outcomes(by_id, 6) == [""] * 5 + ["RequestLimitExceeded"]


def test_terminations_have_a_limit_of_instances_too() -> None:
    failures = FailureInjector(Behaviour(request_rates=True), lambda: 0.0)
    terminate = {"operation": "TerminateInstances", "is_unfiltered": True}

    assert not failures.exceeds_rate(**terminate, instances=900)
    assert failures.exceeds_rate(**terminate, instances=200)
    assert not failures.exceeds_rate(**terminate, instances=100)


def test_a_shortage_is_one_of_type_zone_and_capacity_type() -> None:
    shortage = CapacityShortage(instance_type="m5.*", zone=A, capacity_type=SPOT)
    failures = FailureInjector(Behaviour(shortages=(shortage,)))

    assert failures.shortage("m5.large", A, SPOT) is shortage
    assert failures.shortage("m5.large", B, SPOT) is None
    assert failures.shortage("m5.large", A, ON_DEMAND) is None
    assert failures.shortage("c5.large", A, SPOT) is None


def test_the_behaviour_is_set_and_read_over_http(moto: MotoAws, ec2: Any) -> None:
    url = f"{moto.url}/behaviour"
    behaviour = {"seed": 7, "throttled": {"DescribeVpcs": 1.0}, "shortages": [{"zone": "eu-west-1a"}]}
    with urlopen(Request(url, json.dumps(behaviour).encode(), method="PUT")):  # noqa: S310
        pass

    assert outcomes(ec2.describe_vpcs, 1) == ["RequestLimitExceeded"]
    with urlopen(url) as response:  # noqa: S310
        state = json.load(response)
    assert state["counts"] == {"throttled DescribeVpcs": 1}
    assert state["behaviour"]["shortages"][0]["code"] == "InsufficientInstanceCapacity"


def test_a_behaviour_with_a_wrong_field_is_rejected(moto: MotoAws) -> None:
    request = Request(f"{moto.url}/behaviour", b'{"throttle": {}}', method="PUT")  # noqa: S310

    with pytest.raises(HTTPError, match="400"):
        urlopen(request)  # noqa: S310
