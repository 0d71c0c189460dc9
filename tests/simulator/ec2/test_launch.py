"""Launches: choice of offerings, instance facts, and missing capacity."""

import msgspec
import pytest

from dovetail.core.instancetypes.capacity import EFA
from dovetail.model import labels as label_keys
from dovetail.model.frozen import FrozenDict
from dovetail.model.karpenter.ec2nodeclass import CapacityReservation, EC2NodeClass
from dovetail.model.karpenter.nodepool import NodeClassRef
from dovetail.model.kube.requirements import Operator, RequirementSpec
from dovetail.model.kube.taints import UNREGISTERED_TAINT, Taint, TaintEffect
from dovetail.ports.cloudprovider import CreateError, InsufficientCapacityError, NodeClassNotReadyError
from dovetail.simulator.ec2.capacity import CapacityLimit
from dovetail.simulator.ec2.throttling import InjectedError, Operation
from dovetail.state.instancetypes.unavailable_offerings import TTL
from tests.simulator.ec2.harness import (
    EFA_CATALOG,
    EFA_CLASS,
    ON_DEMAND,
    POOL,
    SPOT,
    A,
    B,
    Ec2Harness,
    a_claim,
)

CREATE_FLEET = Operation.CREATE_FLEET


def test_the_cheapest_fitting_type_is_launched_as_spot_where_allowed() -> None:
    harness = Ec2Harness()

    small = harness.do(harness.cloud.create(a_claim("small")))
    large = harness.do(harness.cloud.create(a_claim("large", cpu="3")))
    careful = harness.do(harness.cloud.create(a_claim("careful", kinds=[ON_DEMAND])))

    assert (small.instance_type, small.capacity_type) == ("m5.large", SPOT)
    assert (large.instance_type, large.capacity_type) == ("c5.xlarge", SPOT)
    assert (careful.instance_type, careful.capacity_type) == ("m5.large", ON_DEMAND)


def test_a_launch_meets_the_requirements_of_its_claim() -> None:
    harness = Ec2Harness()

    launched = harness.do(harness.cloud.create(a_claim(types=["m5.xlarge"], zones=[B])))

    assert (launched.instance_type, launched.zone) == ("m5.xlarge", B)
    assert launched.provider_id.startswith(f"aws:///{B}/i-0")


def test_metal_is_launched_only_if_nothing_else_is_large_enough() -> None:
    harness = Ec2Harness()

    assert harness.do(harness.cloud.create(a_claim(cpu="40"))).instance_type == "m5.metal"


def test_an_instance_has_the_efa_that_its_node_class_lists() -> None:
    harness = Ec2Harness(catalog=EFA_CATALOG)
    derived = harness.do(harness.cloud.create(a_claim("derived")))
    harness.classes["default"] = EFA_CLASS

    listed = harness.do(harness.cloud.create(a_claim("listed")))

    assert EFA not in derived.capacity
    assert (listed.capacity[EFA], listed.allocatable[EFA]) == (1, 1)


def test_an_instance_is_described_completely() -> None:
    harness = Ec2Harness()

    launched = harness.do(harness.cloud.create(a_claim(zones=[A])))

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
    assert expected.items() <= launched.labels.items()
    assert "karpenter.k8s.aws/instance-gpu-count" not in launched.labels
    assert label_keys.CAPACITY_RESERVATION_ID not in launched.labels
    assert (launched.nodeclaim, launched.nodepool) == ("claim", "default")
    assert launched.capacity["cpu"] == 2000
    assert launched.allocatable["cpu"] == 1930
    assert launched.image_id.startswith("ami-")


