"""EC2 does not show at once what it has bought: nothing is bought again, or given to two."""

from datetime import timedelta

import msgspec

from dovetail.model.karpenter.nodeclaim import NodeClaim
from dovetail.ports.cloudprovider import CreateFailed, Instance
from tests.aws.buying import bought, claims
from tests.support.moto.door import Fault
from tests.support.moto.process import AwsProcess
from tests.support.moto.server import MotoAws

LOST = Fault(operation="CreateFleet", code="InternalError", after_effect=True, times=4)
"""As often as the adapter tries by itself."""


def machine(one: Instance) -> str:
    return one.provider_id.rpartition("/")[2]


def all_machines(process: AwsProcess) -> list[str]:
    answer = process.ec2.describe_instances()
    return sorted(
        one["InstanceId"] for group in answer["Reservations"] for one in group["Instances"]
    )


def lose_answers(moto: MotoAws, process: AwsProcess, wanted: list[NodeClaim]) -> list[str]:
    """Buy, and never hear of it; return what was bought."""
    moto.door.script(LOST)
    outcomes = process.together([process.cloud.create(claim) for claim in wanted])
    assert all(isinstance(one, CreateFailed) for one in outcomes)
    return all_machines(process)


def from_before(wanted: list[NodeClaim]) -> list[NodeClaim]:
    return [msgspec.structs.replace(claim, created=None) for claim in wanted]


def test_what_was_bought_without_an_answer_is_found_even_while_ec2_does_not_show_it(
    moto: MotoAws, process: AwsProcess
) -> None:
    wanted = claims(3)
    there = lose_answers(moto, process, wanted)
    moto.shop.hidden = set(there)

    machines = bought(process, wanted)

    moto.shop.hidden = set()
    assert sorted(map(machine, machines)) == there == all_machines(process)


def test_claims_that_come_back_one_by_one_each_get_what_was_bought_for_them(
    moto: MotoAws, process: AwsProcess
) -> None:
    wanted = claims(3)
    there = lose_answers(moto, process, wanted)

    machines = [process.do(process.cloud.create(claim)) for claim in reversed(wanted)]

    assert sorted(map(machine, machines)) == there == all_machines(process)
    assert [one.claim for one in machines] == [claim.name for claim in reversed(wanted)]


def test_an_order_that_brought_too_little_is_completed_by_another(
    moto: MotoAws, process: AwsProcess
) -> None:
    wanted = claims(3)
    moto.shop.at_most = 1
    there = lose_answers(moto, process, wanted)
    moto.shop.at_most = None

    machines = bought(process, wanted)

    assert len(there) == 1
    assert sorted(map(machine, machines)) == all_machines(process)
    assert len(all_machines(process)) == 3


def test_machines_are_looked_for_by_their_tags_where_ec2_does_not_repeat_its_answer(
    moto: MotoAws, process: AwsProcess
) -> None:
    moto.shop.mute = True
    wanted = claims(3)
    there = lose_answers(moto, process, wanted)

    first = process.together([process.cloud.create(claim) for claim in wanted])
    then = bought(process, wanted)

    assert all(isinstance(one, CreateFailed) for one in first)
    assert sorted(map(machine, then)) == there == all_machines(process)


def test_an_answer_without_anything_is_no_reason_to_buy_again(
    moto: MotoAws, process: AwsProcess
) -> None:
    moto.shop.mute = True
    wanted = claims(2)
    moto.door.script(msgspec.structs.replace(LOST, times=1))

    first = process.together([process.cloud.create(claim) for claim in wanted])
    then = bought(process, wanted)

    assert all(isinstance(one, CreateFailed) for one in first)
    assert sorted(map(machine, then)) == all_machines(process)
    assert len(then) == 2


def test_an_answer_that_stays_away_buys_nothing_else_meanwhile(
    moto: MotoAws, process: AwsProcess
) -> None:
    wanted = claims(2)
    there = lose_answers(moto, process, wanted)

    assert lose_answers(moto, process, wanted) == there


def test_after_a_restart_a_claim_waits_while_its_fleet_is_shown_in_part(
    moto: MotoAws, process: AwsProcess
) -> None:
    wanted = claims(3)
    there = lose_answers(moto, process, wanted)
    moto.shop.hidden = {there[0]}
    other = AwsProcess(process.site)

    first = other.together([other.cloud.create(claim) for claim in from_before(wanted)])
    moto.shop.hidden = set()
    then = bought(other, from_before(wanted))
    other.stop()

    assert [isinstance(one, CreateFailed) for one in first] == [False, False, True]
    assert sorted(map(machine, then)) == there == all_machines(process)
    assert [machine(one) for one in first if isinstance(one, Instance)] == list(
        map(machine, then[:2])
    )


def test_what_two_processes_found_in_different_order_is_never_given_to_two_claims(
    moto: MotoAws, process: AwsProcess
) -> None:
    wanted = claims(3)
    there = lose_answers(moto, process, wanted)
    site = process.site
    moto.shop.hidden = {there[0]}
    one = AwsProcess(site)
    second = one.do(one.cloud.create(from_before(wanted)[1]))
    site.statuses[wanted[1].name] = machine(second)
    one.stop()
    moto.shop.hidden = set()

    other = AwsProcess(site)
    rest = bought(other, from_before(wanted)[::2])
    other.stop()

    assert sorted([machine(second), *map(machine, rest)]) == there == all_machines(process)


def test_an_old_fleet_that_brought_too_little_is_not_waited_for(
    moto: MotoAws, process: AwsProcess
) -> None:
    wanted = claims(2)
    moto.shop.at_most = 1
    lose_answers(moto, process, wanted)
    moto.shop.at_most = None
    moto.shop.age(timedelta(minutes=1))

    other = AwsProcess(process.site)
    machines = bought(other, from_before(wanted))
    other.stop()

    assert len(set(map(machine, machines))) == len(all_machines(process)) == 2


def test_after_a_restart_all_who_wait_share_one_listing(moto: MotoAws, process: AwsProcess) -> None:
    groups = [from_before(claims(2, name)) for name in ("a", "b", "c", "d")]
    alone = [
        msgspec.structs.replace(one, labels=one.labels.with_items({"team": one.name}))
        for group in groups
        for one in group
    ]

    bought(process, alone)

    assert moto.door.calls["DescribeInstances"] == 1
