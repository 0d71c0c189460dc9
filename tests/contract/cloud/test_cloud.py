"""Guarantees of every CloudProvider to controllers."""

from datetime import UTC, datetime

import msgspec
import pytest

from dovetail.model import labels as label_keys
from dovetail.model.karpenter.ec2nodeclass import EC2NodeClass
from dovetail.model.karpenter.ec2nodeclass_launch import Ami, ResolvedResources, Subnet
from dovetail.model.karpenter.nodepool import NodeClassRef
from dovetail.ports.cloudprovider import (
    CreateError,
    Instance,
    InstanceNotFoundError,
    InsufficientCapacityError,
    NodeClassNotReadyError,
)
from dovetail.simulator.ec2.capacity import CapacityLimit
from tests.contract.cloud.environments import CloudEnvironment
from tests.simulator.ec2.harness import ON_DEMAND, POOL, SPOT, A, B, a_claim


def facts(instance: Instance) -> tuple[str, ...]:
    """Return the properties that create, get and list must agree on."""
    return (
        instance.provider_id,
        instance.instance_type,
        instance.zone,
        instance.capacity_type,
        instance.image_id,
        instance.nodeclaim,
        instance.nodepool,
    )


def test_the_cheapest_fitting_offering_is_launched_and_spot_where_allowed(
    environment: CloudEnvironment,
) -> None:
    small = environment.run(environment.cloud.create(a_claim("small")))
    large = environment.run(environment.cloud.create(a_claim("large", cpu="3")))
    careful = environment.run(environment.cloud.create(a_claim("careful", kinds=[ON_DEMAND])))

    assert (small.instance_type, small.capacity_type) == ("m5.large", SPOT)
    assert (large.instance_type, large.capacity_type) == ("c5.xlarge", SPOT)
    assert (careful.instance_type, careful.capacity_type) == ("m5.large", ON_DEMAND)


def test_an_instance_has_its_facts_and_its_nodeclaim(environment: CloudEnvironment) -> None:
    launched = environment.run(environment.cloud.create(a_claim(zones=[A])))

    expected = {
        label_keys.INSTANCE_TYPE: "m5.large",
        label_keys.ZONE: A,
        label_keys.CAPACITY_TYPE: SPOT,
        label_keys.ARCH: "amd64",
        label_keys.NODEPOOL: "default",
    }
    assert expected.items() <= launched.labels.items()
    assert launched.provider_id.startswith(f"aws:///{A}/i-")
    assert launched.image_id.startswith("ami-")
    assert (launched.nodeclaim, launched.nodepool) == ("claim", "default")
    assert launched.capacity["cpu"] == 2000
    assert 0 < launched.allocatable["cpu"] < 2000
    assert launched.launch_time is not None


def test_get_and_list_return_the_same_as_create(environment: CloudEnvironment) -> None:
    launched = [environment.run(environment.cloud.create(a_claim(name))) for name in ("one", "two")]

    listed = environment.run(environment.cloud.list())

    assert sorted(map(facts, listed)) == sorted(map(facts, launched))
    assert (
        facts(environment.run(environment.cloud.get(launched[0].provider_id)))[:4] == facts(launched[0])[:4]
    )


def test_a_deleted_instance_is_terminated_and_a_second_deletion_is_harmless(
    environment: CloudEnvironment,
) -> None:
    launched = environment.run(environment.cloud.create(a_claim()))

    environment.run(environment.cloud.delete(launched.provider_id))
    environment.wait_for_termination()

    for look in (environment.cloud.get, environment.cloud.delete):
        with pytest.raises(InstanceNotFoundError):
            environment.run(look(launched.provider_id))
    assert environment.run(environment.cloud.list()) == []
    assert environment.billed_instances() == []


def test_an_unknown_instance_is_not_found(environment: CloudEnvironment) -> None:
    with pytest.raises(InstanceNotFoundError):
        environment.run(environment.cloud.get(f"aws:///{A}/i-0123456789abcdef0"))
    with pytest.raises(InstanceNotFoundError):
        environment.run(environment.cloud.delete(f"aws:///{A}/i-0123456789abcdef0"))


