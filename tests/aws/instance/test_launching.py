"""Launching against moto: few calls, none lost, nothing bought twice."""

from typing import Any

import msgspec
import pytest

from dovetail.model import labels as label_keys
from dovetail.model.frozen import FrozenDict
from dovetail.model.karpenter.ec2nodeclass import NodeClass
from dovetail.model.karpenter.ec2nodeclass_launch import Found, LaunchSpec
from dovetail.model.kube.conditions import UNKNOWN, Condition
from dovetail.ports.cloudprovider import (
    CreateFailed,
    Instance,
    InsufficientCapacity,
    NodeClassNotReady,
)
from dovetail.simulator.ec2.capacity import Shortage
from tests.aws.buying import bought, claims
from tests.simulator.ec2.place import ON_DEMAND, POOL, SPOT, A, B, a_claim
from tests.support.moto.door import Fault
from tests.support.moto.process import CLUSTER, AwsProcess
from tests.support.moto.server import MotoAws


def machines_of(process: AwsProcess) -> list[Any]:
    answer = process.ec2.describe_instances(
        Filters=[{"Name": "instance-state-name", "Values": ["running"]}]
    )
    return [one for reservation in answer["Reservations"] for one in reservation["Instances"]]


def available(process: AwsProcess) -> set[tuple[str, str, str]]:
    return {
        (one.name, offering.zone, offering.capacity_type)
        for one in process.cloud.instance_types(POOL)
        for offering in one.offerings
        if offering.available
    }


def test_a_hundred_claims_that_are_alike_become_at_most_three_calls(
    moto: MotoAws, process: AwsProcess
) -> None:
    wanted = claims(100)

    machines = bought(process, wanted)

    assert moto.door.calls["CreateFleet"] <= 3
    assert len({one.provider_id for one in machines}) == 100
    assert [one.claim for one in machines] == [claim.name for claim in wanted]


def test_a_throttled_account_gets_every_request_in_the_end(
    moto: MotoAws, process: AwsProcess
) -> None:
    moto.door.script(Fault(operation="*", times=12))

    machines = bought(process, claims(20))

    assert len({one.provider_id for one in machines}) == 20
    assert len(process.do(process.cloud.list())) == 20


def test_claims_that_differ_are_bought_by_calls_of_their_own(
    moto: MotoAws, process: AwsProcess
) -> None:
    outcomes = process.together(
        [process.cloud.create(a_claim(f"cpu-{cpu}", cpu=cpu)) for cpu in ("1", "3")]
    )

    assert moto.door.calls["CreateFleet"] == 2
    assert [one.instance_type for one in outcomes if isinstance(one, Instance)] == [
        "m5.large",
        "c5.xlarge",
    ]


def test_when_ec2_gives_three_of_five_the_other_two_are_asked_for_at_once(
    moto: MotoAws, process: AwsProcess
) -> None:
    moto.shop.stock.run_short(Shortage(instance_type="m5.large", left=3))
    moto.shop.stock.run_short(Shortage(instance_type="c5.xlarge", left=0))
    moto.shop.stock.run_short(Shortage(instance_type="m5.xlarge", capacity_type=SPOT, left=0))

    machines = bought(process, claims(5))

    kinds = sorted((one.instance_type, one.capacity_type) for one in machines)
    assert kinds == [("m5.large", SPOT)] * 3 + [("m5.xlarge", ON_DEMAND)] * 2
    assert moto.door.calls["CreateFleet"] == 2


def test_too_few_machines_without_an_error_are_asked_for_again(
    moto: MotoAws, process: AwsProcess
) -> None:
    moto.shop.at_most = 2

    assert len(bought(process, claims(5))) == 5


def test_no_machine_and_no_error_is_told_as_that(moto: MotoAws, process: AwsProcess) -> None:
    moto.shop.at_most = 0

    with pytest.raises(CreateFailed, match="too few instances"):
        process.do(process.cloud.create(claims(1)[0]))


def test_a_connection_that_breaks_after_ec2_has_bought_does_not_make_it_buy_again(
    moto: MotoAws, process: AwsProcess
) -> None:
    moto.door.script(Fault(operation="CreateFleet", after_effect=True, hang_up=True))

    machines = bought(process, claims(4))

    assert len(machines_of(process)) == 4
    assert {one.provider_id.rpartition("/")[2] for one in machines} == {
        one["InstanceId"] for one in machines_of(process)
    }


