"""Launches against moto: few calls, no lost instance, no instance twice."""

from typing import Any

import msgspec
import pytest

from dovetail.core.instancetypes.capacity import EFA
from dovetail.model import labels as label_keys
from dovetail.model.frozen import FrozenDict
from dovetail.model.karpenter.ec2nodeclass import EC2NodeClass
from dovetail.model.karpenter.ec2nodeclass_launch import LaunchSpec, ResolvedResources
from dovetail.model.kube.conditions import UNKNOWN, Condition
from dovetail.model.kube.resources import Resources
from dovetail.ports.cloudprovider import (
    CreateError,
    Instance,
    InsufficientCapacityError,
    NodeClassNotReadyError,
)
from dovetail.simulator.ec2.capacity import CapacityLimit
from tests.simulator.ec2.harness import EFA_CATALOG, EFA_CLASS, ON_DEMAND, POOL, SPOT, A, B, a_claim
from tests.support.aws.launches import an_account, claims, launched
from tests.support.aws.provider_process import CLUSTER, AwsProcess
from tests.support.moto.behaviour import Behaviour
from tests.support.moto.middleware import ScriptedError
from tests.support.moto.server import MotoAws


def instances_of(process: AwsProcess) -> list[Any]:
    answer = process.ec2.describe_instances(Filters=[{"Name": "instance-state-name", "Values": ["running"]}])
    return [entry for reservation in answer["Reservations"] for entry in reservation["Instances"]]


def available(process: AwsProcess) -> set[tuple[str, str, str]]:
    return {
        (instance_type.name, offering.zone, offering.capacity_type)
        for instance_type in process.cloud.instance_types(POOL)
        for offering in instance_type.offerings
        if offering.available
    }


def test_a_hundred_equal_claims_need_at_most_three_calls(moto: MotoAws, process: AwsProcess) -> None:
    wanted = claims(100)

    instances = launched(process, wanted)

    assert moto.middleware.calls["CreateFleet"] <= 3
    assert len({instance.provider_id for instance in instances}) == 100
    assert [instance.nodeclaim for instance in instances] == [claim.name for claim in wanted]


def test_throttled_requests_all_succeed_in_the_end(moto: MotoAws, process: AwsProcess) -> None:
    moto.middleware.add_error(ScriptedError(operation="*", times=12))

    instances = launched(process, claims(20))

    assert len({instance.provider_id for instance in instances}) == 20
    assert len(process.do(process.cloud.list())) == 20


def test_different_claims_need_separate_calls(moto: MotoAws, process: AwsProcess) -> None:
    outcomes = process.together([process.cloud.create(a_claim(f"cpu-{cpu}", cpu=cpu)) for cpu in ("1", "3")])

    assert moto.middleware.calls["CreateFleet"] == 2
    assert [result.instance_type for result in outcomes if isinstance(result, Instance)] == [
        "m5.large",
        "c5.xlarge",
    ]


def test_missing_instances_are_requested_at_once(moto: MotoAws, process: AwsProcess) -> None:
    moto.capacity.pools.add_limit(CapacityLimit(instance_type="m5.large", remaining=3))
    moto.capacity.pools.add_limit(CapacityLimit(instance_type="c5.xlarge", remaining=0))
    moto.capacity.pools.add_limit(CapacityLimit(instance_type="m5.xlarge", capacity_type=SPOT, remaining=0))

    instances = launched(process, claims(5))

    kinds = sorted((instance.instance_type, instance.capacity_type) for instance in instances)
    assert kinds == [("m5.large", SPOT)] * 3 + [("m5.xlarge", ON_DEMAND)] * 2
    assert moto.middleware.calls["CreateFleet"] == 2


def test_too_few_instances_without_an_error_are_requested_again(moto: MotoAws, process: AwsProcess) -> None:
    moto.capacity.max_instances = 2

    assert len(launched(process, claims(5))) == 5


def test_an_empty_response_is_reported(moto: MotoAws, process: AwsProcess) -> None:
    moto.capacity.max_instances = 0

    with pytest.raises(CreateError, match="no instance and no error"):
        process.do(process.cloud.create(claims(1)[0]))


def test_a_lost_response_does_not_launch_a_second_instance(moto: MotoAws, process: AwsProcess) -> None:
    moto.middleware.add_error(ScriptedError(operation="CreateFleet", after_effect=True, hang_up=True))

    instances = launched(process, claims(4))

    assert len(instances_of(process)) == 4
    assert {instance.provider_id.rpartition("/")[2] for instance in instances} == {
        entry["InstanceId"] for entry in instances_of(process)
    }


def test_a_process_killed_before_the_response_leaves_no_orphan(moto: MotoAws, process: AwsProcess) -> None:
    wanted = claims(6)
    moto.middleware.add_error(
        ScriptedError(operation="CreateFleet", code="InternalError", after_effect=True, times=4)
    )
    outcomes = process.together([process.cloud.create(claim) for claim in wanted])
    assert all(isinstance(result, CreateError) for result in outcomes)

    # Another process, with some of the claims gone and others in between.
    other = AwsProcess(process.account)
    old = [msgspec.structs.replace(claim, created=None) for claim in wanted]
    instances = launched(other, [*old[::2], *claims(1, "new")])
    other.stop()

    assert len(instances_of(process)) == 7
    assert moto.middleware.calls["CreateFleet"] == 5
    assert [instance.nodeclaim for instance in instances] == [
        *(claim.name for claim in wanted[::2]),
        "new-000",
    ]