def test_a_kubelet_learns_labels_and_taints_from_its_user_data() -> None:
    harness = Ec2Harness()
    mine = Taint("team", TaintEffect.NO_SCHEDULE, "a")
    starting = Taint("cni", TaintEffect.NO_EXECUTE)
    claim = a_claim(taints=(mine,), startup_taints=(starting,))
    labels = {"team": "a", "node.kubernetes.io/forbidden": "x", label_keys.NODEPOOL: "default"}
    claim = msgspec.structs.replace(claim, labels=FrozenDict(labels))

    launched = harness.do(harness.cloud.create(claim))
    harness.wait(60)

    (instance,) = harness.booted
    assert instance.provider_id == launched.provider_id
    assert instance.name == instance.labels[label_keys.HOSTNAME]
    assert instance.name.endswith(".eu-west-1.compute.internal")
    assert instance.taints == (mine, starting, UNREGISTERED_TAINT)
    assert instance.labels["team"] == "a"
    assert instance.labels[label_keys.DO_NOT_SYNC_TAINTS] == "true"
    assert instance.labels[label_keys.INSTANCE_TYPE] == launched.instance_type
    assert "node.kubernetes.io/forbidden" not in instance.labels
    assert (instance.capacity, instance.allocatable) == (launched.capacity, launched.allocatable)


def test_every_instance_has_a_unique_address() -> None:
    harness = Ec2Harness()

    for number in range(300):
        harness.do(harness.cloud.create(a_claim(f"claim-{number}", zones=[A if number % 2 else B])))
        harness.wait(1)
    harness.wait(60)

    assert len({instance.address for instance in harness.booted}) == 300
    assert len({instance.provider_id for instance in harness.booted}) == 300


def test_offerings_without_capacity_are_skipped_in_the_same_call() -> None:
    harness = Ec2Harness()
    harness.ec2.capacity.add_limit(CapacityLimit(instance_type="m5.large", capacity_type=SPOT))
    before = harness.now

    launched = harness.do(harness.cloud.create(a_claim()))

    assert (launched.instance_type, launched.capacity_type) == ("c5.xlarge", SPOT)
    assert harness.now == before
    deleted = {("m5.large", A, SPOT), ("m5.large", B, SPOT)}
    assert not deleted & harness.available()


def test_on_demand_is_requested_at_once_if_spot_has_no_capacity_at_all() -> None:
    harness = Ec2Harness()
    harness.ec2.capacity.add_limit(CapacityLimit(capacity_type=SPOT))
    before = harness.now

    launched = harness.do(harness.cloud.create(a_claim()))

    assert (launched.instance_type, launched.capacity_type) == ("m5.large", ON_DEMAND)
    assert harness.now == before


def test_without_capacity_the_error_names_offerings_and_they_are_unavailable_for_three_minutes() -> None:
    harness = Ec2Harness()
    harness.ec2.capacity.add_limit(CapacityLimit(instance_type="m5.*", zone=A, until=harness.now + TTL))
    claim = a_claim(types=["m5.large", "m5.xlarge"], zones=[A])

    with pytest.raises(InsufficientCapacityError, match=r"m5.large/spot/eu-west-1a, .* and 1 more"):
        harness.do(harness.cloud.create(claim))

    assert not {
        offering for offering in harness.available() if offering[0] == "m5.large" and offering[1] == A
    }
    harness.wait(TTL.total_seconds())
    assert ("m5.large", A, SPOT) in harness.available()
    assert harness.do(harness.cloud.create(claim)).zone == A


def test_a_capacity_limit_counts_launches_and_terminations() -> None:
    harness = Ec2Harness()
    harness.ec2.capacity.add_limit(CapacityLimit(instance_type="m5.large", remaining=1))

    first = harness.do(harness.cloud.create(a_claim("first")))
    second = harness.do(harness.cloud.create(a_claim("second")))
    harness.do(harness.cloud.delete(first.provider_id))
    harness.wait(TTL.total_seconds())
    third = harness.do(harness.cloud.create(a_claim("third")))

    types = [instance.instance_type for instance in (first, second, third)]
    assert types == ["m5.large", "c5.xlarge", "m5.large"]


def test_instance_types_are_the_same_tuple_until_an_offering_becomes_unavailable() -> None:
    harness = Ec2Harness()
    before = harness.cloud.instance_types(POOL)
    harness.do(harness.cloud.create(a_claim("one")))

    assert harness.cloud.instance_types(POOL) is before
    harness.ec2.capacity.add_limit(CapacityLimit(instance_type="m5.large"))
    harness.do(harness.cloud.create(a_claim("two")))
    assert harness.cloud.instance_types(POOL) is not before


