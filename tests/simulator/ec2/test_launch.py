"""Buying machines: what is chosen, what it says of itself, and when nothing is left."""

import msgspec
import pytest

from dovetail.model import labels as label_keys
from dovetail.model.frozen import FrozenDict
from dovetail.model.karpenter.ec2nodeclass import CapacityReservation, NodeClass
from dovetail.model.karpenter.nodepool import NodeClassRef
from dovetail.model.kube.requirements import Operator, RequirementSpec
from dovetail.model.kube.taints import UNREGISTERED, Effect, Taint
from dovetail.ports.cloudprovider import CreateFailed, InsufficientCapacity, NodeClassNotReady
from dovetail.simulator.ec2.capacity import Shortage
from dovetail.simulator.ec2.throttling import Fault, Operation
from dovetail.state.instancetypes.unavailable_offerings import TTL
from tests.simulator.ec2.place import ON_DEMAND, POOL, SPOT, A, B, Place, a_claim

CREATE_FLEET = Operation.CREATE_FLEET


def test_spot_is_bought_where_it_is_allowed_and_the_cheapest_type_that_fits() -> None:
    place = Place()

    small = place.do(place.cloud.create(a_claim("small")))
    large = place.do(place.cloud.create(a_claim("large", cpu="3")))
    careful = place.do(place.cloud.create(a_claim("careful", kinds=[ON_DEMAND])))

    assert (small.instance_type, small.capacity_type) == ("m5.large", SPOT)
    assert (large.instance_type, large.capacity_type) == ("c5.xlarge", SPOT)
    assert (careful.instance_type, careful.capacity_type) == ("m5.large", ON_DEMAND)


def test_a_claim_is_held_to_its_requirements() -> None:
    place = Place()

    bought = place.do(place.cloud.create(a_claim(types=["m5.xlarge"], zones=[B])))

    assert (bought.instance_type, bought.zone) == ("m5.xlarge", B)
    assert bought.provider_id.startswith(f"aws:///{B}/i-0")


def test_metal_is_bought_only_when_nothing_else_is_large_enough() -> None:
    place = Place()

    assert place.do(place.cloud.create(a_claim(cpu="40"))).instance_type == "m5.metal"


def test_a_machine_says_what_it_is() -> None:
    place = Place()

    bought = place.do(place.cloud.create(a_claim(zones=[A])))

    expected = {
        label_keys.INSTANCE_TYPE: "m5.large",
        label_keys.ZONE: A,
        label_keys.ZONE_ID: "euw1-az1",
        label_keys.REGION: "eu-west-1",
        label_keys.CAPACITY_TYPE: SPOT,
        label_keys.ARCH: "amd64",
        label_keys.OS: "linux",
        label_keys.NODEPOOL: "default",
        "karpenter.k8s.aws/instance-family": "m5",
        "karpenter.k8s.aws/instance-tenancy": "default",
    }
    assert expected.items() <= bought.labels.items()
    assert "karpenter.k8s.aws/instance-gpu-count" not in bought.labels
    assert label_keys.CAPACITY_RESERVATION_ID not in bought.labels
    assert (bought.claim, bought.nodepool) == ("claim", "default")
    assert bought.capacity["cpu"] == 2000
    assert bought.allocatable["cpu"] == 1930
    assert bought.image_id.startswith("ami-")


def test_a_kubelet_learns_labels_and_taints_from_its_user_data() -> None:
    place = Place()
    mine = Taint("team", Effect.NO_SCHEDULE, "a")
    starting = Taint("cni", Effect.NO_EXECUTE)
    claim = a_claim(taints=(mine,), startup_taints=(starting,))
    labels = {"team": "a", "node.kubernetes.io/forbidden": "x", label_keys.NODEPOOL: "default"}
    claim = msgspec.structs.replace(claim, labels=FrozenDict(labels))

    bought = place.do(place.cloud.create(claim))
    place.wait(60)

    (machine,) = place.booted
    assert machine.provider_id == bought.provider_id
    assert machine.name == machine.labels[label_keys.HOSTNAME]
    assert machine.name.endswith(".eu-west-1.compute.internal")
    assert machine.taints == (mine, starting, UNREGISTERED)
    assert machine.labels["team"] == "a"
    assert machine.labels[label_keys.DO_NOT_SYNC_TAINTS] == "true"
    assert machine.labels[label_keys.INSTANCE_TYPE] == bought.instance_type
    assert "node.kubernetes.io/forbidden" not in machine.labels
    assert (machine.capacity, machine.allocatable) == (bought.capacity, bought.allocatable)


def test_every_machine_has_an_address_of_its_own() -> None:
    place = Place()

    for number in range(300):
        place.do(place.cloud.create(a_claim(f"claim-{number}", zones=[A if number % 2 else B])))
        place.wait(1)
    place.wait(60)

    assert len({machine.address for machine in place.booted}) == 300
    assert len({machine.provider_id for machine in place.booted}) == 300


def test_what_is_sold_out_is_passed_over_in_the_same_call() -> None:
    place = Place()
    place.ec2.stock.run_short(Shortage(instance_type="m5.large", capacity_type=SPOT))
    before = place.now

    bought = place.do(place.cloud.create(a_claim()))

    assert (bought.instance_type, bought.capacity_type) == ("c5.xlarge", SPOT)
    assert place.now == before
    gone = {("m5.large", A, SPOT), ("m5.large", B, SPOT)}
    assert not gone & place.available()


def test_on_demand_follows_at_once_when_spot_is_sold_out_altogether() -> None:
    place = Place()
    place.ec2.stock.run_short(Shortage(capacity_type=SPOT))
    before = place.now

    bought = place.do(place.cloud.create(a_claim()))

    assert (bought.instance_type, bought.capacity_type) == ("m5.large", ON_DEMAND)
    assert place.now == before