def test_a_process_killed_between_create_fleet_and_its_answer_leaves_nothing_behind(
    moto: MotoAws, process: AwsProcess
) -> None:
    wanted = claims(6)
    moto.door.script(
        Fault(operation="CreateFleet", code="InternalError", after_effect=True, times=4)
    )
    outcomes = process.together([process.cloud.create(claim) for claim in wanted])
    assert all(isinstance(one, CreateFailed) for one in outcomes)

    # Another process, with some of the claims gone and others in between.
    other = AwsProcess(process.site)
    old = [msgspec.structs.replace(claim, created=None) for claim in wanted]
    machines = bought(other, [*old[::2], *claims(1, "new")])
    other.stop()

    assert len(machines_of(process)) == 7
    assert moto.door.calls["CreateFleet"] == 5
    assert [one.claim for one in machines] == [
        *(claim.name for claim in wanted[::2]),
        "new-000",
    ]


def test_an_answer_that_was_an_error_is_not_taken_for_the_answer_to_the_next_try(
    moto: MotoAws, process: AwsProcess
) -> None:
    moto.shop.stock.run_short(Shortage())
    moto.shop.errors = {("m5.large", zone): "SomethingOdd" for zone in (A, B)}
    claim = msgspec.structs.replace(a_claim(types=["m5.large"]), created=claims(1)[0].created)
    with pytest.raises(CreateFailed, match="SomethingOdd") as failure:
        process.do(process.cloud.create(claim))
    assert failure.value.reason == "LaunchFailed"

    moto.shop.stock.plenty()

    assert process.do(process.cloud.create(claim)).instance_type == "m5.large"


def test_an_account_without_the_spot_role_is_given_on_demand(
    moto: MotoAws, process: AwsProcess
) -> None:
    moto.shop.stock.run_short(Shortage(capacity_type=SPOT))
    code = "AuthFailure.ServiceLinkedRoleCreationNotPermitted"
    moto.shop.errors = {("m5.large", zone): code for zone in (A, B)}

    machine = process.do(process.cloud.create(a_claim()))

    assert machine.capacity_type == ON_DEMAND
    assert {kind for _, _, kind in available(process)} == {ON_DEMAND}


def test_the_quota_of_fleets_counts_as_no_capacity_in_that_pool_only(
    moto: MotoAws, process: AwsProcess
) -> None:
    moto.shop.stock.run_short(Shortage(zone=A, instance_type="m5.large", capacity_type=SPOT))
    moto.shop.errors = {("m5.large", A): "MaxFleetCountExceeded"}

    machine = process.do(process.cloud.create(a_claim()))

    assert machine.zone == B
    assert ("m5.large", A, SPOT) not in available(process)
    assert ("m5.large", A, ON_DEMAND) in available(process)


def test_a_full_subnet_is_given_up_and_its_zone_set_aside_for_that_type(
    moto: MotoAws, process: AwsProcess
) -> None:
    full = next(one.id for one in process.classes.subnets if one.zone == A)
    moto.shop.stock.run_short(Shortage(zone=A))
    moto.shop.errors = {("m5.large", A): "InsufficientFreeAddressesInSubnet"}

    assert process.do(process.cloud.create(a_claim())).zone == B

    assert process.addresses.free(full) == 0


def test_a_zone_stays_open_while_another_of_its_subnets_has_addresses(
    moto: MotoAws, process: AwsProcess
) -> None:
    first, *_ = process.classes.subnets
    other = msgspec.structs.replace(first, id=second_subnet(process, first.zone))
    process.classes.subnets = (first, other)
    process.addresses.left = {first.id: 500, other.id: 400}
    moto.shop.full_subnets = {first.id}

    (machine,) = bought(process, claims(1))

    assert machine.subnet == other.id
    assert ("m5.large", first.zone, SPOT) in available(process)


def test_a_zone_all_of_whose_subnets_are_full_is_set_aside(
    moto: MotoAws, process: AwsProcess
) -> None:
    first, *_ = process.classes.subnets
    other = msgspec.structs.replace(first, id=second_subnet(process, first.zone))
    process.classes.subnets = (first, other)
    process.addresses.left = {first.id: 500, other.id: 400}
    moto.shop.full_subnets = {first.id, other.id}

    with pytest.raises(NodeClassNotReady):
        process.do(process.cloud.create(a_claim(types=["m5.large"], created=claims(1)[0].created)))

    assert ("m5.large", first.zone, SPOT) not in available(process)


def test_addresses_are_counted_while_machines_are_on_their_way_and_given_back_where_unused(
    moto: MotoAws, process: AwsProcess
) -> None:
    before = dict(process.addresses.left)

    machines = bought(process, claims(3))

    (zone,) = {one.zone for one in machines}
    (pods,) = {one.capacity["pods"] for one in machines}
    by_zone = {
        one.zone: before[one.id] - process.addresses.left[one.id] for one in subnets(process)
    }
    assert by_zone == {zone: 3 * pods, (B if zone == A else A): 0}


