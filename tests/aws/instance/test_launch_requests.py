"""Requests of a process that was killed: EC2 may have carried them out, or not yet."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from dovetail.aws.instance.launch_requests import LaunchRequest, decode_launch_request, encode_launch_request
from dovetail.model.cloud.prices import PriceBook
from dovetail.model.frozen import FrozenDict
from dovetail.model.karpenter.nodeclaim import NodeClaim
from dovetail.model.labels import LAUNCH_REQUEST_ANNOTATION
from dovetail.ports.cloudprovider import CreateError
from dovetail.simulator.ec2.capacity import CapacityLimit
from tests.aws.instance.test_fleet_retries import all_instances, from_before, instance_id_of
from tests.simulator.ec2.harness import PRICES, SOLD
from tests.support.aws.launches import claims, launched
from tests.support.aws.provider_process import AwsAccount, AwsProcess
from tests.support.moto.middleware import ScriptedError
from tests.support.moto.server import MotoAws

OTHER_PRICES: PriceBook = msgspec.structs.replace(
    PRICES, list_prices=FrozenDict({name: 2 * price for name, price in SOLD.items()})
)


@pytest.fixture
def processes(process: AwsProcess) -> Iterator[Callable[[], AwsProcess]]:
    """Start another process on the same account."""
    started: list[AwsProcess] = []

    def start() -> AwsProcess:
        started.append(AwsProcess(process.account))
        return started[-1]

    yield start
    for entry in started:
        entry.stop()


def as_recorded(account: AwsAccount, wanted: list[NodeClaim]) -> list[NodeClaim]:
    """Return claims as the next process reads them from the cluster."""
    return [
        msgspec.structs.replace(
            claim, annotations=FrozenDict({LAUNCH_REQUEST_ANNOTATION: account.launch_requests[claim.name]})
        )
        for claim in from_before(wanted)
    ]


def recorded_earlier(claim: NodeClaim, by: timedelta) -> NodeClaim:
    """Return a claim whose request was recorded earlier."""
    request = decode_launch_request(claim)
    assert request is not None
    earlier = encode_launch_request(LaunchRequest(request.at - by, request.client_token))
    return msgspec.structs.replace(claim, annotations=FrozenDict({LAUNCH_REQUEST_ANNOTATION: earlier}))


def test_a_request_is_recorded_on_all_of_its_claims(moto: MotoAws, process: AwsProcess) -> None:
    launched(process, claims(3))

    (request,) = moto.capacity.requests
    assert set(process.account.launch_requests) == {"default-000", "default-001", "default-002"}
    (text,) = set(process.account.launch_requests.values())
    assert text.endswith(f"Z/{request['ClientToken']}")


def test_a_request_that_cannot_be_recorded_is_not_sent(moto: MotoAws, process: AwsProcess) -> None:
    class Full(dict[str, str]):
        def __ior__(self, _: object) -> "Full":  # type: ignore[override,misc]
            raise CreateError("LaunchFailed", "the API server cannot be reached")

    process.account.launch_requests = Full()

    (result,) = process.together([process.cloud.create(claim) for claim in claims(1)])

    assert isinstance(result, CreateError)
    assert moto.capacity.requests == []


def test_the_next_process_launches_nothing_while_ec2_hides_the_instances(
    moto: MotoAws, process: AwsProcess, processes: Callable[[], AwsProcess]
) -> None:
    wanted = claims(3)
    there = sorted(map(instance_id_of, launched(process, wanted)))
    moto.capacity.hidden = set(there)
    process.account.prices = OTHER_PRICES
    following, again = processes(), as_recorded(process.account, wanted)

    outcomes = following.together([following.cloud.create(claim) for claim in again])

    assert all("EC2 has an earlier request for this nodeclaim" in str(result) for result in outcomes)
    moto.capacity.hidden = set()
    assert all_instances(following) == there
    instances = launched(following, again)
    assert sorted(map(instance_id_of, instances)) == there == all_instances(following)


def test_the_next_process_sends_a_request_that_ec2_never_got(
    moto: MotoAws, process: AwsProcess, processes: Callable[[], AwsProcess]
) -> None:
    wanted = claims(2)
    moto.middleware.add_error(ScriptedError(operation="CreateFleet", times=9))
    process.together([process.cloud.create(claim) for claim in wanted])
    process.account.prices = OTHER_PRICES
    following = processes()

    launched(following, as_recorded(process.account, wanted))

    (request,) = moto.capacity.requests
    assert process.account.launch_requests["default-000"].endswith(request["ClientToken"])
    assert len(all_instances(following)) == 2


def test_claims_of_one_request_are_not_mixed_with_others(
    moto: MotoAws, process: AwsProcess, processes: Callable[[], AwsProcess]
) -> None:
    old = claims(2)
    there = sorted(map(instance_id_of, launched(process, old)))
    moto.capacity.hidden = set(there)
    process.account.prices = OTHER_PRICES
    following = processes()

    new = [*as_recorded(process.account, old), *claims(1, "new")]
    *unknown, result = following.together([following.cloud.create(claim) for claim in new])

    assert all(isinstance(entry, Exception) for entry in unknown)
    assert not isinstance(result, Exception)
    moto.capacity.hidden = set()
    assert len(all_instances(following)) == 3


def test_a_request_without_instances_is_replaced_after_two_minutes(
    moto: MotoAws, process: AwsProcess, processes: Callable[[], AwsProcess]
) -> None:
    moto.capacity.pools.add_limit(CapacityLimit(instance_type="*"))
    wanted = claims(1)
    process.together([process.cloud.create(claim) for claim in wanted])
    moto.capacity.pools.clear_limits()
    process.account.prices = OTHER_PRICES
    following = processes()
    (recent,) = as_recorded(process.account, wanted)
    (result,) = following.together([following.cloud.create(recent)])
    assert isinstance(result, CreateError)

    old = recorded_earlier(recent, timedelta(minutes=3))
    (result,) = following.together([following.cloud.create(old)])
    assert isinstance(result, CreateError)

    assert len(launched(following, [old])) == 1
    assert len(all_instances(following)) == 1


@pytest.mark.parametrize("text", ["", "x", "x/y", "2026-01-01T09:00:00Z", "2026-01-01T09:00:00/token"])
def test_an_invalid_record_counts_as_none(text: str) -> None:
    claim = claims(1)[0]

    annotated = msgspec.structs.replace(claim, annotations=FrozenDict({LAUNCH_REQUEST_ANNOTATION: text}))

    assert decode_launch_request(annotated) is None


def test_a_record_is_read_as_it_was_written() -> None:
    request = LaunchRequest(datetime(2026, 1, 1, 9, tzinfo=UTC), "token")

    annotations = FrozenDict({LAUNCH_REQUEST_ANNOTATION: encode_launch_request(request)})

    assert decode_launch_request(msgspec.structs.replace(claims(1)[0], annotations=annotations)) == request