def test_an_error_response_is_not_repeated_for_the_next_attempt(moto: MotoAws, process: AwsProcess) -> None:
    moto.capacity.pools.add_limit(CapacityLimit())
    moto.capacity.errors = {("m5.large", zone): "SomethingOdd" for zone in (A, B)}
    claim = msgspec.structs.replace(a_claim(types=["m5.large"]), created=claims(1)[0].created)
    with pytest.raises(CreateError, match="SomethingOdd") as failure:
        process.do(process.cloud.create(claim))
    assert failure.value.reason == "LaunchFailed"

    moto.capacity.pools.clear_limits()

    assert process.do(process.cloud.create(claim)).instance_type == "m5.large"


def test_an_instance_has_the_efa_that_its_node_class_lists(moto: MotoAws) -> None:
    account = an_account(moto)
    moto.behave(Behaviour(unsupported_settings=False))  # These types have no EFA in EC2.
    account.catalog = EFA_CATALOG
    process = AwsProcess(account)
    derived, requested, listed = claims(3)
    requested = msgspec.structs.replace(requested, requests=Resources.parse({EFA: "1"}))

    without, with_request = launched(process, [derived, requested])
    account.classes["default"] = EFA_CLASS
    [with_list] = launched(process, [listed])
    process.stop()

    assert EFA not in without.capacity
    assert with_request.capacity[EFA] == 1
    assert (with_list.capacity[EFA], with_list.allocatable[EFA]) == (1, 1)


def test_an_account_without_the_spot_role_launches_on_demand(moto: MotoAws, process: AwsProcess) -> None:
    moto.capacity.pools.add_limit(CapacityLimit(capacity_type=SPOT))
    code = "AuthFailure.ServiceLinkedRoleCreationNotPermitted"
    moto.capacity.errors = {("m5.large", zone): code for zone in (A, B)}

    instance = process.do(process.cloud.create(a_claim()))

    assert instance.capacity_type == ON_DEMAND
    assert {kind for _, _, kind in available(process)} == {ON_DEMAND}


def test_the_fleet_quota_makes_only_that_offering_unavailable(moto: MotoAws, process: AwsProcess) -> None:
    moto.capacity.pools.add_limit(CapacityLimit(zone=A, instance_type="m5.large", capacity_type=SPOT))
    moto.capacity.errors = {("m5.large", A): "MaxFleetCountExceeded"}

    instance = process.do(process.cloud.create(a_claim()))

    assert instance.zone == B
    assert ("m5.large", A, SPOT) not in available(process)
    assert ("m5.large", A, ON_DEMAND) in available(process)


def test_a_full_subnet_makes_the_offering_of_its_zone_unavailable(moto: MotoAws, process: AwsProcess) -> None:
    full = next(subnet.id for subnet in process.classes.subnets if subnet.zone == A)
    moto.capacity.pools.add_limit(CapacityLimit(zone=A))
    moto.capacity.errors = {("m5.large", A): "InsufficientFreeAddressesInSubnet"}

    assert process.do(process.cloud.create(a_claim())).zone == B

    assert process.addresses.free(full) == 0


def test_a_zone_stays_available_while_another_subnet_has_addresses(
    moto: MotoAws, process: AwsProcess
) -> None:
    first, *_ = process.classes.subnets
    other = msgspec.structs.replace(first, id=second_subnet(process, first.zone))
    process.classes.subnets = (first, other)
    process.addresses.left = {first.id: 500, other.id: 400}
    moto.capacity.full_subnets = {first.id}

    (instance,) = launched(process, claims(1))

    assert instance.subnet_id == other.id
    assert ("m5.large", first.zone, SPOT) in available(process)


def test_a_zone_whose_subnets_are_all_full_is_unavailable(moto: MotoAws, process: AwsProcess) -> None:
    first, *_ = process.classes.subnets
    other = msgspec.structs.replace(first, id=second_subnet(process, first.zone))
    process.classes.subnets = (first, other)
    process.addresses.left = {first.id: 500, other.id: 400}
    moto.capacity.full_subnets = {first.id, other.id}

    with pytest.raises(NodeClassNotReadyError):
        process.do(process.cloud.create(a_claim(types=["m5.large"], created=claims(1)[0].created)))

    assert ("m5.large", first.zone, SPOT) not in available(process)


def test_addresses_are_reserved_during_a_launch_and_released_if_unused(
    moto: MotoAws, process: AwsProcess
) -> None:
    before = dict(process.addresses.left)

    instances = launched(process, claims(3))

    (zone,) = {instance.zone for instance in instances}
    (pods,) = {instance.capacity["pods"] for instance in instances}
    by_zone = {
        subnet.zone: before[subnet.id] - process.addresses.left[subnet.id] for subnet in subnets(process)
    }
    assert by_zone == {zone: 3 * pods, (B if zone == A else A): 0}