def test_a_launch_that_fails_gives_the_addresses_back(moto: MotoAws, process: AwsProcess) -> None:
    before = dict(process.addresses.left)
    moto.door.script(Fault(operation="CreateFleet", code="UnauthorizedOperation", status=403))

    with pytest.raises(CreateFailed, match="CreateFleet: UnauthorizedOperation") as failure:
        process.do(process.cloud.create(claims(1)[0]))

    assert failure.value.reason == "Unauthorized"
    assert process.addresses.left == before


def test_in_a_zone_with_several_subnets_the_roomiest_is_used(
    moto: MotoAws, process: AwsProcess
) -> None:
    first, *_ = process.classes.subnets
    roomy = msgspec.structs.replace(first, id=second_subnet(process, first.zone))
    process.classes.subnets = (first, roomy)
    process.addresses.left = {first.id: 100, roomy.id: 120}

    one, two = (bought(process, claims(1, name))[0] for name in ("one", "two"))

    homes = {machine["InstanceId"]: machine["SubnetId"] for machine in machines_of(process)}
    # What the first took makes the other subnet the roomier one.
    assert homes[one.provider_id.rpartition("/")[2]] == roomy.id
    assert homes[two.provider_id.rpartition("/")[2]] == first.id


def test_machines_volumes_and_interfaces_belong_to_the_cluster_from_their_first_moment(
    moto: MotoAws, process: AwsProcess
) -> None:
    tags = FrozenDict({"Name": "mine", "team": "a", "karpenter.sh/nodepool": "not yours"})
    process.site.classes["default"] = NodeClass(launch=LaunchSpec(tags=tags, context="ctx"))

    bought(process, claims(2))

    (request,) = moto.shop.requests
    expected = {
        "Name": "mine",
        "team": "a",
        f"kubernetes.io/cluster/{CLUSTER}": "owned",
        "eks:eks-cluster-name": CLUSTER,
        "karpenter.sh/nodepool": "default",
        "karpenter.k8s.aws/ec2nodeclass": "default",
    }
    for spec in request["TagSpecifications"]:
        given = {one["Key"]: one["Value"] for one in spec["Tags"]}
        assert expected.items() <= given.items()
    assert request["Context"] == "ctx"
    for machine in machines_of(process):
        assert expected.items() <= {one["Key"]: one["Value"] for one in machine["Tags"]}.items()


def test_a_claim_learns_hash_and_profile_of_its_class(moto: MotoAws, process: AwsProcess) -> None:
    hashes = {
        "karpenter.k8s.aws/ec2nodeclass-hash": "1",
        "karpenter.k8s.aws/ec2nodeclass-hash-version": "v6",
    }
    process.site.classes["default"] = NodeClass(
        annotations=FrozenDict({**hashes, "else": "x"}), found=Found(instance_profile="nodes")
    )

    (machine,) = bought(process, claims(1))

    assert machine.annotations == {**hashes, "karpenter.k8s.aws/instance-profile-name": "nodes"}


@pytest.mark.parametrize(
    ("condition", "error"),
    [
        (Condition(status=UNKNOWN), CreateFailed),
        (Condition(status="True", generation=1), NodeClassNotReady),
    ],
)
def test_a_class_that_nobody_has_looked_at_since_it_changed_is_not_launched_from(
    moto: MotoAws, process: AwsProcess, condition: Condition, error: type[Exception]
) -> None:
    process.site.classes["default"] = NodeClass(
        generation=2, conditions=FrozenDict({"Ready": condition})
    )

    with pytest.raises(error):
        process.do(process.cloud.create(a_claim()))

    assert moto.door.calls["CreateFleet"] == 0


def test_nothing_that_boots_is_told_of_the_class_and_nothing_is_bought(
    moto: MotoAws, process: AwsProcess
) -> None:
    process.classes.subnets = ()

    with pytest.raises(NodeClassNotReady, match="EC2NodeClass default has no image or no subnet"):
        process.do(process.cloud.create(a_claim()))


def test_a_claim_that_nothing_can_meet_is_refused_without_a_call(
    moto: MotoAws, process: AwsProcess
) -> None:
    with pytest.raises(InsufficientCapacity, match="nodeclaim claim: no instance type"):
        process.do(process.cloud.create(a_claim(cpu="1000")))

    assert moto.door.calls["CreateFleet"] == 0
    assert label_keys.SPOT in {kind for _, _, kind in available(process)}


def subnets(process: AwsProcess) -> Any:
    return process.classes.subnets


def second_subnet(process: AwsProcess, zone: str) -> str:
    vpc = process.ec2.create_vpc(CidrBlock="10.9.0.0/16")["Vpc"]["VpcId"]
    made = process.ec2.create_subnet(VpcId=vpc, AvailabilityZone=zone, CidrBlock="10.9.0.0/17")
    return made["Subnet"]["SubnetId"]