def test_reserved_capacity_is_used_first_until_it_is_exhausted() -> None:
    held = CapacityReservation(id="cr-1", instance_type="m5.xlarge", zone=B, available_count=1)
    harness = Ec2Harness(reservations=[held])
    harness.classes["default"] = EC2NodeClass(capacity_reservations=(held,))
    kinds = [label_keys.RESERVED, ON_DEMAND]

    first = harness.do(harness.cloud.create(a_claim("first", kinds=kinds)))
    second = harness.do(harness.cloud.create(a_claim("second", kinds=kinds)))

    assert (first.instance_type, first.capacity_type) == ("m5.xlarge", label_keys.RESERVED)
    assert first.labels[label_keys.CAPACITY_RESERVATION_ID] == "cr-1"
    assert second.capacity_type == ON_DEMAND


def test_min_values_that_the_remaining_types_cannot_meet_fail_the_launch() -> None:
    harness = Ec2Harness()
    three_families = RequirementSpec("karpenter.k8s.aws/instance-family", Operator.EXISTS, min_values=3)
    claim = a_claim()
    claim = msgspec.structs.replace(claim, requirements=(*claim.requirements, three_families))

    with pytest.raises(InsufficientCapacityError, match="minValues 3"):
        harness.do(harness.cloud.create(claim))


def test_no_launch_without_the_node_class() -> None:
    harness = Ec2Harness()
    harness.classes = {
        "unready": EC2NodeClass(name="unready", ready=False),
        "going": EC2NodeClass(name="going", deleting=True),
    }

    def claim_of(name: str) -> None:
        harness.do(harness.cloud.create(a_claim(name, node_class=NodeClassRef(name=name))))

    with pytest.raises(InsufficientCapacityError, match="does not exist"):
        claim_of("missing")
    with pytest.raises(InsufficientCapacityError, match="is being deleted"):
        claim_of("going")
    with pytest.raises(NodeClassNotReadyError):
        claim_of("unready")
    assert harness.cloud.instance_types(POOL) == ()
    assert not harness.ec2.billing.launches


@pytest.mark.parametrize("after_effect", [False, True])
def test_a_failed_call_can_be_retried_and_launches_once(after_effect: bool) -> None:
    harness = Ec2Harness()
    harness.ec2.error_injector.inject(InjectedError(operation=CREATE_FLEET, after_effect=after_effect))
    claim = a_claim()

    with pytest.raises(CreateError) as failure:
        harness.do(harness.cloud.create(claim))
    launched = harness.do(harness.cloud.create(claim))

    assert failure.value.reason == "InternalError"
    assert [launch.provider_id for launch in harness.ec2.billing.launches] == [launched.provider_id]
    assert harness.ec2.billing.claims_launched_twice() == []


def test_a_restarted_process_gets_the_instance_that_the_old_one_launched() -> None:
    harness = Ec2Harness()
    claim = a_claim()
    first = harness.do(harness.cloud.create(claim))

    harness.loop.stop()
    harness.start_process()
    second = harness.do(harness.cloud.create(claim))

    assert second == first
    assert harness.do(harness.cloud.list()) == [first]


def test_an_instance_whose_response_was_lost_is_found_even_without_capacity() -> None:
    harness = Ec2Harness()
    claim = a_claim()
    harness.ec2.error_injector.inject(InjectedError(operation=CREATE_FLEET, after_effect=True))
    with pytest.raises(CreateError):
        harness.do(harness.cloud.create(claim))

    harness.classes["default"] = EC2NodeClass(ready=False)
    instance = harness.do(harness.cloud.create(claim))

    assert [instance.provider_id] == [launch.provider_id for launch in harness.ec2.billing.launches]


def test_a_claim_whose_instance_has_terminated_gets_no_second_one() -> None:
    harness = Ec2Harness()
    claim = a_claim()
    launched = harness.do(harness.cloud.create(claim))
    harness.do(harness.cloud.delete(launched.provider_id))
    harness.wait(60)

    with pytest.raises(InsufficientCapacityError, match="has terminated"):
        harness.do(harness.cloud.create(claim))

    assert harness.ec2.billing.claims_launched_twice() == []