def test_concurrent_claims_get_an_instance_each(environment: CloudEnvironment) -> None:
    claims = [a_claim(f"claim-{number}") for number in range(12)]

    launched = environment.run_concurrently([environment.cloud.create(claim) for claim in claims])

    ids = {instance.provider_id for instance in launched if isinstance(instance, Instance)}
    assert len(ids) == 12
    assert sorted(environment.billed_instances()) == sorted(ids)
    assert [instance.nodeclaim for instance in launched if isinstance(instance, Instance)] == [
        claim.name for claim in claims
    ]
    listed = {
        instance.provider_id: instance.nodeclaim for instance in environment.run(environment.cloud.list())
    }
    assert listed == {
        instance.provider_id: instance.nodeclaim for instance in launched if isinstance(instance, Instance)
    }


def test_an_offering_without_capacity_is_skipped_and_marked_unavailable(
    environment: CloudEnvironment,
) -> None:
    environment.limit_capacity(CapacityLimit(instance_type="m5.large", capacity_type=SPOT))

    launched = environment.run(environment.cloud.create(a_claim()))

    assert (launched.instance_type, launched.capacity_type) == ("c5.xlarge", SPOT)
    (large,) = [
        instance_type
        for instance_type in environment.cloud.instance_types(POOL)
        if instance_type.name == "m5.large"
    ]
    assert {offering.capacity_type for offering in large.offerings if offering.available} == {ON_DEMAND}


def test_on_demand_is_requested_at_once_if_spot_has_no_capacity_at_all(environment: CloudEnvironment) -> None:
    environment.limit_capacity(CapacityLimit(capacity_type=SPOT))

    launched = environment.run(environment.cloud.create(a_claim()))

    assert (launched.instance_type, launched.capacity_type) == ("m5.large", ON_DEMAND)


def test_a_shortage_during_many_launches_gives_the_others_another_type(environment: CloudEnvironment) -> None:
    environment.limit_capacity(CapacityLimit(instance_type="m5.large", remaining=3))

    launched = environment.run_concurrently(
        [environment.cloud.create(a_claim(f"claim-{number}")) for number in range(5)]
    )

    types = sorted(instance.instance_type for instance in launched if isinstance(instance, Instance))
    assert types == ["c5.xlarge"] * 2 + ["m5.large"] * 3


def test_if_no_offering_is_left_the_error_lists_what_was_tried(environment: CloudEnvironment) -> None:
    environment.limit_capacity(CapacityLimit(zone=A))

    with pytest.raises(InsufficientCapacityError, match=r"nodeclaim claim: .*m5\.large.*unavailable for 3m"):
        environment.run(environment.cloud.create(a_claim(types=["m5.large"], zones=[A])))

    assert environment.billed_instances() == []


def test_no_launch_without_the_node_class(environment: CloudEnvironment) -> None:
    environment.classes.clear()
    environment.classes["unready"] = EC2NodeClass(name="unready", ready=False)
    environment.classes["going"] = EC2NodeClass(name="going", deleting=True)

    for name, error in (
        ("missing", InsufficientCapacityError),
        ("going", InsufficientCapacityError),
        ("unready", NodeClassNotReadyError),
    ):
        with pytest.raises(error, match=f"nodeclaim {name}: EC2NodeClass {name}"):
            environment.run(environment.cloud.create(a_claim(name, node_class=NodeClassRef(name=name))))
    assert environment.cloud.instance_types(POOL) == ()
    assert environment.billed_instances() == []


@pytest.mark.parametrize("after_effect", [False, True])
def test_a_failed_call_can_be_retried_and_launches_once(
    environment: CloudEnvironment, after_effect: bool
) -> None:
    environment.fail("CreateFleet", times=1, after_effect=after_effect)
    claim = a_claim()

    with pytest.raises(CreateError) as failure:
        environment.run(environment.cloud.create(claim))
    launched = environment.run(environment.cloud.create(claim))

    assert failure.value.reason == "InternalError"
    assert environment.billed_instances() == [launched.provider_id]


def test_creating_a_claim_twice_launches_once(environment: CloudEnvironment) -> None:
    claim = a_claim()

    first, second = environment.run_concurrently(
        [environment.cloud.create(claim), environment.cloud.create(claim)]
    )

    assert isinstance(first, Instance)
    assert isinstance(second, Instance)
    assert first.provider_id == second.provider_id
    assert environment.billed_instances() == [first.provider_id]


def test_creating_a_claim_again_later_returns_the_same_instance(environment: CloudEnvironment) -> None:
    claim = msgspec.structs.replace(a_claim(), created=datetime(2100, 1, 1, tzinfo=UTC))
    first = environment.run(environment.cloud.create(claim))

    again = environment.run(environment.cloud.create(claim))

    assert facts(again) == facts(first)
    assert environment.billed_instances() == [first.provider_id]