def test_when_nothing_is_left_the_error_names_pools_and_they_are_set_aside_for_three_minutes() -> (
    None
):
    place = Place()
    place.ec2.stock.run_short(Shortage(instance_type="m5.*", zone=A, until=place.now + TTL))
    claim = a_claim(types=["m5.large", "m5.xlarge"], zones=[A])

    with pytest.raises(InsufficientCapacity, match=r"m5.large/spot/eu-west-1a, .* and 1 more"):
        place.do(place.cloud.create(claim))

    assert not {one for one in place.available() if one[0] == "m5.large" and one[1] == A}
    place.wait(TTL.total_seconds())
    assert ("m5.large", A, SPOT) in place.available()
    assert place.do(place.cloud.create(claim)).zone == A


def test_a_shortage_with_some_left_sells_those_and_gets_back_what_terminates() -> None:
    place = Place()
    place.ec2.stock.run_short(Shortage(instance_type="m5.large", left=1))

    first = place.do(place.cloud.create(a_claim("first")))
    second = place.do(place.cloud.create(a_claim("second")))
    place.do(place.cloud.delete(first.provider_id))
    place.wait(TTL.total_seconds())
    third = place.do(place.cloud.create(a_claim("third")))

    types = [one.instance_type for one in (first, second, third)]
    assert types == ["m5.large", "c5.xlarge", "m5.large"]


def test_the_instance_types_are_the_same_tuple_until_something_sells_out() -> None:
    place = Place()
    before = place.cloud.instance_types(POOL)
    place.do(place.cloud.create(a_claim("one")))

    assert place.cloud.instance_types(POOL) is before
    place.ec2.stock.run_short(Shortage(instance_type="m5.large"))
    place.do(place.cloud.create(a_claim("two")))
    assert place.cloud.instance_types(POOL) is not before


def test_reserved_capacity_comes_first_and_only_while_it_lasts() -> None:
    held = CapacityReservation(id="cr-1", instance_type="m5.xlarge", zone=B, available=1)
    place = Place(reservations=[held])
    place.classes["default"] = NodeClass(reservations=(held,))
    kinds = [label_keys.RESERVED, ON_DEMAND]

    first = place.do(place.cloud.create(a_claim("first", kinds=kinds)))
    second = place.do(place.cloud.create(a_claim("second", kinds=kinds)))

    assert (first.instance_type, first.capacity_type) == ("m5.xlarge", label_keys.RESERVED)
    assert first.labels[label_keys.CAPACITY_RESERVATION_ID] == "cr-1"
    assert second.capacity_type == ON_DEMAND


def test_a_variety_that_the_remaining_types_cannot_give_is_refused() -> None:
    place = Place()
    variety = RequirementSpec("karpenter.k8s.aws/instance-family", Operator.EXISTS, min_values=3)
    claim = a_claim()
    claim = msgspec.structs.replace(claim, requirements=(*claim.requirements, variety))

    with pytest.raises(InsufficientCapacity, match="minValues 3"):
        place.do(place.cloud.create(claim))


def test_no_machine_without_its_node_class() -> None:
    place = Place()
    place.classes = {
        "unready": NodeClass(name="unready", ready=False),
        "going": NodeClass(name="going", deleting=True),
    }

    def claim_of(name: str) -> None:
        place.do(place.cloud.create(a_claim(name, node_class=NodeClassRef(name=name))))

    with pytest.raises(InsufficientCapacity, match="does not exist"):
        claim_of("missing")
    with pytest.raises(InsufficientCapacity, match="is being deleted"):
        claim_of("going")
    with pytest.raises(NodeClassNotReady):
        claim_of("unready")
    assert place.cloud.instance_types(POOL) == ()
    assert not place.ec2.ledger.purchases


@pytest.mark.parametrize("after_effect", [False, True])
def test_a_call_that_fails_can_be_made_again_and_buys_once(after_effect: bool) -> None:
    place = Place()
    place.ec2.faults.script(Fault(operation=CREATE_FLEET, after_effect=after_effect))
    claim = a_claim()

    with pytest.raises(CreateFailed) as failure:
        place.do(place.cloud.create(claim))
    bought = place.do(place.cloud.create(claim))

    assert failure.value.reason == "InternalError"
    assert [one.provider_id for one in place.ec2.ledger.purchases] == [bought.provider_id]
    assert place.ec2.ledger.bought_twice() == []


def test_a_process_that_starts_anew_gets_the_machine_that_the_old_one_bought() -> None:
    place = Place()
    claim = a_claim()
    first = place.do(place.cloud.create(claim))

    place.loop.stop()
    place.start_process()
    second = place.do(place.cloud.create(claim))

    assert second == first
    assert place.do(place.cloud.list()) == [first]


def test_a_machine_whose_answer_got_lost_is_found_although_nothing_can_be_bought_any_more() -> None:
    place = Place()
    claim = a_claim()
    place.ec2.faults.script(Fault(operation=CREATE_FLEET, after_effect=True))
    with pytest.raises(CreateFailed):
        place.do(place.cloud.create(claim))

    place.classes["default"] = NodeClass(ready=False)
    found = place.do(place.cloud.create(claim))

    assert [found.provider_id] == [one.provider_id for one in place.ec2.ledger.purchases]


def test_a_claim_whose_machine_has_ended_gets_no_second_one() -> None:
    place = Place()
    claim = a_claim()
    bought = place.do(place.cloud.create(claim))
    place.do(place.cloud.delete(bought.provider_id))
    place.wait(60)

    with pytest.raises(InsufficientCapacity, match="has ended already"):
        place.do(place.cloud.create(claim))

    assert place.ec2.ledger.bought_twice() == []
