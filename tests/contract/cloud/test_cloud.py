"""What controllers may rely on, whatever cloud they talk to."""

from datetime import UTC, datetime

import msgspec
import pytest

from dovetail.model import labels as label_keys
from dovetail.model.karpenter.ec2nodeclass import NodeClass
from dovetail.model.karpenter.ec2nodeclass_launch import Found, Image, Subnet
from dovetail.model.karpenter.nodepool import NodeClassRef
from dovetail.ports.cloudprovider import (
    CreateFailed,
    Instance,
    InstanceNotFound,
    InsufficientCapacity,
    NodeClassNotReady,
)
from dovetail.simulator.ec2.capacity import Shortage
from tests.contract.cloud.worlds import World
from tests.simulator.ec2.place import ON_DEMAND, POOL, SPOT, A, B, a_claim


def facts(one: Instance) -> tuple[str, ...]:
    """What every look at a machine must agree on."""
    return (
        one.provider_id,
        one.instance_type,
        one.zone,
        one.capacity_type,
        one.image_id,
        one.claim,
        one.nodepool,
    )


def test_the_cheapest_that_fits_is_bought_and_spot_where_it_is_allowed(world: World) -> None:
    small = world.do(world.cloud.create(a_claim("small")))
    large = world.do(world.cloud.create(a_claim("large", cpu="3")))
    careful = world.do(world.cloud.create(a_claim("careful", kinds=[ON_DEMAND])))

    assert (small.instance_type, small.capacity_type) == ("m5.large", SPOT)
    assert (large.instance_type, large.capacity_type) == ("c5.xlarge", SPOT)
    assert (careful.instance_type, careful.capacity_type) == ("m5.large", ON_DEMAND)


def test_a_machine_says_what_it_is_and_for_whom(world: World) -> None:
    bought = world.do(world.cloud.create(a_claim(zones=[A])))

    expected = {
        label_keys.INSTANCE_TYPE: "m5.large",
        label_keys.ZONE: A,
        label_keys.CAPACITY_TYPE: SPOT,
        label_keys.ARCH: "amd64",
        label_keys.NODEPOOL: "default",
    }
    assert expected.items() <= bought.labels.items()
    assert bought.provider_id.startswith(f"aws:///{A}/i-")
    assert bought.image_id.startswith("ami-")
    assert (bought.claim, bought.nodepool) == ("claim", "default")
    assert bought.capacity["cpu"] == 2000
    assert 0 < bought.allocatable["cpu"] < 2000
    assert bought.launched is not None


def test_getting_and_listing_tell_the_same_as_buying(world: World) -> None:
    bought = [world.do(world.cloud.create(a_claim(name))) for name in ("one", "two")]

    listed = world.do(world.cloud.list())

    assert sorted(map(facts, listed)) == sorted(map(facts, bought))
    assert facts(world.do(world.cloud.get(bought[0].provider_id)))[:4] == facts(bought[0])[:4]


def test_a_deleted_machine_ends_and_deleting_it_again_does_no_harm(world: World) -> None:
    bought = world.do(world.cloud.create(a_claim()))

    world.do(world.cloud.delete(bought.provider_id))
    world.settle()

    for look in (world.cloud.get, world.cloud.delete):
        with pytest.raises(InstanceNotFound):
            world.do(look(bought.provider_id))
    assert world.do(world.cloud.list()) == []
    assert world.machines() == []


def test_what_never_was_is_not_found(world: World) -> None:
    with pytest.raises(InstanceNotFound):
        world.do(world.cloud.get(f"aws:///{A}/i-0123456789abcdef0"))
    with pytest.raises(InstanceNotFound):
        world.do(world.cloud.delete(f"aws:///{A}/i-0123456789abcdef0"))