def test_a_restarted_process_gets_the_instances_of_the_earlier_one(environment: CloudEnvironment) -> None:
    claims = [a_claim(f"claim-{number}") for number in range(5)]
    old = environment.run_concurrently([environment.cloud.create(claim) for claim in claims])

    # The process restarts before the instances are recorded; there is one more claim.
    environment.restart()
    claims.append(a_claim("late"))
    new = environment.run_concurrently([environment.cloud.create(claim) for claim in reversed(claims)])

    old_facts = {instance.nodeclaim: facts(instance) for instance in old if isinstance(instance, Instance)}
    new_facts = {instance.nodeclaim: facts(instance) for instance in new if isinstance(instance, Instance)}
    assert len(old_facts) == 5
    assert len(new_facts) == 6
    assert old_facts.items() <= new_facts.items()
    assert len(environment.billed_instances()) == 6


def test_another_claim_of_the_same_name_gets_its_own_instance(environment: CloudEnvironment) -> None:
    before = environment.run(environment.cloud.create(a_claim()))
    environment.restart()

    after = environment.run(environment.cloud.create(msgspec.structs.replace(a_claim(), uid="another")))

    assert before.provider_id != after.provider_id


def test_an_instance_terminated_before_it_was_recorded_is_not_returned(environment: CloudEnvironment) -> None:
    launched = environment.run(environment.cloud.create(a_claim(zones=[B])))
    environment.run(environment.cloud.delete(launched.provider_id))
    environment.wait_for_termination()
    environment.restart()

    with pytest.raises(InsufficientCapacityError, match="has terminated"):
        environment.run(environment.cloud.create(a_claim(zones=[B])))

    assert environment.billed_instances() == []


def test_the_types_are_the_same_tuple_until_something_changes(environment: CloudEnvironment) -> None:
    before = environment.cloud.instance_types(POOL)

    environment.run(environment.cloud.create(a_claim()))

    assert environment.cloud.instance_types(POOL) is before
    assert {instance_type.name for instance_type in before} == {
        "m5.large",
        "c5.xlarge",
        "m5.xlarge",
        "m5.metal",
    }


def a_node_class(*groups: str, subnet: str, image: str) -> EC2NodeClass:
    resolved = ResolvedResources(
        subnets=(Subnet(id=subnet, zone=A), Subnet(id=f"{subnet}-b", zone=B)),
        security_group_ids=groups,
        amis=(Ami(id=image),),
    )
    return EC2NodeClass(resolved=resolved)


def test_an_instance_is_drifted_if_its_node_class_would_launch_another(environment: CloudEnvironment) -> None:
    environment.classes["default"] = a_node_class("sg-1", subnet="subnet-1", image="ami-1")
    claim = a_claim(zones=[A])
    launched = environment.run(environment.cloud.create(claim))
    instance = environment.run(environment.cloud.get(launched.provider_id))
    launched = msgspec.structs.replace(
        claim,
        provider_id=launched.provider_id,
        image_id=launched.image_id,
        labels=claim.labels.with_items(launched.labels),
    )

    def drift(*groups: str, subnet: str = instance.subnet_id, image: str = instance.image_id) -> str | None:
        environment.classes["default"] = a_node_class(*groups, subnet=subnet, image=image)
        return environment.run(environment.cloud.drift_reason(launched))

    assert instance.security_group_ids
    assert drift(*instance.security_group_ids) is None
    assert drift(*instance.security_group_ids, "sg-2") == "SecurityGroupDrift"
    assert drift(*instance.security_group_ids, subnet="subnet-2") == "SubnetDrift"
    assert drift(*instance.security_group_ids, image="ami-2") == "AMIDrift"


def test_without_its_node_class_drift_is_unknown(environment: CloudEnvironment) -> None:
    claim = a_claim()
    launched = environment.run(environment.cloud.create(claim))
    environment.classes.clear()

    reason = environment.run(
        environment.cloud.drift_reason(msgspec.structs.replace(claim, provider_id=launched.provider_id))
    )

    assert reason is None


def test_a_missing_instance_has_no_drift(environment: CloudEnvironment) -> None:
    environment.classes["default"] = a_node_class("sg-1", subnet="subnet-1", image="ami-1")
    gone = msgspec.structs.replace(a_claim(), provider_id=f"aws:///{A}/i-0123456789abcdef0")

    with pytest.raises(InstanceNotFoundError):
        environment.run(environment.cloud.drift_reason(gone))
