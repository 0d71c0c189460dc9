"""Capacity that is paid for already: which reservation, and when it is full."""

import msgspec
import pytest

from dovetail.aws.instance.fleet_request import select_reservations
from dovetail.aws.nodeclass.capacity_reservations import ReservationCapacity
from dovetail.core.instancetypes.launch_choices import LaunchChoice
from dovetail.model import labels as label_keys
from dovetail.model.cloud.instance_type import InstanceType, Offering
from dovetail.model.karpenter.ec2nodeclass import CapacityReservation, EC2NodeClass
from dovetail.model.kube.requirements import Requirements
from dovetail.model.kube.resources import NO_RESOURCES
from dovetail.ports.cloudprovider import InstanceNotFoundError
from dovetail.simulator.ec2.capacity import CapacityLimit
from tests.simulator.ec2.harness import ON_DEMAND, A, B, a_claim
from tests.support.aws.launches import claims
from tests.support.aws.provider_process import AwsProcess
from tests.support.moto.server import MotoAws

PLAIN, BLOCK, LOOSE = (
    CapacityReservation(id="cr-plain", instance_type="m5.large", zone=A, available_count=3),
    CapacityReservation(
        id="cr-block", instance_type="m5.large", zone=A, available_count=3, reservation_type="capacity-block"
    ),
    CapacityReservation(
        id="cr-loose", instance_type="m5.large", zone=A, available_count=3, interruptible=True
    ),
)


def a_choice(
    held: CapacityReservation, *, price: float = 0.1, name: str = "m5.large", zone: str = A
) -> LaunchChoice:
    return LaunchChoice(
        instance_type=InstanceType(name=name, requirements=Requirements(), capacity=NO_RESOURCES),
        offering=Offering(
            zone=zone,
            capacity_type=label_keys.RESERVED,
            price=price,
            reservation_id=held.id,
            reservation_capacity=held.available_count,
        ),
    )


def kept(*choices: LaunchChoice) -> list[str]:
    held = (PLAIN, BLOCK, LOOSE, msgspec.structs.replace(PLAIN, id="cr-other"))
    return [choice.offering.reservation_id for choice in select_reservations(choices, held)]


def test_the_reservation_type_with_the_cheapest_choice_is_kept() -> None:
    assert kept(a_choice(PLAIN, price=2), a_choice(BLOCK, price=3), a_choice(LOOSE, price=1)) == ["cr-loose"]


def test_of_equal_prices_default_reservations_come_first() -> None:
    plain, block, loose = a_choice(PLAIN), a_choice(BLOCK), a_choice(LOOSE)

    assert kept(loose, block, plain) == ["cr-plain"]
    assert kept(loose, block) == ["cr-block"]


def test_of_a_capacity_block_only_the_cheapest_choice_is_kept() -> None:
    assert kept(a_choice(BLOCK, price=2, name="p5.48xlarge"), a_choice(BLOCK, price=1)) == ["cr-block"]


def test_the_largest_reservation_of_an_offering_is_kept() -> None:
    roomy = msgspec.structs.replace(PLAIN, id="cr-other", available_count=9)

    assert kept(a_choice(PLAIN), a_choice(roomy)) == ["cr-other"]
    assert kept(a_choice(PLAIN), a_choice(roomy, zone=B)) == ["cr-plain", "cr-other"]


def test_choices_without_reservation_are_unchanged() -> None:
    choice = LaunchChoice(
        instance_type=a_choice(PLAIN).instance_type,
        offering=Offering(zone=A, capacity_type=ON_DEMAND, price=1),
    )

    assert select_reservations([choice], (PLAIN,)) == (choice,)


@pytest.mark.parametrize(("code", "left"), [("ReservationCapacityExceeded", 0), ("RequestLimitExceeded", 3)])
def test_a_reservation_is_exhausted_only_if_ec2_reports_it(
    moto: MotoAws, process: AwsProcess, code: str, left: int
) -> None:
    room = ReservationCapacity()
    room.update({"cr-plain": 3})
    process.use(room)
    process.account.classes["default"] = EC2NodeClass(capacity_reservations=(PLAIN,))
    moto.capacity.pools.add_limit(CapacityLimit(zone=A))
    moto.capacity.errors = {("m5.large", A): code}
    claim = a_claim(kinds=[label_keys.RESERVED], types=["m5.large"], created=claims(1)[0].created)

    process.together([process.cloud.create(claim)])

    assert room.available("cr-plain") == left


def test_launches_into_a_reservation_reduce_its_capacity(moto: MotoAws, process: AwsProcess) -> None:
    room = ReservationCapacity()
    room.update({"cr-plain": 3})
    process.use(room)
    process.account.classes["default"] = EC2NodeClass(capacity_reservations=(PLAIN,))
    wanted = [
        msgspec.structs.replace(a_claim(f"claim-{number}", kinds=[label_keys.RESERVED]))
        for number in range(2)
    ]

    instances = process.together([process.cloud.create(claim) for claim in wanted])

    kinds = [getattr(instance, "capacity_type", instance) for instance in instances]
    assert kinds == [label_keys.RESERVED] * 2
    assert room.available("cr-plain") == 1
    (request,) = moto.capacity.requests
    assert request["TargetCapacitySpecification"]["DefaultTargetCapacityType"] == "on-demand"


def test_a_terminated_instance_frees_its_reservation(moto: MotoAws, process: AwsProcess) -> None:
    room = ReservationCapacity()
    room.update({"cr-plain": 3})
    process.use(room)
    process.account.classes["default"] = EC2NodeClass(capacity_reservations=(PLAIN,))
    instance = process.do(process.cloud.create(a_claim(kinds=[label_keys.RESERVED])))

    process.do(process.cloud.delete(instance.provider_id))
    ending = room.available("cr-plain")
    for _ in range(2):
        with pytest.raises(InstanceNotFoundError):
            process.do(process.cloud.delete(instance.provider_id))

    assert (ending, room.available("cr-plain")) == (2, 3)