def test_a_failed_launch_releases_the_addresses(moto: MotoAws, process: AwsProcess) -> None:
    before = dict(process.addresses.left)
    moto.middleware.add_error(
        ScriptedError(operation="CreateFleet", code="UnauthorizedOperation", status=403)
    )

    with pytest.raises(CreateError, match="CreateFleet: UnauthorizedOperation") as failure:
        process.do(process.cloud.create(claims(1)[0]))

    assert failure.value.reason == "Unauthorized"
    assert process.addresses.left == before


def test_the_subnet_with_most_free_addresses_is_used(moto: MotoAws, process: AwsProcess) -> None:
    first, *_ = process.classes.subnets
    roomy = msgspec.structs.replace(first, id=second_subnet(process, first.zone))
    process.classes.subnets = (first, roomy)
    process.addresses.left = {first.id: 100, roomy.id: 120}

    entry, two = (launched(process, claims(1, name))[0] for name in ("one", "two"))

    homes = {instance["InstanceId"]: instance["SubnetId"] for instance in instances_of(process)}
    # What the first took makes the other subnet the roomier one.
    assert homes[entry.provider_id.rpartition("/")[2]] == roomy.id
    assert homes[two.provider_id.rpartition("/")[2]] == first.id


def test_instances_volumes_and_interfaces_are_tagged_at_launch(moto: MotoAws, process: AwsProcess) -> None:
    tags = FrozenDict({"Name": "mine", "team": "a", "karpenter.sh/nodepool": "not yours"})
    process.account.classes["default"] = EC2NodeClass(launch=LaunchSpec(tags=tags, context="ctx"))

    launched(process, claims(2))

    (request,) = moto.capacity.requests
    expected = {
        "Name": "mine",
        "team": "a",
        f"kubernetes.io/cluster/{CLUSTER}": "owned",
        "eks:eks-cluster-name": CLUSTER,
        "karpenter.sh/nodepool": "default",
        "karpenter.k8s.aws/ec2nodeclass": "default",
    }
    for spec in request["TagSpecifications"]:
        given = {entry["Key"]: entry["Value"] for entry in spec["Tags"]}
        assert expected.items() <= given.items()
    assert request["Context"] == "ctx"
    for instance in instances_of(process):
        assert expected.items() <= {entry["Key"]: entry["Value"] for entry in instance["Tags"]}.items()


def test_a_launched_claim_has_hash_and_profile_of_its_node_class(moto: MotoAws, process: AwsProcess) -> None:
    hashes = {"karpenter.k8s.aws/ec2nodeclass-hash": "1", "karpenter.k8s.aws/ec2nodeclass-hash-version": "v6"}
    process.account.classes["default"] = EC2NodeClass(
        annotations=FrozenDict({**hashes, "else": "x"}), resolved=ResolvedResources(instance_profile="nodes")
    )

    (instance,) = launched(process, claims(1))

    assert instance.annotations == {**hashes, "karpenter.k8s.aws/instance-profile-name": "nodes"}


@pytest.mark.parametrize(
    ("condition", "error"),
    [
        (Condition(status=UNKNOWN), CreateError),
        (Condition(status="True", observed_generation=1), NodeClassNotReadyError),
    ],
)
def test_a_node_class_with_a_stale_status_launches_nothing(
    moto: MotoAws, process: AwsProcess, condition: Condition, error: type[Exception]
) -> None:
    process.account.classes["default"] = EC2NodeClass(
        generation=2, conditions=FrozenDict({"Ready": condition})
    )

    with pytest.raises(error):
        process.do(process.cloud.create(a_claim()))

    assert moto.middleware.calls["CreateFleet"] == 0


def test_without_a_matching_ami_nothing_is_launched(moto: MotoAws, process: AwsProcess) -> None:
    process.classes.subnets = ()

    with pytest.raises(NodeClassNotReadyError, match="EC2NodeClass default has no AMI or no subnet"):
        process.do(process.cloud.create(a_claim()))


def test_a_claim_without_launch_choices_fails_without_a_call(moto: MotoAws, process: AwsProcess) -> None:
    with pytest.raises(InsufficientCapacityError, match="nodeclaim claim: no available instance type"):
        process.do(process.cloud.create(a_claim(cpu="1000")))

    assert moto.middleware.calls["CreateFleet"] == 0
    assert label_keys.SPOT in {kind for _, _, kind in available(process)}


def subnets(process: AwsProcess) -> Any:
    return process.classes.subnets


def second_subnet(process: AwsProcess, zone: str) -> str:
    vpc = process.ec2.create_vpc(CidrBlock="10.9.0.0/16")["Vpc"]["VpcId"]
    created = process.ec2.create_subnet(VpcId=vpc, AvailabilityZone=zone, CidrBlock="10.9.0.0/17")
    return created["Subnet"]["SubnetId"]