def test_claims_that_come_together_get_a_machine_each(world: World) -> None:
    claims = [a_claim(f"claim-{number}") for number in range(12)]

    bought = world.together([world.cloud.create(claim) for claim in claims])

    ids = {one.provider_id for one in bought if isinstance(one, Instance)}
    assert len(ids) == 12
    assert sorted(world.machines()) == sorted(ids)
    assert [one.claim for one in bought if isinstance(one, Instance)] == [
        claim.name for claim in claims
    ]
    listed = {one.provider_id: one.claim for one in world.do(world.cloud.list())}
    assert listed == {one.provider_id: one.claim for one in bought if isinstance(one, Instance)}


def test_what_is_sold_out_is_passed_over_and_set_aside(world: World) -> None:
    world.run_short(Shortage(instance_type="m5.large", capacity_type=SPOT))

    bought = world.do(world.cloud.create(a_claim()))

    assert (bought.instance_type, bought.capacity_type) == ("c5.xlarge", SPOT)
    (large,) = [one for one in world.cloud.instance_types(POOL) if one.name == "m5.large"]
    assert {one.capacity_type for one in large.offerings if one.available} == {ON_DEMAND}


def test_on_demand_follows_at_once_when_spot_is_sold_out_altogether(world: World) -> None:
    world.run_short(Shortage(capacity_type=SPOT))

    bought = world.do(world.cloud.create(a_claim()))

    assert (bought.instance_type, bought.capacity_type) == ("m5.large", ON_DEMAND)


def test_a_shortage_in_the_midst_of_many_gives_the_rest_something_else(world: World) -> None:
    world.run_short(Shortage(instance_type="m5.large", left=3))

    bought = world.together([world.cloud.create(a_claim(f"claim-{number}")) for number in range(5)])

    types = sorted(one.instance_type for one in bought if isinstance(one, Instance))
    assert types == ["c5.xlarge"] * 2 + ["m5.large"] * 3


def test_when_nothing_is_left_the_error_says_what_was_tried(world: World) -> None:
    world.run_short(Shortage(zone=A))

    with pytest.raises(InsufficientCapacity, match=r"nodeclaim claim: .*m5\.large.*set aside"):
        world.do(world.cloud.create(a_claim(types=["m5.large"], zones=[A])))

    assert world.machines() == []


def test_no_machine_without_its_node_class(world: World) -> None:
    world.classes.clear()
    world.classes["unready"] = NodeClass(name="unready", ready=False)
    world.classes["going"] = NodeClass(name="going", deleting=True)

    for name, error in (
        ("missing", InsufficientCapacity),
        ("going", InsufficientCapacity),
        ("unready", NodeClassNotReady),
    ):
        with pytest.raises(error, match=f"nodeclaim {name}: EC2NodeClass {name}"):
            world.do(world.cloud.create(a_claim(name, node_class=NodeClassRef(name=name))))
    assert world.cloud.instance_types(POOL) == ()
    assert world.machines() == []


@pytest.mark.parametrize("after_effect", [False, True])
def test_a_call_that_fails_can_be_made_again_and_buys_once(
    world: World, after_effect: bool
) -> None:
    world.fail("CreateFleet", times=1, after_effect=after_effect)
    claim = a_claim()

    with pytest.raises(CreateFailed) as failure:
        world.do(world.cloud.create(claim))
    bought = world.do(world.cloud.create(claim))

    assert failure.value.reason == "InternalError"
    assert world.machines() == [bought.provider_id]


def test_asking_twice_for_one_claim_buys_once(world: World) -> None:
    claim = a_claim()

    first, second = world.together([world.cloud.create(claim), world.cloud.create(claim)])

    assert isinstance(first, Instance)
    assert isinstance(second, Instance)
    assert first.provider_id == second.provider_id
    assert world.machines() == [first.provider_id]


def test_asking_again_later_returns_the_same_machine(world: World) -> None:
    claim = msgspec.structs.replace(a_claim(), created=datetime(2100, 1, 1, tzinfo=UTC))
    first = world.do(world.cloud.create(claim))

    again = world.do(world.cloud.create(claim))

    assert facts(again) == facts(first)
    assert world.machines() == [first.provider_id]


