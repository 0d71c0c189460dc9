"""Launches while EC2 refuses, delays and limits: quotas, eventual consistency, request rates."""

from datetime import timedelta

import msgspec
import pytest

from dovetail.aws.session import RetryPolicy
from dovetail.model.karpenter.nodeclaim import NodeClaim
from dovetail.ports.cloudprovider import (
    CloudError,
    CreateError,
    Instance,
    InstanceNotFoundError,
    InsufficientCapacityError,
)
from tests.simulator.ec2.harness import ON_DEMAND, SPOT, a_claim
from tests.support.aws.launches import NEW, an_account, claims, launched
from tests.support.aws.provider_process import AwsProcess
from tests.support.moto.behaviour import Behaviour, CapacityShortage
from tests.support.moto.server import MotoAws


def on_demand(count: int) -> list[NodeClaim]:
    return [
        msgspec.structs.replace(a_claim(f"default-{number}", kinds=[ON_DEMAND]), created=NEW)
        for number in range(count)
    ]


def running(process: AwsProcess) -> list[str]:
    states = [{"Name": "instance-state-name", "Values": ["pending", "running"]}]
    answer = process.ec2.describe_instances(Filters=states)  # type: ignore[arg-type]
    return [entry["InstanceId"] for group in answer["Reservations"] for entry in group["Instances"]]


def test_on_demand_is_launched_once_the_spot_quota_is_used(moto: MotoAws, process: AwsProcess) -> None:
    moto.behave(Behaviour(max_spot_instances=2))

    instances = launched(process, claims(5))

    assert sorted(instance.capacity_type for instance in instances) == [ON_DEMAND] * 3 + [SPOT] * 2
    assert len(running(process)) == 5


def test_a_used_vcpu_quota_is_missing_capacity(moto: MotoAws, process: AwsProcess) -> None:
    moto.behave(Behaviour(max_on_demand_vcpus=4))

    results = process.together([process.cloud.create(claim) for claim in on_demand(4)])

    assert len([result for result in results if isinstance(result, Instance)]) == 2
    failed = [result for result in results if isinstance(result, InsufficientCapacityError)]
    assert len(failed) == 2
    assert "VcpuLimitExceeded" in str(failed[0])


def test_an_unfulfillable_pool_is_left_for_the_next_one(moto: MotoAws, process: AwsProcess) -> None:
    shortage = CapacityShortage(instance_type="m5.large", code="UnfulfillableCapacity")
    moto.behave(Behaviour(shortages=(shortage,)))

    [instance] = launched(process, on_demand(1))

    assert instance.instance_type == "c5.xlarge"


def test_an_instance_that_ec2_does_not_show_yet_is_not_taken_for_terminated(
    moto: MotoAws, process: AwsProcess
) -> None:
    now = [0.0]
    moto.middleware.failures.clock = lambda: now[0]
    moto.behave(Behaviour(instance_delay=10))
    [instance] = launched(process, on_demand(1))

    with pytest.raises(CloudError, match="its termination is retried") as raised:
        process.do(process.cloud.delete(instance.provider_id))
    assert not isinstance(raised.value, InstanceNotFoundError)

    now[0] += 11
    process.do(process.cloud.delete(instance.provider_id))
    assert running(process) == []
    with pytest.raises(InstanceNotFoundError):
        process.do(process.cloud.delete(instance.provider_id))


def test_an_instance_of_an_old_launch_that_ec2_does_not_show_has_terminated(process: AwsProcess) -> None:
    [instance] = launched(process, on_demand(1))
    process.ec2.terminate_instances(InstanceIds=[instance.provider_id.rpartition("/")[2]])
    process.loop.ahead = timedelta(seconds=31)

    with pytest.raises(InstanceNotFoundError):
        process.do(process.cloud.delete(instance.provider_id))


def test_a_launch_fails_while_ec2_does_not_know_the_profile_and_succeeds_later(
    moto: MotoAws, process: AwsProcess
) -> None:
    moto.behave(Behaviour(profile_delay=3600))
    [claim] = on_demand(1)

    with pytest.raises(CreateError, match="Invalid IAM Instance Profile name"):
        process.do(process.cloud.create(claim))

    moto.behave(Behaviour())
    assert process.do(process.cloud.create(claim)).instance_type == "m5.large"


def test_many_launches_stay_below_the_published_request_rates(moto: MotoAws) -> None:
    process = AwsProcess(an_account(moto), retry_policy=RetryPolicy(max_throttle_retries=0))
    failures = moto.behave(Behaviour(request_rates=True))

    instances = launched(process, claims(120))
    process.together([process.cloud.delete(instance.provider_id) for instance in instances])
    process.stop()

    assert not failures.counts
    assert len(instances) == 120


def test_each_claim_gets_one_instance_while_answers_are_lost(moto: MotoAws, process: AwsProcess) -> None:
    failures = moto.behave(
        Behaviour(
            seed=3,
            throttled={"*": 0.2},
            lost_responses={"*": 0.1},
            shortages=(CapacityShortage(probability=0.05),),
        )
    )
    wanted = [claim for number in range(12) for claim in claims(3, f"batch-{number}")]

    instances = [instance for start in range(0, 36, 3) for instance in launched(process, wanted[start:][:3])]

    described = process.ec2.describe_instances
    moto.behave(Behaviour())
    assert sum(len(group["Instances"]) for group in described()["Reservations"]) == 36
    assert len({instance.provider_id for instance in instances}) == 36
    assert failures.counts["throttled CreateFleet"] > 0
    assert failures.counts["lost response CreateFleet"] > 0
