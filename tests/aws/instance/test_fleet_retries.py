"""Eventual consistency: hidden instances are neither launched again nor shared."""

from datetime import timedelta

import msgspec

from dovetail.model.karpenter.nodeclaim import NodeClaim
from dovetail.ports.cloudprovider import CreateError, Instance
from tests.support.aws.launches import claims, launched
from tests.support.aws.provider_process import AwsProcess
from tests.support.moto.middleware import ScriptedError
from tests.support.moto.server import MotoAws

LOST = ScriptedError(operation="CreateFleet", code="InternalError", after_effect=True, times=4)
"""As often as the adapter tries by itself."""


def instance_id_of(instance: Instance) -> str:
    return instance.provider_id.rpartition("/")[2]


def all_instances(process: AwsProcess) -> list[str]:
    answer = process.ec2.describe_instances()
    return sorted(entry["InstanceId"] for group in answer["Reservations"] for entry in group["Instances"])


def lose_answers(moto: MotoAws, process: AwsProcess, wanted: list[NodeClaim]) -> list[str]:
    """Launch, lose every response, and return the ids of the instances."""
    moto.middleware.add_error(LOST)
    outcomes = process.together([process.cloud.create(claim) for claim in wanted])
    assert all(isinstance(result, CreateError) for result in outcomes)
    return all_instances(process)


def from_before(wanted: list[NodeClaim]) -> list[NodeClaim]:
    return [msgspec.structs.replace(claim, created=None) for claim in wanted]


def test_an_unanswered_launch_is_found_while_ec2_hides_it(moto: MotoAws, process: AwsProcess) -> None:
    wanted = claims(3)
    there = lose_answers(moto, process, wanted)
    moto.capacity.hidden = set(there)

    instances = launched(process, wanted)

    moto.capacity.hidden = set()
    assert sorted(map(instance_id_of, instances)) == there == all_instances(process)


def test_retried_claims_each_get_their_own_instance(moto: MotoAws, process: AwsProcess) -> None:
    wanted = claims(3)
    there = lose_answers(moto, process, wanted)

    instances = [process.do(process.cloud.create(claim)) for claim in reversed(wanted)]

    assert sorted(map(instance_id_of, instances)) == there == all_instances(process)
    assert [instance.nodeclaim for instance in instances] == [claim.name for claim in reversed(wanted)]


def test_an_incomplete_fleet_is_completed_by_another_request(moto: MotoAws, process: AwsProcess) -> None:
    wanted = claims(3)
    moto.capacity.max_instances = 1
    there = lose_answers(moto, process, wanted)
    moto.capacity.max_instances = None

    instances = launched(process, wanted)

    assert len(there) == 1
    assert sorted(map(instance_id_of, instances)) == all_instances(process)
    assert len(all_instances(process)) == 3


def test_instances_are_found_by_tag_if_ec2_does_not_repeat_its_response(
    moto: MotoAws, process: AwsProcess
) -> None:
    moto.capacity.empty_retries = True
    wanted = claims(3)
    there = lose_answers(moto, process, wanted)

    first = process.together([process.cloud.create(claim) for claim in wanted])
    then = launched(process, wanted)

    assert all(isinstance(entry, CreateError) for entry in first)
    assert sorted(map(instance_id_of, then)) == there == all_instances(process)


def test_an_empty_response_launches_nothing_again(moto: MotoAws, process: AwsProcess) -> None:
    moto.capacity.empty_retries = True
    wanted = claims(2)
    moto.middleware.add_error(msgspec.structs.replace(LOST, times=1))

    first = process.together([process.cloud.create(claim) for claim in wanted])
    then = launched(process, wanted)

    assert all(isinstance(entry, CreateError) for entry in first)
    assert sorted(map(instance_id_of, then)) == all_instances(process)
    assert len(then) == 2


def test_an_unanswered_request_launches_nothing_else_meanwhile(moto: MotoAws, process: AwsProcess) -> None:
    wanted = claims(2)
    there = lose_answers(moto, process, wanted)

    assert lose_answers(moto, process, wanted) == there


def test_after_a_restart_a_claim_waits_while_ec2_shows_its_fleet_partially(
    moto: MotoAws, process: AwsProcess
) -> None:
    wanted = claims(3)
    there = lose_answers(moto, process, wanted)
    moto.capacity.hidden = {there[0]}
    other = AwsProcess(process.account)

    first = other.together([other.cloud.create(claim) for claim in from_before(wanted)])
    moto.capacity.hidden = set()
    then = launched(other, from_before(wanted))
    other.stop()

    assert [isinstance(entry, CreateError) for entry in first] == [False, False, True]
    assert sorted(map(instance_id_of, then)) == there == all_instances(process)
    assert [instance_id_of(entry) for entry in first if isinstance(entry, Instance)] == list(
        map(instance_id_of, then[:2])
    )


def test_assignment_does_not_depend_on_the_order_of_instances(moto: MotoAws, process: AwsProcess) -> None:
    wanted = claims(3)
    there = lose_answers(moto, process, wanted)
    account = process.account
    moto.capacity.hidden = {there[0]}
    entry = AwsProcess(account)
    second = entry.do(entry.cloud.create(from_before(wanted)[1]))
    account.statuses[wanted[1].name] = instance_id_of(second)
    entry.stop()
    moto.capacity.hidden = set()

    other = AwsProcess(account)
    rest = launched(other, from_before(wanted)[::2])
    other.stop()

    assert sorted([instance_id_of(second), *map(instance_id_of, rest)]) == there == all_instances(process)


def test_an_old_incomplete_fleet_is_not_waited_for(moto: MotoAws, process: AwsProcess) -> None:
    wanted = claims(2)
    moto.capacity.max_instances = 1
    lose_answers(moto, process, wanted)
    moto.capacity.max_instances = None
    moto.capacity.age(timedelta(minutes=1))

    other = AwsProcess(process.account)
    instances = launched(other, from_before(wanted))
    other.stop()

    assert len(set(map(instance_id_of, instances))) == len(all_instances(process)) == 2


def test_after_a_restart_all_claims_share_one_search(moto: MotoAws, process: AwsProcess) -> None:
    groups = [from_before(claims(2, name)) for name in ("a", "b", "c", "d")]
    alone = [
        msgspec.structs.replace(entry, labels=entry.labels.with_items({"team": entry.name}))
        for group in groups
        for entry in group
    ]

    launched(process, alone)

    assert moto.middleware.calls["DescribeInstances"] == 1