def test_a_process_that_starts_anew_gets_the_machines_that_the_old_one_bought(
    world: World,
) -> None:
    claims = [a_claim(f"claim-{number}") for number in range(5)]
    old = world.together([world.cloud.create(claim) for claim in claims])

    # It dies before any of it is written down; one more claim has come meanwhile.
    world.restart()
    claims.append(a_claim("late"))
    new = world.together([world.cloud.create(claim) for claim in reversed(claims)])

    known = {one.claim: facts(one) for one in old if isinstance(one, Instance)}
    found = {one.claim: facts(one) for one in new if isinstance(one, Instance)}
    assert len(known) == 5
    assert len(found) == 6
    assert known.items() <= found.items()
    assert len(world.machines()) == 6


def test_a_claim_of_the_same_name_but_not_the_same_gets_a_machine_of_its_own(
    world: World,
) -> None:
    before = world.do(world.cloud.create(a_claim()))
    world.restart()

    after = world.do(world.cloud.create(msgspec.structs.replace(a_claim(), uid="another")))

    assert before.provider_id != after.provider_id


def test_a_machine_that_ended_before_it_was_written_down_is_not_handed_out(world: World) -> None:
    bought = world.do(world.cloud.create(a_claim(zones=[B])))
    world.do(world.cloud.delete(bought.provider_id))
    world.settle()
    world.restart()

    with pytest.raises(InsufficientCapacity, match="has ended already"):
        world.do(world.cloud.create(a_claim(zones=[B])))

    assert world.machines() == []


def test_the_types_are_the_same_tuple_until_something_changes(world: World) -> None:
    before = world.cloud.instance_types(POOL)

    world.do(world.cloud.create(a_claim()))

    assert world.cloud.instance_types(POOL) is before
    assert {one.name for one in before} == {"m5.large", "c5.xlarge", "m5.xlarge", "m5.metal"}


def a_class_that_found(*groups: str, subnet: str, image: str) -> NodeClass:
    found = Found(
        subnets=(Subnet(id=subnet, zone=A), Subnet(id=f"{subnet}-b", zone=B)),
        security_groups=groups,
        images=(Image(id=image),),
    )
    return NodeClass(found=found)


def test_a_machine_has_drifted_when_its_class_would_launch_it_otherwise(world: World) -> None:
    world.classes["default"] = a_class_that_found("sg-1", subnet="subnet-1", image="ami-1")
    claim = a_claim(zones=[A])
    bought = world.do(world.cloud.create(claim))
    seen = world.do(world.cloud.get(bought.provider_id))
    launched = msgspec.structs.replace(
        claim,
        provider_id=bought.provider_id,
        image_id=bought.image_id,
        labels=claim.labels.with_items(bought.labels),
    )

    def drift(*groups: str, subnet: str = seen.subnet, image: str = seen.image_id) -> str | None:
        world.classes["default"] = a_class_that_found(*groups, subnet=subnet, image=image)
        return world.do(world.cloud.drift(launched))

    assert seen.security_groups
    assert drift(*seen.security_groups) is None
    assert drift(*seen.security_groups, "sg-2") == "SecurityGroupDrift"
    assert drift(*seen.security_groups, subnet="subnet-2") == "SubnetDrift"
    assert drift(*seen.security_groups, image="ami-2") == "AMIDrift"


def test_without_its_class_nothing_is_said_of_drift(world: World) -> None:
    claim = a_claim()
    bought = world.do(world.cloud.create(claim))
    world.classes.clear()

    told = world.do(
        world.cloud.drift(msgspec.structs.replace(claim, provider_id=bought.provider_id))
    )

    assert told is None


def test_what_is_gone_cannot_be_told_of_drift(world: World) -> None:
    world.classes["default"] = a_class_that_found("sg-1", subnet="subnet-1", image="ami-1")
    gone = msgspec.structs.replace(a_claim(), provider_id=f"aws:///{A}/i-0123456789abcdef0")

    with pytest.raises(InstanceNotFound):
        world.do(world.cloud.drift(gone))
